"""diff, apply, discard, git."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from paddock import codec, text
from paddock.cli import paint
from paddock.cli.main import warn
from paddock.client import Paddock
from paddock.errors import UserError
from paddock.workspace import textdiff

if TYPE_CHECKING:
    import argparse

    from paddock.client import Box
    from paddock.client.reviewing import Applied
    from paddock.workspace.plan import Plan, Withheld
    from paddock.workspace.review import Result

_PATH_CHARS = 1024
_INCOMPLETE = 1
_HINTS = {"danger": "; name its path to apply it", "conflict": "; --merge tries to keep both"}


def diff(options: argparse.Namespace) -> int:
    if options.stat + options.names + options.json > 1:
        raise UserError("two forms", hint="give one of --stat, --names, --json", code="usage")
    with Paddock() as paddock:
        box = paddock.get(options.box)
        found = box.diff(_inside(box, options.paths), lines=not (options.stat or options.names))
    if options.json:
        print(json.dumps([codec.to_wire(one) for one in found], indent=2))
    elif not found:
        print("no changes", file=sys.stderr)
    elif options.stat:
        print("\n".join(textdiff.stat_lines(found)))
    elif options.names:
        print("\n".join(map(textdiff.name_line, found)))
    else:
        paint_lines = paint.painted if paint.is_wanted() else iter
        print("\n\n".join("\n".join(paint_lines(one.lines)) for one in found))
    return 0


def apply(options: argparse.Namespace) -> int:
    if options.undo:
        return _undo(options)
    with Paddock() as paddock:
        box = paddock.get(options.box)
        paths = _inside(box, options.paths)
        if options.all and paths:
            raise UserError("--all and paths exclude each other", hint="give one", code="usage")
        if not (options.all or paths or options.dry_run or sys.stdin.isatty()):
            hint = "name paths, or --all; `paddock diff` shows what there is"
            raise UserError("nothing was chosen", hint=hint, code="usage")
        ask_all = not (options.all or paths or options.dry_run)
        named = set(paths)
        done = box.apply(
            paths,
            accept=lambda _plan, danger: _accepts(danger, named, options),
            confirm=_chosen if ask_all else None,
            merge=options.merge,
            dry_run=options.dry_run,
        )
    _tell(done, dry_run=options.dry_run)
    return 0 if done.is_whole else _INCOMPLETE


def discard(options: argparse.Namespace) -> int:
    with Paddock() as paddock:
        box = paddock.get(options.box)
        paths = _inside(box, options.paths)
        what = "what was named" if paths else "everything"
        if not paths and not options.force and not _confirmed(f"drop {what} that {box.name} changed"):
            raise UserError("not confirmed", hint="name paths, or `paddock discard -f`", code="not-confirmed")
        box.discard(paths)
    return 0


def git(options: argparse.Namespace) -> int:
    if options.what not in {"log", "fetch"}:
        raise UserError(f"unknown verb {options.what!r}", hint="log or fetch", code="usage")
    with Paddock() as paddock:
        box = paddock.get(options.box)
        return _fetch(box, options) if options.what == "fetch" else _log(box, options)


def _fetch(box: Box, options: argparse.Namespace) -> int:
    found = box.git_fetch()
    if options.json:
        print(json.dumps(codec.to_wire(found), indent=2))
        return 0
    for one in found.arrived:
        print(f"{one.oid[:12]} {one.ref}")
    for item in found.skipped:
        warn(f"{item.path} did not come home: {item.why}")
    if not found.arrived:
        print("no new commits", file=sys.stderr)
    return 0


def _log(box: Box, options: argparse.Namespace) -> int:
    found = box.git_log()
    if options.json:
        print(json.dumps([codec.to_wire(one) for one in found], indent=2))
        return 0
    for one in found:
        head = text.neutralise(f"{one.oid[:12]} {one.date[:10]}")  # git's words, but made from the box's
        print(f"{head} {text.neutralise(one.author, 40)}: {text.neutralise(one.subject)}")
    if not found:
        print("no commits came home yet", file=sys.stderr)
    return 0


# -- asking ------------------------------------------------------------------------------------------------------------


def _chosen(plan: Plan) -> bool:
    """A yes to exactly these: a box that still runs changes nothing about it."""
    if not plan.operations:
        print("no changes", file=sys.stderr)
        return False
    dangers = {item.path for item in plan.dangers}
    for one in plan.operations:
        mark = "!" if one.path in dangers else " "
        print(f"{mark} {text.neutralise(str(one), _PATH_CHARS)}", file=sys.stderr)
    if not _confirmed(f"apply these {len(plan.operations)} changes"):
        raise UserError("not confirmed", hint="name the paths to apply", code="not-confirmed")
    return True


def _accepts(danger: Withheld, named: set[str], options: argparse.Namespace) -> bool:
    """A yes to one dangerous change: its own path on the command line, or an answer on the terminal."""
    if danger.path in named:
        return True
    if options.dry_run or options.all or not sys.stdin.isatty():
        return False
    return _confirmed(f"{text.neutralise(danger.path, _PATH_CHARS)}: {text.neutralise(danger.reason)}\napply it")


def _confirmed(what: str) -> bool:
    if not sys.stdin.isatty():
        return False
    print(f"{what}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


# -- telling -----------------------------------------------------------------------------------------------------------


def _tell(done: Applied, *, dry_run: bool) -> None:
    for earlier in done.recovered:
        _tell_result(earlier, "applied before the interruption")
    if dry_run:
        for operation in done.plan.operations:
            print(text.neutralise(str(operation), _PATH_CHARS))
    elif done.result:
        _tell_result(done.result, "applied")
    for merged in done.merged:
        _tell_result(merged, "merged")
    for late in done.rewritten:
        warn(f"written again: {late.path}: {late.error}")
    _tell_withheld(done.plan)


def _tell_withheld(plan: Plan) -> None:
    for item in plan.withheld:
        warn(f"{item.why.value}: {item.path}: {item.reason}{_HINTS.get(item.why.value, '')}")


def _tell_result(result: Result, word: str) -> None:
    for done in result.done:
        if done.error:
            warn(f"{'conflict' if done.conflict else 'not applied'}: {done.path}: {done.error}")
        else:
            print(f"{word} {text.neutralise(done.path, _PATH_CHARS)}")


def _undo(options: argparse.Namespace) -> int:
    if options.paths or options.all or options.dry_run or options.merge:
        raise UserError("--undo takes the last apply back as a whole", hint="leave the rest out", code="usage")
    with Paddock() as paddock:
        result = paddock.get(options.box).undo()
    _tell_result(result, "taken back")
    return 0 if not any(done.error for done in result.done) else _INCOMPLETE


def _inside(box: Box, words: list[str]) -> list[str]:
    """Paths of the workspace: from where the caller stands in it, or from its top."""
    top = box.info.workspace
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:
        here = top
    start = here if here == top or here.startswith(f"{top}/") else top
    found = []
    for word in words:
        path = os.path.relpath(os.path.normpath(os.path.join(start, word)), top)
        if path == ".." or path.startswith("../"):
            raise UserError(f"{word!r} is not in {top}", hint="name files of the workspace", code="bad-path")
        found.append("" if path == "." else path)
    return found
