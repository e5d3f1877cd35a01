"""Which requests to which hosts cost money, and which of those tell what they cost.

A request that is not known to be free is taken to cost: what costs and does not tell (batches, images, sockets) cannot
be held to a budget, so a box with a budget may not send it.
"""

from __future__ import annotations

import enum
import re

from paddock.policy.host import Host
from paddock.policy.pattern import Pattern


class Provider(enum.Enum):
    """Whose prices count."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    GOOGLE = "google"
    OTHER = "other"  # sells models of others too: the dearest that has the name


class Call(enum.Enum):
    FREE = "free"
    MODEL = "model"  # its answer tells what it cost
    BLIND = "blind"  # costs, and nothing tells how much


_HOSTS = {
    "api.anthropic.com": Provider.ANTHROPIC,
    "api.openai.com": Provider.OPENAI,
    "*.api.openai.com": Provider.OPENAI,
    "generativelanguage.googleapis.com": Provider.GOOGLE,
    "openrouter.ai": Provider.OTHER,
    "api.mistral.ai": Provider.OTHER,
    "codestral.mistral.ai": Provider.OTHER,
    "api.x.ai": Provider.OTHER,
    "api.groq.com": Provider.OTHER,
    "api.deepseek.com": Provider.OTHER,
    "api.cerebras.ai": Provider.OTHER,
    "api.together.xyz": Provider.OTHER,
    "api.together.ai": Provider.OTHER,
    "*.githubcopilot.com": Provider.OTHER,
}
_PATTERNS = {Pattern(text): provider for text, provider in _HOSTS.items()}

_MODEL = re.compile(
    r"(?:/[\w.-]+)*/(?:messages|complete|chat/completions|completions|responses|embeddings|fim/completions)"
    r"|/v[0-9a-z]+/(?:models|tunedModels)/[\w.@-]+:(?:generateContent|streamGenerateContent|embedContent)"
)
_FREE = re.compile(
    r"(?:/[\w.-]+)*/(?:messages/count_tokens|responses/input_tokens|moderations|tokenize)"
    r"|/v[0-9a-z]+/models/[\w.@-]+:countTokens"
    r"|(?:/upload)?/v[0-9a-z]+/(?:files|uploads)(?:/.*)?"
)
_ANTHROPIC_FREE = re.compile(r"/(?:api|mcp-registry)/.*")  # settings, policies and telemetry of Claude Code
_OTHER_FREE = re.compile(r"/mcp(?:/.*)?")  # Copilot's tools of GitHub
_GEMINI_MODEL = re.compile(r"/v[0-9a-z]+/(?:models|tunedModels)/([\w.@-]+):\w+")
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS", "DELETE"}


def hosts() -> tuple[str, ...]:
    """Patterns of all hosts that can be metered."""
    return tuple(_HOSTS)


def provider(host: str) -> Provider | None:
    asked = Pattern(Host(host).text)
    return next((found for pattern, found in _PATTERNS.items() if pattern.covers(asked)), None)


def call(owner: Provider, method: str, path: str, *, upgrade: bool = False) -> Call:
    """`path` is without its query, and as the gateway normalised it."""
    if upgrade:
        return Call.BLIND
    if method in _SAFE_METHODS:
        return Call.FREE
    own = {Provider.ANTHROPIC: _ANTHROPIC_FREE, Provider.OTHER: _OTHER_FREE}.get(owner, _FREE)
    if _FREE.fullmatch(path) or own.fullmatch(path):
        return Call.FREE
    return Call.MODEL if method == "POST" and _MODEL.fullmatch(path) else Call.BLIND


def model_in(path: str) -> str:
    """The model that Gemini's paths name; others name it in the body."""
    match = _GEMINI_MODEL.fullmatch(path)
    return match[1] if match else ""
