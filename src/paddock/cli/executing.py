"""exec. The request is sent as plain values, which the daemon checks: the typed SDK would double the time it takes."""

from __future__ import annotations

import os

from paddock import paths
from paddock.cli import environment, outcome, terminal
from paddock.cli.attach import Running
from paddock.cli.main import warn
from paddock.client.transport import Channel, Transport
from paddock.errors import Unavailable, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from paddock.frames import Message


def exec_(options: argparse.Namespace) -> int:
    if not options.command:
        raise UserError("no command given", hint=f"`paddock exec {options.box} COMMAND`", code="no-command")
    if options.tty and not options.detach and not os.isatty(0):
        raise UserError("-t needs a terminal on standard input", hint="leave -t out", code="no-tty")
    transport = Transport(paths.Paths())

    def call(verb: str, args: Message) -> object:
        return transport.call(verb, args)[0]

    try:
        answer, fds = _start(transport, {"box": options.box, "exec": _spec(options)})
        box, job, notes, untold = _read(answer)
        for note in notes:
            warn(note)
        if untold and os.isatty(2):
            _say_left(transport, box, look=False)
        if options.detach:
            print(f"{box[1]}/{job}")
            return 0
        if len(fds) != 1:
            raise Unavailable("the daemon sent no channel", code="protocol")
        running = Running(call, box, Channel(fds[0]), budget=_has_budget(answer))
        code = outcome.finish(running, stdin=options.interactive or options.tty)
        if os.isatty(2):  # a script is not made to wait for a walk over the workspace: the next person is told
            _say_left(transport, box, look=True)
        return code
    finally:
        transport.close()


def _start(transport: Transport, args: Message) -> tuple[object, list[int]]:
    """A daemon that is new asks for the values that secrets of the box have from your environment."""
    answer, fds = transport.call("exec", {**args, "asked": False})
    if not isinstance(answer, dict) or "wants" not in answer:
        return answer, fds
    from paddock.client.answers import own_values

    return transport.call("exec", {**args, "given": own_values(answer) or {}})


def _say_left(transport: Transport, box: tuple[str, str], *, look: bool) -> None:
    """What the box left, where a person can read it; the command's own outcome stands, whatever happens here."""
    from paddock import codec
    from paddock.cli import leaving
    from paddock.errors import PaddockError
    from paddock.model import BoxInfo
    from paddock.reports import LeaveReport

    try:
        info = codec.from_wire(BoxInfo, transport.call("inspect", {"box": box[0]})[0])
        report = codec.from_wire(LeaveReport, transport.call("left", {"box": box[0], "look": look})[0])
    except PaddockError as error:
        warn(f"it is not known what the box left in the workspace: {error.message}")
        return
    leaving.say(report, info.workspace, stop=info.name)


def _spec(options: argparse.Namespace) -> Message:
    """An ExecSpec on the wire; its defaults are left out."""
    spec: Message = {
        "argv": options.command,
        "env": {**environment.of_terminal(is_tty=options.tty), **environment.chosen(options)},
        "cwd": options.workdir,
        "user": options.user,
        "stdin": options.interactive or options.tty,
        "detach": options.detach,
    }
    if options.tty:
        rows, cols = terminal.size()
        spec["tty"] = {"rows": rows, "cols": cols}
    if options.timeout:
        from paddock.cli import amounts

        spec["timeout_s"] = amounts.duration(options.timeout, "--timeout")
    return spec


def _read(answer: object) -> tuple[tuple[str, str], str, list[str], bool]:
    """The box's id and name, the job, what the caller should know, and whether there is more from before."""
    box = answer.get("box") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(box, dict):
        raise Unavailable("the daemon sent a malformed answer", code="protocol")
    notes = answer.get("notes")
    named = (str(box.get("id")), str(box.get("name")))
    told = [str(note) for note in notes] if isinstance(notes, list) else []
    return named, str(answer.get("job")), told, bool(box.get("untold"))


def _has_budget(answer: object) -> bool:
    box = answer.get("box") if isinstance(answer, dict) else None
    budget = box.get("budget") if isinstance(box, dict) else None
    return isinstance(budget, dict) and any(value is not None for value in budget.values())
