"""What Copilot's service tells whoever has a GitHub token: who it is, where its API is, and which models there are."""

from __future__ import annotations

from typing import Any, Final

USERS: Final = "api.github.com"
MODELS: Final = "api.individual.githubcopilot.com"
MODEL: Final = "claude-haiku-4.5"
_FAMILY: Final = "individual.githubcopilot.com"
_LIMITS: Final = {"max_context_window_tokens": 200000, "max_prompt_tokens": 160000, "max_output_tokens": 32000}
_SUPPORTS: Final = {"streaming": True, "tool_calls": True, "parallel_tool_calls": True}

_USER: Final[dict[str, Any]] = {
    "login": "shepherd",
    "id": 4217,
    "access_type_sku": "monthly_subscriber_quota",
    "copilot_plan": "individual",
    "chat_enabled": True,
    "cli_enabled": True,
    "is_mcp_enabled": True,
    "organization_login_list": [],
    "organization_list": [],
    "endpoints": {
        "api": f"https://api.{_FAMILY}",
        "proxy": f"https://proxy.{_FAMILY}",
        "telemetry": f"https://telemetry.{_FAMILY}",
        "origin-tracker": f"https://origin-tracker.{_FAMILY}",
    },
}


def _model(name: str) -> dict[str, Any]:
    capabilities = {
        "family": name,
        "limits": _LIMITS,
        "object": "model_capabilities",
        "supports": _SUPPORTS,
        "tokenizer": "o200k_base",
        "type": "chat",
    }
    return {
        "id": name,
        "name": name,
        "object": "model",
        "vendor": "Anthropic",
        "version": name,
        "preview": False,
        "model_picker_enabled": True,
        "is_chat_default": True,
        "is_chat_fallback": True,
        "policy": {"state": "enabled", "terms": ""},
        "billing": {"is_premium": False, "multiplier": 0},
        "capabilities": capabilities,
        "supported_endpoints": ["/chat/completions"],
    }


def told(host: str, path: str) -> dict[str, Any] | None:
    """What is not a model's answer."""
    match host, path:
        case "api.github.com", "/copilot_internal/user":
            return _USER
        case "api.individual.githubcopilot.com", "/models":
            return {"object": "list", "data": [_model(MODEL)]}
        case _:
            return None
