"""Values that are not kept here: a variable of the caller, what a command prints, a file.

A command is a program and its arguments, without a shell unless its user wrote one, and the program is a path, found
when the secret was set: a PATH may lead into a workspace, where a box could put a program of that name. The same holds
for a file: no link is followed, so a box that can write near it cannot point it elsewhere.
"""

from __future__ import annotations

import os
import shlex
import stat

from paddock import fs
from paddock.errors import PaddockError, Unavailable, UserError
from paddock.limits import SECRET_BYTES, SECRET_COMMAND_S
from paddock.secrets.ownfile import read_all
from paddock.secrets.record import Kind, Source
from paddock.secrets.value import Secret, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_OTHERS_WRITE = 0o022


def from_env(variable: str) -> Source:
    if not variable.isidentifier() or not variable.isascii():
        raise _bad("that is not a variable", "give its name alone: --from-env MY_KEY")
    return Source(kind=Kind.ENV, words=(variable,))


def from_command(text: str, environ: Mapping[str, str]) -> Source:
    """A command line as a shell would split it; raises UserError if there is no such program."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise _bad("the command has an open quote", "quote it as a shell would") from error
    if not words:
        raise _bad("the command is empty", "for example --from-command 'gh auth token'")
    program = program_of(words[0], environ)
    if not program:
        raise _bad(f"there is no program {words[0]!r}", "write its whole path; for a pipe write sh -c '...'")
    return Source(kind=Kind.COMMAND, words=(program, *words[1:]))


def from_file(path: str) -> Source:
    return Source(kind=Kind.FILE, words=(os.path.realpath(path),))


def program_of(word: str, environ: Mapping[str, str]) -> str:
    places = [os.path.dirname(word)] if "/" in word else environ.get("PATH", os.defpath).split(os.pathsep)
    paths = [os.path.join(place, os.path.basename(word)) for place in places if place.startswith("/")]
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), "")


def value(name: str, source: Source, environ: Mapping[str, str]) -> Secret:
    """The value now, or an error that says which secret and what is missing."""
    try:
        match source.kind:
            case Kind.ENV:
                return _of_env(source.words[0], environ)
            case Kind.COMMAND:
                return _of_command(list(source.words), environ)
            case Kind.FILE:
                return _of_file(source.words[0])
            case Kind.STORED:
                raise ValueError("a stored value is the store's to read")
    except PaddockError as error:
        raise Unavailable(
            f"no value for the secret '{name}': {error.message}", hint=error.hint, code="no-secret"
        ) from None


def _of_env(variable: str, environ: Mapping[str, str]) -> Secret:
    if not environ.get(variable):
        raise Unavailable(f"{variable} is not set", hint=f"export {variable}, or set the secret from elsewhere")
    return Secret(environ[variable], variable)


def _of_command(argv: list[str], environ: Mapping[str, str]) -> Secret:
    """What it says on stderr is not repeated: nobody knows what is in it."""
    from paddock import proc

    done = proc.run(argv, env=environ, cwd="/", timeout_s=SECRET_COMMAND_S, output_bytes_max=SECRET_BYTES + 2)
    if done.timed_out:
        raise Unavailable(f"{argv[0]!r} did not end within {SECRET_COMMAND_S:.0f} s", hint="run it yourself to see why")
    if done.code:
        raise Unavailable(f"{argv[0]!r} ended with {done.code}", hint="run it yourself to see why")
    return read(done.stdout, f"what {argv[0]!r} prints")


def _of_file(path: str) -> Secret:
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = fs.open_beneath(root, path.lstrip("/"), os.O_RDONLY)
    except OSError as error:
        raise Unavailable(f"cannot read {path!r}: {error.strerror}", hint="set the secret again") from error
    finally:
        os.close(root)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise Unavailable(f"{path!r} is not a file", hint="name a file with the value alone")
        if status.st_uid not in {0, os.geteuid()} or status.st_mode & _OTHERS_WRITE:
            raise Unavailable(f"others could have written {path!r}", hint="make it yours: chown and chmod 600")
        return read(read_all(fd, SECRET_BYTES + 2), path)
    finally:
        os.close(fd)


def _bad(message: str, hint: str) -> UserError:
    return UserError(message, hint=hint, code="bad-source")
