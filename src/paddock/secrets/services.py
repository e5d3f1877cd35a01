"""Services whose secrets need no explanation: where each goes, in which headers, what a box's programs call it, and
what it looks like.

A host stands here only if its operator is the one who issued the secret. Headers are the ones the service reads: a
placeholder in any other, such as one that the service shows to others, stays a placeholder.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paddock.limits import SECRET_BYTES, SECRET_GROWTH_MAX
from paddock.secrets.placeholder import HEX, URLSAFE, Shape

_BEARER = ("authorization",)
_KEY_OR_BEARER = ("x-api-key", "authorization")
_ALIASES = {"gemini": "google"}
_UNKNOWN = Shape(random_chars=SECRET_BYTES // SECRET_GROWTH_MAX)  # so that a value of any length may take its place
_GIT_HOSTS = {"github": ("github.com",), "gitlab": ("gitlab.com",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    name: str
    hosts: tuple[str, ...]
    env: tuple[str, ...]  # what a box has the placeholder in
    also: tuple[str, ...] = ()  # other variables that people export it as
    headers: tuple[str, ...] = _BEARER
    shape: Shape = field(default_factory=Shape)

    @property
    def git_hosts(self) -> tuple[str, ...]:
        """Where repositories are reached by git, and nothing else is: there a scope can be held."""
        return _GIT_HOSTS.get(self.name, ())


def find(name: str) -> Service | None:
    return _BY_NAME.get(_ALIASES.get(name, name))


def names() -> tuple[str, ...]:
    return tuple(_BY_NAME)


def shape_of(name: str) -> Shape:
    service = find(name)
    return service.shape if service else _UNKNOWN


def same(name: str) -> tuple[str, ...]:
    """A name and the others of the same service: who set `google` may ask for `gemini`."""
    service = find(name)
    known = () if service is None else (service.name, *(alias for alias in _ALIASES if find(alias) is service))
    return tuple(dict.fromkeys((name, *known)))


SERVICES = (
    Service(
        name="anthropic",
        hosts=("api.anthropic.com",),
        env=("ANTHROPIC_API_KEY",),
        headers=_KEY_OR_BEARER,
        shape=Shape(prefix="sk-ant-api03-", random_chars=93, alphabet=URLSAFE, suffix="AA"),
    ),
    Service(
        name="claude",  # the long-lived token of `claude setup-token`
        hosts=("api.anthropic.com",),
        env=("CLAUDE_CODE_OAUTH_TOKEN",),
        headers=_BEARER,
        shape=Shape(prefix="sk-ant-oat01-", random_chars=93, alphabet=URLSAFE, suffix="AA"),
    ),
    Service(
        name="openai",
        hosts=("api.openai.com", "*.api.openai.com"),
        env=("OPENAI_API_KEY", "CODEX_API_KEY"),
        shape=Shape(prefix="sk-proj-", random_chars=156, alphabet=URLSAFE),
    ),
    Service(
        name="google",
        hosts=("generativelanguage.googleapis.com",),
        env=("GEMINI_API_KEY",),
        also=("GOOGLE_API_KEY",),
        headers=("x-goog-api-key",),
        shape=Shape(prefix="AIzaSy", random_chars=33, alphabet=URLSAFE),
    ),
    Service(
        name="github",
        hosts=(
            "github.com",
            "api.github.com",
            "uploads.github.com",
            "codeload.github.com",
            "gist.github.com",
            "*.githubusercontent.com",
        ),
        env=("GH_TOKEN", "GITHUB_TOKEN"),
        shape=Shape(prefix="ghp_", random_chars=36),
    ),
    Service(
        name="copilot",
        hosts=("api.github.com", "*.githubcopilot.com"),
        env=("COPILOT_GITHUB_TOKEN",),
        shape=Shape(prefix="github_pat_", random_chars=82),
    ),
    Service(
        name="gitlab",
        hosts=("gitlab.com",),
        env=("GITLAB_TOKEN",),
        headers=("private-token", "authorization"),
        shape=Shape(prefix="glpat-", random_chars=24),
    ),
    Service(
        name="huggingface",
        hosts=("huggingface.co", "*.huggingface.co"),
        env=("HF_TOKEN",),
        also=("HUGGING_FACE_HUB_TOKEN",),
        shape=Shape(prefix="hf_", random_chars=34),
    ),
    Service(
        name="npm",
        hosts=("*.npmjs.org",),
        env=("NPM_TOKEN",),
        also=("NODE_AUTH_TOKEN",),
        shape=Shape(prefix="npm_", random_chars=36),
    ),
    Service(
        name="pypi",
        hosts=("*.pypi.org",),
        env=("TWINE_PASSWORD", "UV_PUBLISH_TOKEN"),
        shape=Shape(prefix="pypi-", random_chars=160, alphabet=URLSAFE),
    ),
    Service(
        name="openrouter",
        hosts=("openrouter.ai",),
        env=("OPENROUTER_API_KEY",),
        shape=Shape(prefix="sk-or-v1-", random_chars=64, alphabet=HEX),
    ),
    Service(
        name="mistral",
        hosts=("api.mistral.ai", "codestral.mistral.ai"),
        env=("MISTRAL_API_KEY",),
        shape=Shape(random_chars=32),
    ),
    Service(
        name="xai",
        hosts=("api.x.ai", "*.api.x.ai"),
        env=("XAI_API_KEY",),
        shape=Shape(prefix="xai-", random_chars=80),
    ),
    Service(
        name="groq",
        hosts=("api.groq.com",),
        env=("GROQ_API_KEY",),
        shape=Shape(prefix="gsk_", random_chars=52),
    ),
    Service(
        name="deepseek",
        hosts=("api.deepseek.com",),
        env=("DEEPSEEK_API_KEY",),
        headers=_KEY_OR_BEARER,
        shape=Shape(prefix="sk-", random_chars=32, alphabet=HEX),
    ),
    Service(
        name="cerebras",
        hosts=("api.cerebras.ai",),
        env=("CEREBRAS_API_KEY",),
        shape=Shape(prefix="csk-", random_chars=48),
    ),
    Service(
        name="together",
        hosts=("api.together.xyz", "api.together.ai"),
        env=("TOGETHER_API_KEY",),
        shape=Shape(random_chars=64, alphabet=HEX),
    ),
)
_BY_NAME = {service.name: service for service in SERVICES}
