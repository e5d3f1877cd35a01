"""Where a secret may go: hosts, one port, one scheme, the headers that carry it; and what a box knows it as.

A binding is read once, from the words of a user or from a file, and refused whole if anything in it is not plain. There
is no value in it. A secret goes nowhere unless a host is named: neither to every host nor to a whole top-level domain,
and in the clear only where `http://` was written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from paddock.errors import UserError
from paddock.limits import NAME_CHARS, SECRET_HOSTS_MAX
from paddock.policy.host import PORT_MAX
from paddock.policy.pattern import LOCALHOST, Pattern
from paddock.secrets import services
from paddock.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

Scheme = Literal["https", "http"]
_PORTS: dict[str, int] = {"https": 443, "http": 80}

_NAME = re.compile(r"[a-z][a-z0-9._-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEADER = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,64}")  # RFC 9110 5.1, lower case
_REPOSITORY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}/[A-Za-z0-9._-]{1,100}")
# A value there would change where a request goes or where it ends.
_FRAMING = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect"}
)
_SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The repositories that git may use the secret for."""

    repos: tuple[str, ...]
    write: bool = False

    def __post_init__(self) -> None:
        _bounded(self.repos, "repositories")
        for repo in self.repos:
            if not _REPOSITORY.fullmatch(repo) or repo.endswith((".git", "/.", "/..")):
                hint = "write OWNER/NAME, with :ro for reading only"
                raise _refused(f"'{neutralise(repo, _SHOWN_CHARS)}' is not a repository", hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Hosts are canonical patterns of names; they have a port of their own only where that is the binding's."""

    name: str
    hosts: tuple[str, ...]
    port: int = 443
    scheme: Scheme = "https"
    headers: tuple[str, ...] = ()  # none: any that is not for framing
    body: bool = False
    query: bool = False
    env: tuple[str, ...] = ()
    git: Scope | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        for values, what in ((self.hosts, "hosts"), (self.headers, "headers"), (self.env, "variables")):
            _bounded(values, what)
        if not self.hosts:
            raise _refused(f"nothing says where '{self.name}' may go", "name its host: --host api.example.com")
        if not 0 < self.port <= PORT_MAX:
            raise _refused("a port is from 1 to 65535", "write HOST:PORT")
        for text, pattern in zip(self.hosts, self.patterns, strict=True):
            _check_host(pattern, self.port)
            if pattern.text != text:  # two spellings of one host are one too many to compare
                raise _refused(f"'{neutralise(text, _SHOWN_CHARS)}' is not a plain host", f"write {pattern}")
        for header in self.headers:
            _check_header(header)
        for variable in self.env:
            if not _VARIABLE.fullmatch(variable):
                shown = neutralise(variable, _SHOWN_CHARS)
                raise _refused(f"'{shown}' is not a variable", "use letters, digits and underscores")

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        return tuple(map(Pattern, self.hosts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a user may say of a binding, as written."""

    hosts: Sequence[str] = ()
    headers: Sequence[str] = ()
    env: Sequence[str] = ()
    repos: Sequence[str] = ()
    body: bool = False
    query: bool = False

    def said(self) -> bool:
        return bool(self.hosts or self.headers or self.env or self.repos or self.body or self.query)


def is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and len(name) <= NAME_CHARS


def check_name(name: str) -> str:
    """Not quoted in the error: what stands here by mistake may be the value itself."""
    if not is_name(name):
        hint = f"lower-case letters, digits, '.', '_' and '-', at most {NAME_CHARS}; the value is never given as a word"
        raise UserError("that is not a name for a secret", hint=hint, code="bad-name")
    return name


def bind(name: str, words: Words) -> Binding:
    """What the words say, and for what they leave out what is known of the service."""
    service = services.find(check_name(name))
    scope = _scope(words.repos)
    known = () if service is None else service.git_hosts if scope else service.hosts
    if scope and not (words.hosts or known):
        raise _refused(f"'{name}' is not a service with repositories", "name its host too: --host git.example.com")
    hosts, scheme, port = _places(words.hosts or known)
    if scope and scheme != "https":
        raise _refused("git is scoped over https only", "leave out http://")
    return Binding(
        name=name,
        hosts=hosts,
        port=port,
        scheme=scheme,
        headers=_unique(header.strip().lower() for header in words.headers) or (service.headers if service else ()),
        body=words.body,
        query=words.query,
        env=_unique(words.env) or (service.env if service else (default_variable(name),)),
        git=scope,
    )


def default_variable(name: str) -> str:
    word = re.sub(r"[^A-Z0-9]", "_", name.upper())
    return word if word.endswith(("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")) else f"{word}_API_KEY"


def _places(texts: Sequence[str]) -> tuple[tuple[str, ...], Scheme, int]:
    places = [_place(text) for text in texts]
    if len({(scheme, port) for _, scheme, port in places}) > 1:
        raise _refused("the hosts of one secret have one scheme and one port", "set a second secret for the other")
    _, scheme, port = places[0] if places else ("", "https", 443)
    return _unique(host for host, _, _ in places), scheme, port


def _place(text: str) -> tuple[str, Scheme, int]:
    scheme, slashes, rest = text.partition("://")
    if not slashes:
        scheme, rest = "https", text
    if scheme not in _PORTS:
        shown = neutralise(text, _SHOWN_CHARS)
        raise _refused(f"'{shown}' is not a host", "write api.example.com or https://HOST:PORT")
    pattern = Pattern(rest.removesuffix("/") if slashes else rest)
    port = pattern.port or _PORTS[scheme]
    host = pattern.text
    if pattern.port and pattern.name != LOCALHOST:  # which has no form without a port
        host = host.removesuffix(f":{pattern.port}")
    return host, "http" if scheme == "http" else "https", port


def _scope(repos: Sequence[str]) -> Scope | None:
    if not repos:
        return None
    reading = [repo.endswith(":ro") for repo in repos]
    if len(set(reading)) > 1:
        raise _refused("one secret reads its repositories or writes them", "set a second secret for the others")
    return Scope(repos=_unique(repo.removesuffix(":ro").removesuffix(".git") for repo in repos), write=not reading[0])


def _check_host(pattern: Pattern, port: int) -> None:
    if pattern.port not in {0, port}:
        raise _refused(f"{pattern} is not at port {port}", "all hosts of a secret have its port")
    if pattern.network is not None:  # nobody's certificate says whose an address is
        raise _refused(f"{pattern} is an address", "name the hosts that may get the secret")
    if not pattern.name:
        raise _refused("a secret cannot go to every host", "name the hosts that may get it")
    if pattern.wildcard and "." not in pattern.name:
        raise _refused(f"{pattern} is a whole domain of others", "name the hosts that may get the secret")


def _check_header(header: str) -> None:
    if not _HEADER.fullmatch(header):
        shown = neutralise(header, _SHOWN_CHARS)
        raise _refused(f"'{shown}' is not the name of a header", "write the name alone: --header X-Api-Key")
    if header in _FRAMING or header.startswith("proxy-"):
        raise _refused(f"the header {header} cannot carry a secret", "name the one that the service reads")


def _bounded(values: Sequence[str], what: str) -> None:
    if len(values) > SECRET_HOSTS_MAX:
        raise _refused(f"over {SECRET_HOSTS_MAX} {what}", "set several secrets")


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _refused(message: str, hint: str) -> UserError:
    return UserError(message, hint=hint, code="bad-binding")
