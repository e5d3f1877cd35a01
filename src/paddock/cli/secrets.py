"""secret set|ls|rm|check. No daemon is needed, one that runs is told of changes, and no value is printed."""

from __future__ import annotations

import contextlib
import json
import os
import sys

from paddock import codec, text
from paddock.cli.main import warn
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.limits import SECRET_BYTES
from paddock.paths import Paths
from paddock.secrets import sources
from paddock.secrets.binding import Binding, Words, bind, check_name
from paddock.secrets.memory import close_memory
from paddock.secrets.record import Backend, Kind
from paddock.secrets.store import opened
from paddock.secrets.value import Secret, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from paddock.client.transport import Transport
    from paddock.secrets.record import Record, Source
    from paddock.secrets.store import Store

_MISSING = 1
_FEW_HOSTS = 2  # in a table


def set_(options: argparse.Namespace) -> int:
    name = check_name(options.name)
    if options.rest:
        hint = "give it on standard input, or run this in a terminal and be asked"
        raise UserError("a value is never given as a word: others could read it", hint=hint, code="usage")
    daemon = greet()
    store = open_store()
    words = Words(
        hosts=options.host,
        headers=options.header,
        env=options.env,
        repos=options.repo,
        body=options.in_body,
        query=options.in_query,
    )
    before = store.find(name)
    binding = before.binding if before and not words.said() else bind(name, words)
    record = store.put(binding, _source(options) or _asked(name))
    print(text.neutralise(said_of(record), 4 * text.LINE_CHARS))
    _warn_if_missing(store, record)
    tell_boxes(daemon, [name])
    return 0


def _source(options: argparse.Namespace) -> Source | None:
    if sum(map(bool, (options.from_env, options.from_command, options.file))) > 1:
        raise UserError("two sources", hint="give one of --from-env, --from-command and --file", code="usage")
    if options.from_env:
        return sources.from_env(options.from_env)
    if options.from_command:
        return sources.from_command(options.from_command, os.environ)
    return sources.from_file(options.file) if options.file else None


def _asked(name: str) -> Secret:
    if sys.stdin is None:
        raise UserError("there is no value", hint="give it on standard input", code="usage")
    if not sys.stdin.isatty():
        return read(sys.stdin.buffer.read(SECRET_BYTES + 3), f"'{name}'")
    import getpass
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return Secret(getpass.getpass(f"value of {name} (not shown): "), f"'{name}'")
        except (EOFError, getpass.GetPassWarning):
            raise UserError("there is no value", hint="give it on standard input", code="usage") from None


def said_of(record: Record) -> str:
    kept = {
        Backend.KEYRING: "kept in the keyring",
        Backend.FILE: "kept in a file that only you can read: no keyring answers",
        None: f"read from {record.source.shown()} at each run",
    }
    bound = record.binding
    scope = ""
    if bound.git:
        scope = f", git {'' if bound.git.write else 'reading '}{', '.join(bound.git.repos)} only"
    return (
        f"{record.name}: {kept[record.source.backend]}; goes to {', '.join(_hosts(bound))}{scope}; "
        f"in a box as {', '.join(bound.env)}"
    )


def _hosts(bound: Binding) -> list[str]:
    """As the user would write them."""
    if (bound.scheme, bound.port) == ("https", 443):
        return list(bound.hosts)
    places = [pattern.text if pattern.port else f"{pattern}:{bound.port}" for pattern in bound.patterns]
    return [f"{bound.scheme}://{place}" for place in places]


def _warn_if_missing(store: Store, record: Record) -> None:
    """What is read later is tried once now, while its user looks."""
    if record.source.kind is Kind.STORED:
        return
    try:
        store.resolve(record.name, os.environ)
    except PaddockError as error:
        warn(error.message)


def ls(options: argparse.Namespace) -> int:
    store = open_store()
    if options.quiet:
        for name in store.names():
            print(name)
        return 0
    records = []
    for name in store.names():
        try:
            records.append(store.record(name))
        except Unavailable as error:
            warn(error.message)
    if options.json:
        print(json.dumps([codec.to_wire(record) for record in records], indent=2))
    elif records:
        print(text.table(map(_row, records), ("NAME", "GOES TO", "IN A BOX", "VALUE FROM", "CHANGED")))
    else:
        print("no secrets; `paddock secret set NAME` keeps one", file=sys.stderr)
    return 0


def _row(record: Record) -> tuple[str, ...]:
    hosts = _hosts(record.binding)
    more = f" +{len(hosts) - _FEW_HOSTS}" if len(hosts) > _FEW_HOSTS else ""
    env = ", ".join(record.binding.env)
    return record.name, ", ".join(hosts[:_FEW_HOSTS]) + more, env, record.source.shown(), record.changed


def rm(options: argparse.Namespace) -> int:
    daemon = greet()
    store = open_store()
    for name in options.names:
        if not store.remove(name):
            warn(f"the keyring may still have the value of '{name}': it did not answer")
    tell_boxes(daemon, options.names)
    return 0


def greet() -> Transport:
    """A connection to the daemon if it runs, made before our memory is closed: it does not talk to a process that it
    cannot see to be outside of every box."""
    from paddock.client import starter
    from paddock.client.transport import Transport

    where = Paths()
    transport = Transport(where)
    found = starter.find(where)
    if found is not None:
        found.close()
        with contextlib.suppress(PaddockError):  # who sets a secret needs none; at the end it is tried again
            transport.call("status", {})
    return transport


def tell_boxes(transport: Transport, names: list[str]) -> None:
    """Boxes that run use the new value from their next request on; one that starts looks for itself."""
    from paddock.client import starter

    found = starter.find(Paths())
    if found is None:
        return
    found.close()
    try:
        transport.call("secrets_changed", {"names": names})
    except PaddockError as error:
        warn(f"running boxes may still use the old value: {error.message}; `paddock stop` ends them")
    finally:
        transport.close()


def check(options: argparse.Namespace) -> int:
    store = open_store()
    problems = {name: _problem(store, name) for name in options.names or store.names()}
    if options.json:
        print(json.dumps([{"name": name, "problem": problem} for name, problem in problems.items()], indent=2))
    elif problems:
        rows = [(name, "missing" if problem else "ok", problem) for name, problem in problems.items()]
        print(text.table(rows, ("NAME", "VALUE", "WHY")))
    else:
        print("no secrets; `paddock secret set NAME` keeps one", file=sys.stderr)
    return _MISSING if any(problems.values()) else 0


def _problem(store: Store, name: str) -> str:
    try:
        store.resolve(name, os.environ)
    except Unavailable as error:
        return error.message
    return ""


def open_store() -> Store:
    close_memory()
    return opened(Paths().secrets, os.environ)
