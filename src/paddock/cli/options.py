"""Words of the command line become values: environment, mounts, limits, requests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock import paths, text
from paddock.errors import UserError
from paddock.model import BoxRequest, EngineName, Limits, Mount

if TYPE_CHECKING:
    import argparse

_PASSED = (
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "COLORTERM",
    "NO_COLOR",
)  # how the caller's terminal reads and shows text
_ENV_FILE_BYTES = 1 << 20


def environment(options: argparse.Namespace) -> dict[str, str]:
    values: dict[str, str] = {}
    for path in options.env_file:
        values.update(_env_file(path))
    for word in options.env:
        key, equals, value = word.partition("=")
        if equals:
            values[key] = value
        elif key in os.environ:
            values[key] = os.environ[key]
        else:
            raise UserError(
                f"{key!r} is not set in your environment", hint=f"give a value: -e {key}=...", code="no-env"
            )
    return values


def locale_environment() -> dict[str, str]:
    return {key: os.environ[key] for key in _PASSED if os.environ.get(key)}


def _env_file(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read(_ENV_FILE_BYTES).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}", hint="give a file of K=V lines", code="bad-env-file") from error
    values: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        key, equals, value = stripped.partition("=")
        if not equals:
            raise UserError(
                f"{path}:{number}: {stripped[:40]!r} is not K=V", hint="one K=V a line", code="bad-env-file"
            )
        values[key.strip()] = value
    return values


def volumes(words: list[str]) -> tuple[Mount, ...]:
    mounts = []
    for word in words:
        parts = word.split(":")
        mode = parts.pop() if len(parts) == 3 else "rw"
        if len(parts) != 2 or mode not in {"ro", "rw"} or not all(parts):
            raise UserError(f"{word!r} is not a mount", hint="use HOST:BOX or HOST:BOX:ro", code="bad-mount")
        source, target = parts
        mounts.append(Mount(source=os.path.abspath(os.path.expanduser(source)), target=target, read_only=mode == "ro"))
    return tuple(mounts)


def extras(words: list[str]) -> tuple[Mount, ...]:
    mounts = []
    for word in words:
        read_only = word.endswith(":ro")
        path = os.path.abspath(os.path.expanduser(word.removesuffix(":ro")))
        mounts.append(Mount(source=path, target="", read_only=read_only))
    return tuple(mounts)


def limits(options: argparse.Namespace) -> Limits:
    return Limits(
        memory_bytes=text.parse_size(options.memory) if options.memory else None,
        cpus=_number(options.cpus, "--cpus") if options.cpus else None,
        pids=int(_number(options.pids, "--pids")) if options.pids else None,
        disk_bytes=text.parse_size(options.disk) if options.disk else None,
        wall_s=text.parse_duration(options.timeout) if options.timeout else None,
    )


def _number(word: str, what: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e6:
        raise UserError(f"{what} {word!r} is not a positive number", hint=f"for example {what} 2", code="bad-limit")
    return value


def engine(word: str) -> EngineName:
    try:
        return EngineName(word)
    except ValueError:
        known = ", ".join(name.value for name in EngineName)
        raise UserError(
            f"engine {word!r} is not available in this version", hint=f"available: {known}", code="no-engine"
        ) from None


def request(options: argparse.Namespace, *, agent: str, ephemeral: bool) -> BoxRequest:
    return BoxRequest(
        agent=agent,
        name=options.name,
        workspace=os.path.abspath(os.path.expanduser(options.workspace or ".")),
        mounts=(*extras(options.extra), *volumes(options.volume)),
        engine=engine(options.engine),
        env=environment(options),
        limits=limits(options),
        workdir=options.workdir,
        ephemeral=ephemeral,
        caller_path=os.environ.get("PATH", ""),
        caller_home=paths.home_directory(),
    )
