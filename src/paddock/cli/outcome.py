"""What a person is told when a command is over, or when its box is."""

from __future__ import annotations

from paddock.cli import attach
from paddock.cli.main import fail, warn
from paddock.errors import PaddockError, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.cli.attach import Running

_KILLED = 128 + 9
OVERSPENT = 78
_AGAIN = "run the command again: the files of a box that has a name are kept"


def finish(running: Running, *, stdin: bool, detachable: bool = False) -> int:
    """Relay to the end and return the exit code; says why when it was not the command's own doing."""
    try:
        try:
            end = attach.attach(running, stdin=stdin, detachable=detachable)
        finally:
            running.channel.close()
            if running.prompts:
                running.prompts.close()
    except attach.Lost:
        raise _box_ended(running) from None
    if end.timed_out:
        warn("the command was ended: its time was over")
    elif running.budget and (reason := _overspent(running)):  # it read the refusal, and ended before it was ended
        fail(Unavailable(reason, hint=_hint(reason)))
        return OVERSPENT
    elif end.exit_code == _KILLED and (reason := _kernel_kills(running)):
        fail(Unavailable(reason, hint=_hint(reason)))
    return end.exit_code


def _box_ended(running: Running) -> Unavailable:
    """The daemon knows whether a limit ended the box."""
    reason, code = _ending(running)
    message = f"the box {running.box!r} ended: {reason or 'it was stopped'}"
    error = Unavailable(message, hint=_hint(reason), code="box-lost" if code == Unavailable.exit_code else "box-ended")
    error.exit_code = code
    return error


def _hint(reason: str) -> str:
    from paddock.client.answers import limit_hint  # loads much, and is needed only when something went wrong

    return limit_hint(reason) or _AGAIN


def _ending(running: Running) -> tuple[str, int]:
    answer = running.call("ending", {"box": running.box_id})
    reason, code = (answer.get("reason"), answer.get("exit_code")) if isinstance(answer, dict) else (None, None)
    return str(reason or ""), code if isinstance(code, int) else Unavailable.exit_code


def _overspent(running: Running) -> str:
    """Whether a request was refused because nothing is left; what an agent makes of that differs."""
    try:
        return str(running.call("spent", {"box": running.box_id}) or "")
    except PaddockError:
        return ""


def _kernel_kills(running: Running) -> str:
    """What the kernel ended at the memory limit; the daemon waits for a box that ends with its command."""
    try:
        return str(running.call("killed", {"box": running.box_id}) or "")
    except PaddockError:
        return ""
