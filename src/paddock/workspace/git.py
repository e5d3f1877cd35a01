"""The only place that runs git on the host, and only in a way in which nothing a box wrote can make it run more.

Git runs what its configuration names: hooks, fsmonitor, filters, text converters, pagers, helpers of remotes. So it is
told where everything is (never asked to look for a repository), reads no configuration but the repository's own, and
over that go settings which close every such door. What runs here is plumbing on objects and references; it has no work
tree unless one is given, and the only one that ever is was made by us (clone.py).
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

from paddock import limits, proc
from paddock.errors import Unavailable
from paddock.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from paddock.proc import Finished

# Never the caller's PATH: it may begin with a directory of the project.
_PLACES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")

# Over the repository's own configuration. Each closes a way in which git would run a program, take objects from
# elsewhere, or write what was not asked for.
_OVERRIDES = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", "false"),
    ("core.askPass", "false"),
    ("core.editor", "false"),
    ("core.pager", "cat"),
    ("core.alternateRefsCommand", "false"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("core.bigFileThreshold", "16m"),  # larger blobs are streamed, not held in memory
    ("protocol.allow", "never"),
    ("protocol.file.allow", "always"),  # the only transport: a bundle that we named
    ("credential.helper", ""),
    ("diff.external", ""),  # so that `git diff` fails unless it has --no-ext-diff
    ("diff.ignoreSubmodules", "all"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.fsckObjects", "true"),
    ("transfer.fsckObjects", "true"),
    ("transfer.bundleURI", "false"),
    ("fetch.unpackLimit", "1"),  # a pack is there as a whole or not at all
    ("fetch.writeCommitGraph", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("pack.threads", "1"),
    ("log.showSignature", "false"),  # it would run gpg
    ("gpg.program", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("safe.bareRepository", "all"),  # ours are named by GIT_DIR, which is what the setting asks for
)

# The daemon's own is 077. What git leaves in a repository is for whom the repository is, and the directories say that.
_UMASK = 0o022

_FIXED = {
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_ALLOW_PROTOCOL": "file",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_ALLOC_LIMIT": str(limits.GIT_ALLOCATION_BYTES),
    "GIT_REF_PARANOIA": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The repository a run of git works on, part by part; an empty part is where git expects it."""

    git_dir: str
    objects: str = ""
    borrowed: tuple[str, ...] = ()  # more objects, read only
    work_tree: str = ""
    index: str = ""
    owner: tuple[int, ...] | None = None  # whose rights git has there, when root asks for it; see owned()


def owned(git_dir: str, owner: tuple[int, ...]) -> Place:
    """A repository that root works on for its owner, with no more rights than theirs.

    They may put links where git writes its logs and locks, at any moment. Where they cannot even get to it, they cannot
    do so either, and root's rights are needed.
    """
    foreign = os.geteuid() == 0 and owner[0] != 0
    return Place(git_dir=git_dir, owner=owner if foreign and _may_enter(git_dir, owner) else None)


def _may_enter(path: str, owner: tuple[int, ...]) -> bool:
    while path != "/":
        path = os.path.dirname(path)
        status = os.stat(path)
        shift = 6 if status.st_uid == owner[0] else 3 if status.st_gid == owner[1] else 0
        if not status.st_mode >> shift & 1:
            return False
    return True


def hardened(
    words: list[str],
    place: Place,
    *,
    stdin: bytes = b"",
    config: tuple[tuple[str, str], ...] = (),
    timeout_s: float = limits.GIT_TIMEOUT_S,
    output_bytes_max: int = limits.MIB,
) -> Finished:
    """Run `git WORDS` on `place`. Its exit code is a result; Unavailable if there is no git or no time."""
    env = {**_FIXED, "PATH": ":".join(_PLACES), **_pointed(place), **_settings((*_OVERRIDES, *config))}
    argv = [program(), "--no-pager", "--no-optional-locks", *words]
    done = proc.run(
        argv,
        env=env,
        cwd=place.work_tree or "/",
        timeout_s=timeout_s,
        stdin=stdin,
        output_bytes_max=output_bytes_max,
        owner=place.owner,
        umask=_UMASK,
    )
    if done.timed_out:
        raise Unavailable(f"git {words[0]} took over {timeout_s:.0f} s and was ended", code="git-timeout")
    return done


def output(
    words: list[str], place: Place, *, stdin: bytes = b"", output_bytes_max: int = limits.MIB, hint: str = ""
) -> bytes:
    """What a run of git printed; Unavailable, with git's own last words, unless it succeeded and said it all."""
    done = hardened(words, place, stdin=stdin, output_bytes_max=output_bytes_max)
    if done.code:
        raise failed(words[0], done, hint=hint)
    if done.truncated:
        raise Unavailable(f"git {words[0]} printed over {output_bytes_max} bytes", code="git-output")
    return done.stdout


def failed(what: str, done: Finished, *, hint: str = "") -> Unavailable:
    lines = [line for line in done.stderr.splitlines() if line.strip()] or [b"exit code %d" % done.code]
    said = next((line for line in lines if line.startswith((b"fatal:", b"error:"))), lines[-1])
    return Unavailable(f"git {what} failed: {neutralise(said)}", hint=hint, code="git")


def configured(home: str, git_dir: str, section: str) -> dict[str, str]:
    """What the user's own git has as settings of a section, with their files, includes and conditions.

    # TRUST: reads files of the user's and of the repository; `git config --get` runs nothing, and values come back.
    """
    env = {**_FIXED, "HOME": home, "PATH": ":".join(_PLACES), "GIT_DIR": git_dir or "/dev/null"}
    for name in ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL"):
        del env[name]
    argv = [program(), "config", "--includes", "--null", "--get-regexp", rf"^{section}\."]
    done = proc.run(argv, env=env, cwd="/", timeout_s=limits.GIT_TIMEOUT_S, output_bytes_max=64 * limits.KIB)
    if done.code or done.truncated:
        return {}
    return dict(row.partition("\n")[::2] for row in os.fsdecode(done.stdout).split("\0")[:-1])


@functools.cache
def program() -> str:
    """The host's git; Unavailable if there is none."""
    for place in _PLACES:
        path = os.path.join(place, "git")
        if os.access(path, os.X_OK):
            return path
    raise Unavailable("there is no git on this machine", hint="install the package git", code="no-git")


def _pointed(place: Place) -> dict[str, str]:
    env = {"GIT_DIR": place.git_dir}
    if place.objects:
        env["GIT_OBJECT_DIRECTORY"] = place.objects
    if place.borrowed:
        env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = ":".join(map(_quoted, place.borrowed))
    if place.index:
        env["GIT_INDEX_FILE"] = place.index
    if place.work_tree:
        env["GIT_WORK_TREE"] = place.work_tree
    return env


def _quoted(path: str) -> str:
    """git splits the list at colons, but reads a name in double quotes as a C string."""
    escapes = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n"}
    return f'"{path.translate(escapes)}"'


def _settings(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    env = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        env[f"GIT_CONFIG_KEY_{number}"] = key
        env[f"GIT_CONFIG_VALUE_{number}"] = value
    return env
