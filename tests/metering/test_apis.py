"""What costs is known, what is not known to be free costs, and other hosts are nobody's business."""

from __future__ import annotations

import pytest

from paddock.metering import apis
from paddock.metering.apis import Call, Provider
from paddock.policy.pattern import Pattern


@pytest.mark.parametrize(
    ("host", "owner"),
    [
        ("api.anthropic.com", Provider.ANTHROPIC),
        ("API.Anthropic.com.", Provider.ANTHROPIC),
        ("api.openai.com", Provider.OPENAI),
        ("eu.api.openai.com", Provider.OPENAI),
        ("generativelanguage.googleapis.com", Provider.GOOGLE),
        ("openrouter.ai", Provider.OTHER),
        ("api.individual.githubcopilot.com", Provider.OTHER),
        ("example.com", None),
        ("api.anthropic.com.example.com", None),
        ("192.0.2.1", None),
    ],
)
def test_a_host_has_its_provider(host: str, owner: Provider | None) -> None:
    assert apis.provider(host) is owner


def test_every_host_is_a_pattern() -> None:
    assert all(Pattern(text).text == text for text in apis.hosts())


@pytest.mark.parametrize(
    ("owner", "method", "path", "kind"),
    [
        (Provider.ANTHROPIC, "POST", "/v1/messages", Call.MODEL),
        (Provider.ANTHROPIC, "POST", "/v1/messages/count_tokens", Call.FREE),
        (Provider.ANTHROPIC, "POST", "/v1/messages/batches", Call.BLIND),
        (Provider.ANTHROPIC, "GET", "/v1/messages/batches/x/results", Call.FREE),
        (Provider.ANTHROPIC, "POST", "/api/event_logging/batch", Call.FREE),
        (Provider.ANTHROPIC, "GET", "/api/claude_code/settings", Call.FREE),
        (Provider.ANTHROPIC, "HEAD", "/", Call.FREE),
        (Provider.OPENAI, "POST", "/v1/chat/completions", Call.MODEL),
        (Provider.OPENAI, "POST", "/v1/responses", Call.MODEL),
        (Provider.OPENAI, "POST", "/v1/embeddings", Call.MODEL),
        (Provider.OPENAI, "POST", "/v1/files", Call.FREE),
        (Provider.OPENAI, "POST", "/v1/batches", Call.BLIND),
        (Provider.OPENAI, "POST", "/v1/images/generations", Call.BLIND),
        (Provider.OPENAI, "POST", "/v1/something/new", Call.BLIND),
        (Provider.OPENAI, "POST", "/api/event_logging", Call.BLIND),
        (Provider.OPENAI, "PUT", "/v1/responses", Call.BLIND),
        (Provider.OPENAI, "POST", "/v1/responses/", Call.BLIND),
        (Provider.OPENAI, "POST", "/v1/responses\n", Call.BLIND),
        (Provider.GOOGLE, "POST", "/v1beta/models/gemini-2.5-pro:generateContent", Call.MODEL),
        (Provider.GOOGLE, "POST", "/v1beta/models/gemini-2.5-pro:streamGenerateContent", Call.MODEL),
        (Provider.GOOGLE, "POST", "/v1beta/models/gemini-2.5-pro:countTokens", Call.FREE),
        (Provider.GOOGLE, "POST", "/v1beta/models/gemini-2.5-pro:batchGenerateContent", Call.BLIND),
        (Provider.GOOGLE, "POST", "/v1beta/cachedContents", Call.BLIND),
        (Provider.OTHER, "POST", "/api/v1/chat/completions", Call.MODEL),
        (Provider.OTHER, "POST", "/chat/completions", Call.MODEL),
        (Provider.OTHER, "POST", "/mcp/readonly", Call.FREE),
        (Provider.OTHER, "POST", "/mcpx", Call.BLIND),
        (Provider.OPENAI, "POST", "/mcp/readonly", Call.BLIND),
        (Provider.OTHER, "POST", "/anthropic/v1/messages", Call.MODEL),
    ],
)
def test_a_request_is_free_tells_its_cost_or_does_not(owner: Provider, method: str, path: str, kind: Call) -> None:
    assert apis.call(owner, method, path) is kind


def test_a_socket_does_not_tell() -> None:
    assert apis.call(Provider.OPENAI, "GET", "/v1/responses", upgrade=True) is Call.BLIND


def test_gemini_names_its_model_in_the_path() -> None:
    assert apis.model_in("/v1beta/models/gemini-2.5-pro:generateContent") == "gemini-2.5-pro"
    assert apis.model_in("/v1/messages") == ""
