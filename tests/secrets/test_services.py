"""The table of services: complete, without doubles, and each entry a binding that holds."""

from __future__ import annotations

import re

import pytest

from paddock.limits import SECRET_BYTES, SECRET_GROWTH_MAX
from paddock.policy.pattern import Pattern
from paddock.secrets import services
from paddock.secrets.binding import Words, bind
from paddock.secrets.placeholder import make


@pytest.mark.parametrize("service", services.SERVICES, ids=services.names())
def test_every_service_is_a_whole_binding(service: services.Service) -> None:
    binding = bind(service.name, Words())
    assert (binding.hosts, binding.headers, binding.env) == (service.hosts, service.headers, service.env)
    assert (binding.scheme, binding.port, binding.body, binding.query) == ("https", 443, False, False)
    assert binding.headers
    assert all(pattern.name.count(".") >= 1 for pattern in binding.patterns)


@pytest.mark.parametrize("service", services.SERVICES, ids=services.names())
def test_every_placeholder_begins_like_the_real_thing(service: services.Service) -> None:
    text = make(services.shape_of(service.name))
    assert text.startswith(service.shape.prefix)
    assert len(text) == len(service.shape.prefix) + service.shape.random_chars + len(service.shape.suffix)


def test_no_variable_and_no_name_stands_for_two() -> None:
    variables = [variable for service in services.SERVICES for variable in (*service.env, *service.also)]
    assert len(set(variables)) == len(variables)
    assert len(set(services.names())) == len(services.SERVICES)


@pytest.mark.parametrize(
    ("name", "variable", "host"),
    [
        ("anthropic", "ANTHROPIC_API_KEY", "api.anthropic.com:443"),
        ("claude", "CLAUDE_CODE_OAUTH_TOKEN", "api.anthropic.com:443"),
        ("openai", "OPENAI_API_KEY", "api.openai.com:443"),
        ("google", "GEMINI_API_KEY", "generativelanguage.googleapis.com:443"),
        ("gemini", "GEMINI_API_KEY", "generativelanguage.googleapis.com:443"),
        ("github", "GH_TOKEN", "raw.githubusercontent.com:443"),
        ("github", "GITHUB_TOKEN", "api.github.com:443"),
        ("copilot", "COPILOT_GITHUB_TOKEN", "api.githubcopilot.com:443"),
        ("gitlab", "GITLAB_TOKEN", "gitlab.com:443"),
        ("npm", "NPM_TOKEN", "packages.npmjs.org:443"),
        ("pypi", "TWINE_PASSWORD", "new.pypi.org:443"),
    ],
)
def test_an_agent_finds_its_key_in_its_variable_and_may_use_it_there(name: str, variable: str, host: str) -> None:
    binding = bind(name, Words())
    assert variable in binding.env
    assert any(pattern.covers(Pattern(host)) for pattern in binding.patterns)


@pytest.mark.parametrize("name", services.names())
@pytest.mark.parametrize("host", ["evil.example", "api.anthropic.com.evil.example", "notgithub.com", "github.io"])
def test_no_service_covers_the_host_of_another(name: str, host: str) -> None:
    assert not any(pattern.meets(Pattern(host)) for pattern in bind(name, Words()).patterns)


def test_an_unknown_name_has_a_plain_placeholder() -> None:
    assert services.find("shop") is None
    made = make(services.shape_of("shop"))
    assert re.fullmatch(r"[A-Za-z0-9]+", made)
    assert len(made) * SECRET_GROWTH_MAX >= SECRET_BYTES, "the longest value may stand in its place"
