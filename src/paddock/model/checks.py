"""What a name, a variable, a word or a port may be, whoever says it."""

from __future__ import annotations

import re

from paddock import limits
from paddock.errors import UserError

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_.-]{0,62}[a-z0-9])?\Z")
_ENV_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PORT_MAX = 65535


def check_name(name: str) -> str:
    """A box name is lower-case ASCII, so it is safe in a path, a table, a host name and a branch name."""
    if not _NAME.match(name) or ".." in name or name.endswith(".lock"):  # git refuses a ref that ends in .lock
        raise UserError(
            f"{name[:80]!r} is not a box name",
            hint=f"use 1 to {limits.NAME_CHARS} of a-z 0-9 _ . - with a letter or digit at both ends, not .. or .lock",
            code="bad-name",
        )
    return name


def check_env(env: dict[str, str]) -> dict[str, str]:
    total_bytes = 0
    for key, value in env.items():
        value_bytes = size_bytes(value)
        if not _ENV_KEY.match(key) or value_bytes is None:
            raise UserError(f"{key[:80]!r} is not an environment variable", hint="use NAME=value", code="bad-env")
        total_bytes += len(key) + value_bytes
    if len(env) > limits.ENV_ENTRIES or total_bytes > limits.ENV_BYTES:
        hint = f"at most {limits.ENV_ENTRIES} variables and {limits.ENV_BYTES // 1024} KiB"
        raise UserError("the environment is too large", hint=hint, code="bad-env")
    return env


def size_bytes(text: str) -> int | None:
    """How many bytes execve would see; None if it cannot: a NUL byte, or a surrogate that stands for no byte."""
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    return None if b"\0" in data else len(data)


def check_port(port: int) -> int:
    if not 0 < port <= _PORT_MAX:
        raise UserError(f"{port} is not a port", hint="use 1 to 65535", code="bad-port")
    return port
