"""What changed in a package manifest or a lock file that a package manager would run or fetch.

Only what two parsed versions differ in is told. A file that cannot be parsed, or says a thing twice, is told as such:
the tools of the host may read it another way than we do.
"""

from __future__ import annotations

import json
import re

from paddock.policy.positions import is_deep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN = 5
_URL = re.compile(rb"(?:git\+)?([a-z][a-z0-9+.-]*)://([^/\s\"'<>)#?]+)|\bgit@([a-z0-9.-]+):", re.IGNORECASE)
_LOCAL_SOURCE = re.compile(rb"\b(?:file|link|portal|exec|patch):[^\s\"']*", re.IGNORECASE)
# Where packages come from when nobody says otherwise: these domains and what is below them.
_USUAL_DOMAINS = (
    b"npmjs.org", b"yarnpkg.com", b"crates.io", b"pypi.org", b"pythonhosted.org", b"rubygems.org", b"golang.org",
    b"terraform.io", b"opencollective.com", b"tidelift.com", b"jsr.io",
)  # fmt: skip
_USUAL_ENDINGS = tuple(b"." + name for name in _USUAL_DOMAINS)
_PLAIN_HOST = re.compile(rb"[a-z0-9.-]+")  # a backslash, say, ends a host for some programs
_SAFE_SCHEMES = frozenset({b"https", b"git+https"})

_NPM_KEYS = (
    "scripts", "bin", "gypfile", "main", "exports", "workspaces", "packageManager", "devEngines", "overrides",
    "resolutions", "publishConfig", "husky", "lint-staged", "pre-commit", "simple-git-hooks", "jest", "babel",
    "eslintConfig", "prettier", "pnpm", "browserslist", "config", "engines", "trustedDependencies", "type",
)  # fmt: skip
_NPM_DEPENDENCIES = (
    "dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "bundledDependencies",
    "bundleDependencies",
)  # fmt: skip
_PYTHON_KEYS = ("build-system", "tool", "project.scripts", "project.entry-points", "project.gui-scripts")
_HARMLESS_TOOLS = frozenset({"ruff", "black", "isort", "mypy", "pyright", "towncrier", "codespell", "typos", "djlint"})
_CARGO_KEYS = ("build-dependencies", "patch", "replace", "profile", "package.build", "package.links", "lib.proc-macro")


class Unclear(Exception):
    """The text has no one meaning."""


def package_json(old: bytes | None, new: bytes) -> list[str]:
    before, after = _json(old) if old is not None else {}, _json(new)
    said = [f"changes {key!r}" for key in _NPM_KEYS if before.get(key) != after.get(key)]
    for key in _NPM_DEPENDENCIES:
        was, now = _mapping(before.get(key)), _mapping(after.get(key))
        said += [
            f"takes {name!r} from {value!r}"
            for name, value in now.items()
            if was.get(name) != value and _is_odd_source(value)
        ]
    return _few(said)


def pyproject(old: bytes | None, new: bytes) -> list[str]:
    before, after = _toml(old) if old is not None else {}, _toml(new)
    said = [f"changes {key!r}" for key in _PYTHON_KEYS if key != "tool" and _get(before, key) != _get(after, key)]
    was, now = _mapping(before.get("tool")), _mapping(after.get("tool"))
    names = sorted({*was, *now} - _HARMLESS_TOOLS)
    said += [f"changes 'tool.{name}'" for name in names if was.get(name) != now.get(name)]
    said += _odd_requirements(before, after)
    return _few(said)


def cargo(old: bytes | None, new: bytes) -> list[str]:
    before, after = _toml(old) if old is not None else {}, _toml(new)
    said = [f"changes {key!r}" for key in _CARGO_KEYS if _get(before, key) != _get(after, key)]
    for key in ("dependencies", "dev-dependencies"):
        was, now = _mapping(before.get(key)), _mapping(after.get(key))
        for name, value in now.items():
            if was.get(name) != value and set(_mapping(value)) & {"git", "path", "registry"}:
                said.append(f"takes {name!r} from elsewhere than crates.io")
    return _few(said)


def lockfile(name: str, old: bytes | None, new: bytes) -> list[str]:
    """New places that packages come from, and for npm also changed digests and new install scripts."""
    if b"\0" in new:
        return ["is binary, so its sources cannot be compared"]
    was, now = _sources(old or b""), _sources(new)
    fresh = {source for source in now - was if not _is_usual(*source)}
    said = [f"takes packages from {_text(scheme)}://{_text(host)}" for scheme, host in sorted(fresh)]
    local = set(_LOCAL_SOURCE.findall(new)) - set(_LOCAL_SOURCE.findall(old or b""))
    said += [f"takes a package from {_text(place)!r}" for place in sorted(local)[:_SHOWN]]
    if name in {"package-lock.json", "npm-shrinkwrap.json"}:
        said += _npm_lock(old, new)
    return _few(said)


def _is_usual(scheme: bytes, host: bytes) -> bool:
    is_plain = scheme in _SAFE_SCHEMES and _PLAIN_HOST.fullmatch(host)
    return bool(is_plain) and (b"." + host).endswith(_USUAL_ENDINGS)


def go_mod(old: bytes | None, new: bytes) -> list[str]:
    """Directives other than plain requirements: where modules come from and which programs belong to the module."""

    def directives(text: bytes) -> set[bytes]:
        return {line.strip() for line in text.splitlines() if b"=>" in line or line.startswith((b"tool", b"godebug"))}

    fresh = directives(new) - directives(old or b"")
    return _few([f"says {_text(line)!r}" for line in sorted(fresh)])


READERS: dict[str, Callable[[bytes | None, bytes], list[str]]] = {
    "package.json": package_json,
    "pyproject.toml": pyproject,
    "cargo.toml": cargo,
    "go.mod": go_mod,
}


def _npm_lock(old: bytes | None, new: bytes) -> list[str]:
    was = _mapping((_json(old) if old is not None else {}).get("packages"))
    now = _mapping(_json(new).get("packages"))
    said = []
    for name, value in now.items():
        before, after = _mapping(was.get(name)), _mapping(value)
        if before == after or not name:
            continue
        if before.get("version") == after.get("version") and before.get("integrity") != after.get("integrity"):
            said.append(f"gives {name!r} other content under the same version")
        elif after.get("resolved") and not after.get("integrity") and not after.get("link"):
            said.append(f"takes {name!r} without a digest")
        if after.get("hasInstallScript") and not before.get("hasInstallScript"):
            said.append(f"lets {name!r} run a program when it is installed")
    return said


def _odd_requirements(before: dict[str, object], after: dict[str, object]) -> list[str]:
    def flat(value: object) -> set[str]:
        if isinstance(value, str):
            return {value}
        if isinstance(value, dict):
            return {one for item in value.values() for one in flat(item)}
        return {one for item in value for one in flat(item)} if isinstance(value, list) else set()

    keys = ("project.dependencies", "project.optional-dependencies", "dependency-groups")
    was = {one for key in keys for one in flat(_get(before, key))}
    now = {one for key in keys for one in flat(_get(after, key))}
    return [f"takes a package from {one!r}" for one in sorted(now - was) if "@" in one and ":" in one]


def _is_odd_source(value: object) -> bool:
    return not isinstance(value, str) or ":" in value or "/" in value


def _sources(text: bytes) -> set[tuple[bytes, bytes]]:
    found = set()
    for match in _URL.finditer(text):
        if match[3]:
            found.add((b"ssh", match[3].lower()))
        else:
            found.add((match[1].lower(), match[2].lower()))
    return found


def _json(text: bytes) -> dict[str, object]:
    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise Unclear("says a key twice")
        return dict(pairs)

    try:
        return _mapping(json.loads(text, object_pairs_hook=once))
    except (ValueError, RecursionError) as error:
        raise Unclear("is not JSON that we can read") from error


def _toml(text: bytes) -> dict[str, object]:
    import tomllib

    try:
        decoded = text.decode("utf-8")
        if is_deep(decoded):  # it would take gigabytes
            raise Unclear("has a key of too many parts")
        return tomllib.loads(decoded)
    except (ValueError, RecursionError) as error:
        raise Unclear("is not TOML that we can read") from error


def _get(data: dict[str, object], key: str) -> object:
    value: object = data
    for part in key.split("."):
        value = _mapping(value).get(part)
    return value


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _few(said: list[str]) -> list[str]:
    return said if len(said) <= _SHOWN else [*said[:_SHOWN], f"and {len(said) - _SHOWN} more"]
