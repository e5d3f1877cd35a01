"""Bad input: one `error:` line that names the value, one `hint:` line, exit code 2, and nothing created."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import paths
from paddock.errors import UserError
from tests.support import contract, homes

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL

ESC_NAME = "a\x1b[31mb"
WORDS: dict[str, tuple[list[str], str]] = {  # what is wrong: the words, and what of them the error must name
    "an unknown verb": (["rnu"], "'rnu'"),
    "an unknown option before the verb": (["--bogus"], "'--bogus'"),
    "an unknown option": (["run", "--bogus", "--", "true"], "'--bogus'"),
    "an option of another verb": (["ls", "--plan"], "'--plan'"),
    "an abbreviated option": (["run", "--det", "--", "true"], "'--det'"),
    "an option without its value": (["run", "--name"], "--name"),
    "one word too many": (["version", "please"], "'please'"),
    "a missing box": (["rm"], "BOX"),
    "nothing to run": (["run"], "nothing to run"),
    "a command without its dashes": (["run", "bash", "-c", "true"], "'-c'"),
    "options after the box": (["exec", "box", "-it", "sh"], "'-it'"),
    "no command": (["exec", "box"], "no command"),
    "an unknown word": (["daemon", "restart"], "'restart'"),
    "an unknown shell": (["completion", "tcsh"], "'tcsh'"),
    "an unknown engine": (["run", "--engine", "docker", "--", "true"], "'docker'"),
    "an unknown agent": (["run", "cursor"], "'cursor'"),
    "an agent without a key": (["run", "claude", ".", "--", "x"], "'claude'"),
    "an unknown agent of a new box": (["create", "new", "--agent", "cursor"], "'cursor'"),
    "two agents": (["create", "shell", "--agent", "claude"], "'claude'"),
    "two names": (["create", "one", "--name", "two"], "'two'"),
    "an unknown box": (["exec", "nowhere", "true"], "'nowhere'"),
    "an unknown box to stop": (["stop", "nowhere"], "'nowhere'"),
    "an unknown box to remove": (["rm", "-f", "nowhere"], "'nowhere'"),
    "an unknown box to inspect": (["inspect", "nowhere"], "'nowhere'"),
    "an unknown box of logs": (["logs", "nowhere"], "'nowhere'"),
    "an unknown box of cp": (["cp", "nowhere:/tmp/x", "."], "'nowhere'"),
    "an unknown box of env": (["env", "nowhere", "K=V"], "'nowhere'"),
    "logs of a job without a name": (["logs", "box/"], "'box/'"),
    "cp without a box": (["cp", "here", "there"], "'here'"),
    "cp between boxes": (["cp", "one:x", "two:y"], "'one:x'"),
    "reset without a person": (["reset", "--no"], "'--no'"),
    "a workspace that does not exist": (["run", "shell", "/nowhere/at/all"], "/nowhere/at/all"),
    "a workspace that is a file": (["run", "shell", "/etc/passwd"], "/etc"),
    "the workspace /": (["run", "shell", "/"], "/"),
    "a workspace of the system": (["run", "shell", "/etc"], "/etc"),
    "a workspace of the kernel": (["run", "shell", "/proc"], "/proc"),
    "a workspace of devices": (["run", "shell", "/dev/shm"], "/dev/shm"),
    "a workspace of programs": (["create", "new", "/usr/bin"], "/usr/bin"),
    "all of /tmp": (["create", "new", "/tmp"], "/tmp"),
    "a name with a slash": (["run", "--name", "a/b", "--", "true"], "'a/b'"),
    "a name that leads up": (["run", "--name", "..", "--", "true"], "'..'"),
    "a name with dots inside": (["create", "a..b"], "'a..b'"),
    "a name with control characters": (["create", ESC_NAME], "'a\\x1b[31mb'"),
    "a name with a newline": (["create", "a\nb"], "'a\\nb'"),
    "a name in capitals": (["create", "Box"], "'Box'"),
    "a name that is an agent": (["run", "--name", "claude", "--", "true"], "'claude'"),
    "a name that is too long": (["create", "n" * 65], "'nnnn"),
    "an extra that does not exist": (["run", "shell", ".", "/nowhere:ro"], "/nowhere"),
    "an extra of the system": (["run", "shell", ".", "/etc:ro"], "/etc"),
    "a mount without a target": (["run", "-v", "/srv", "--", "true"], "'/srv'"),
    "a mount with an unknown mode": (["run", "-v", ".:/mnt/x:rx", "--", "true"], "'.:/mnt/x:rx'"),
    "a mount of what does not exist": (["run", "-v", "/nowhere:/mnt/x", "--", "true"], "/nowhere"),
    "a mount of the system": (["run", "-v", "/etc:/mnt/x", "--", "true"], "/etc"),
    "a mount over the system": (["run", "-v", "/srv:/usr/bin", "--", "true"], "/usr/bin"),
    "a mount at a relative place": (["run", "-v", "/srv:here", "--", "true"], "'here'"),
    "a mount that leads up": (["run", "-v", "/srv:/mnt/../etc", "--", "true"], "'/mnt/../etc'"),
    "a mount of the docker socket": (["run", "-v", "docker.sock:/mnt/s", "--", "true"], "docker.sock"),
    "a mount of the containerd socket": (["run", "-v", "containerd.sock:/mnt/s", "--", "true"], "containerd.sock"),
    "a mount of the ssh agent": (["run", "shell", ".", "agent.1234"], "agent.1234"),
    "a link to the docker socket": (["run", "-v", "innocent:/mnt/s:ro", "--", "true"], "docker.sock"),
    "a variable that is not set": (["run", "-e", "NOT_SET_ANYWHERE", "--", "true"], "'NOT_SET_ANYWHERE'"),
    "a variable with a bad name": (["run", "-e", "A B=1", "--", "true"], "'A B'"),
    "an env file that does not exist": (["run", "--env-file", "nowhere", "--", "true"], "'nowhere'"),
    "an env file with a bad line": (["run", "--env-file", "bad.env", "--", "true"], "bad.env:2"),
    "a size that is none": (["run", "-m", "lots", "--", "true"], "'lots'"),
    "a size of nothing": (["run", "-m", "0", "--", "true"], "'0'"),
    "a disk of nothing": (["run", "--disk", "0g", "--", "true"], "'0g'"),
    "a number of processors that is none": (["run", "--cpus", "many", "--", "true"], "'many'"),
    "not a number of processors": (["run", "--cpus", "nan", "--", "true"], "'nan'"),
    "half a process": (["run", "--pids", "1.5", "--", "true"], "'1.5'"),
    "a time that is none": (["run", "--timeout", "soon", "--", "true"], "'soon'"),
    "no time at all": (["run", "--timeout", "0", "--", "true"], "'0'"),
    "no grace that is one": (["stop", "--grace", "soon", "box"], "'soon'"),
    "--rm and --detach": (["run", "-d", "--rm", "--", "true"], "--rm"),
}


@contextlib.contextmanager
def unix_socket(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as listener:
        at = os.open(path.parent, os.O_PATH)
        listener.bind(f"/proc/self/fd/{at}/{path.name}")  # the path may be longer than an address
        os.close(at)
        yield


@pytest.fixture
def place(installation: Installation) -> Iterator[Installation]:
    """An installation whose workspace holds what the words speak of."""
    installation.cli("daemon", "start")
    with contextlib.ExitStack() as stack:
        for name in ("docker.sock", "containerd.sock", "agent.1234"):
            stack.enter_context(unix_socket(installation.workspace / name))
        (installation.workspace / "innocent").symlink_to("docker.sock")
        (installation.workspace / "bad.env").write_text("GOOD=1\nno equals sign\n")
        yield installation


def refused(installation: Installation, words: list[str], cwd: Path | None = None) -> str:
    """Run it, see it refused as promised, and return the error line."""
    before = traces(installation)
    done = installation.cli(*words, cwd=cwd)
    assert_refusal(done)
    assert traces(installation) <= before  # of a test before this one there may be less by now
    assert installation.cli("ls", "-q").stdout == b""
    return done.stderr.decode().splitlines()[0]


def assert_refusal(done: subprocess.CompletedProcess[bytes]) -> None:
    lines = done.stderr.decode().splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["error:", "hint:"], done.stderr
    assert all(len(line) > 12 and line.isprintable() for line in lines)
    assert (done.returncode, done.stdout) == (2, b"")


def traces(installation: Installation) -> set[Path]:
    places = (installation.workspace, installation.state / "boxes", installation.state / "trash")
    return {entry for place in places if place.is_dir() for entry in place.iterdir()}


@pytest.mark.parametrize("what", WORDS)
def test_what_is_wrong_is_named_and_nothing_is_created(place: Installation, what: str) -> None:
    words, named = WORDS[what]
    assert named in refused(place, words)


@pytest.fixture
def secret_place() -> Iterator[Path]:
    """~/.ssh; made for the test where there is none."""
    path = Path(paths.home_directory(), ".ssh")
    mine = path / f".{secrets.token_hex(8)}"  # or a test beside this one would take the directory away
    with homes.alone():
        homes.make(path)
        mine.touch()
    yield path
    with homes.alone():
        mine.unlink()
        homes.unmake(path)


@pytest.mark.parametrize("spelling", ["{}", "{}/.", "~/.ssh"])
def test_the_keys_of_the_caller_are_no_workspace(installation: Installation, secret_place: Path, spelling: str) -> None:
    if spelling.startswith("~") and installation.environ.get("HOME") != str(secret_place.parent):
        pytest.skip("HOME is not the home of this account")
    assert ".ssh" in refused(installation, ["run", "shell", spelling.format(secret_place)])


def test_the_keys_of_the_caller_are_no_mount(installation: Installation, secret_place: Path) -> None:
    assert ".ssh" in refused(installation, ["run", "-v", f"{secret_place}:/mnt/x:ro", "--", "true"])


def test_the_home_directory_is_no_workspace(installation: Installation) -> None:
    home = paths.home_directory()
    assert home in refused(installation, ["run", "shell", home])
    if installation.environ.get("HOME") == home:
        assert home in refused(installation, ["run", "shell", "~"])
    assert home in refused(installation, ["run", "--", "true"], cwd=Path(home))


@pytest.mark.parametrize("below", [".", "state", "state/boxes"])
def test_our_own_state_is_no_workspace(installation: Installation, below: str) -> None:
    private = (installation.home / below).resolve()
    assert str(private) in refused(installation, ["run", "shell", str(private)])
    assert str(private) in refused(installation, ["run", "-v", f"{private}:/mnt/x", "--", "true"])


def test_a_directory_that_was_removed_is_no_workspace(installation: Installation) -> None:
    (installation.workspace / "gone").mkdir()
    script = f'rmdir ../gone; exec "{installation.program}" run -- true'
    done = installation.shell(script, cwd=installation.workspace / "gone")
    assert done.stderr.endswith(b"error: the current directory was removed\nhint: go to a directory that exists\n")
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_taken_name_is_refused(installation: Installation) -> None:
    installation.cli("create", "taken")
    done = installation.cli("create", "taken")
    assert_refusal(done)
    assert b"'taken'" in done.stderr
    assert installation.cli("ls", "-q").stdout == b"taken\n"


@pytest.mark.parametrize("option", [["-m", "1g"], ["--cpus", "1"], ["--pids", "9"], ["--disk", "1g"], ["-v", ".:/mnt"]])
def test_what_a_box_is_made_of_cannot_be_changed_by_running_it(installation: Installation, option: list[str]) -> None:
    installation.cli("create", "made")
    for words in (["run", *option, "made"], ["run", *option, "shell", "."]):
        done = installation.cli(*words)
        assert_refusal(done)
        assert b"'made'" in done.stderr
    assert installation.cli("ls", "-q").stdout == b"made\n"


def test_a_box_gets_no_other_name_by_running_it(installation: Installation) -> None:
    installation.cli("create", "made")
    done = installation.cli("run", "--name", "other", "made")
    assert_refusal(done)
    assert b"'made'" in done.stderr
    assert installation.cli("ls", "-q").stdout == b"made\n"


def test_a_named_box_of_another_directory_is_not_taken_for_this_one(installation: Installation) -> None:
    (installation.workspace / "other").mkdir()
    installation.cli("create", "made", "other")
    done = installation.cli("run", "--name", "made", "--", "true")
    assert_refusal(done)
    assert str(installation.workspace / "other").encode() in done.stderr


def test_a_directory_beside_the_name_of_a_box_is_refused(installation: Installation) -> None:
    installation.cli("create", "made")
    done = installation.cli("run", "made", ".")
    assert_refusal(done)
    assert b"'made'" in done.stderr


def test_a_running_box_is_removed_only_by_force_and_its_neighbours_stay(installation: Installation) -> None:
    installation.cli("create", "idle")
    installation.cli("create", "busy")
    installation.cli("exec", "busy", "true")
    done = installation.cli("rm", "idle", "busy")
    assert_refusal(done)
    assert b"'busy'" in done.stderr
    assert installation.cli("ls", "-q").stdout == b"idle\nbusy\n"
    assert installation.cli("rm", "-f", "idle", "busy").stdout == b"idle\nbusy\n"


def test_an_unknown_key_of_a_request_is_named(installation: Installation) -> None:
    with installation.sdk() as sdk:
        for request, named in (
            ({"workspace": str(installation.workspace), "privileged": True}, "'privileged'"),
            ({"workspace": str(installation.workspace), "engine": "docker"}, "'docker'"),
            ({"workspace": str(installation.workspace), "limits": {"memory": 1}}, "'memory'"),
        ):
            with pytest.raises(UserError, match=named):
                sdk.call("create", request=request)
        assert sdk.ls() == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", "--", "no-such-program"], 127),
        (["run", "--", "/etc/passwd"], 126),
        (["run", "-w", "/nowhere", "--", "true"], 126),
        (["run", "-d", "--", "no-such-program"], 127),
        (["run", "-d", "-w", "/nowhere", "--", "true"], 126),
    ],
)
def test_a_command_that_cannot_start_leaves_no_box(installation: Installation, words: list[str], code: int) -> None:
    done = installation.cli(*words)
    assert [line.partition(b" ")[0] for line in done.stderr.splitlines()] == [b"error:", b"hint:"]
    assert (done.returncode, done.stdout) == (code, b"")
    assert installation.cli("ls", "-q").stdout == b""


def test_a_box_whose_engine_broke_says_what_broke(installation: Installation) -> None:
    installation.cli("create", "broken")
    with installation.sdk() as sdk:
        box_id = sdk.ls()[0].id
    (installation.workspace / "moved").mkdir()
    home = installation.state / "boxes" / box_id / "home"
    assert installation.cli("exec", "broken", "true").returncode == 0, "the oracle: the box works"
    installation.cli("stop", "broken")
    home.rename(installation.workspace / "moved" / "home")
    home.symlink_to("/nowhere")
    done = installation.cli("exec", "broken", "true")
    lines = done.stderr.decode().splitlines()
    assert (done.returncode, [line.partition(" ")[0] for line in lines]) == (125, ["error:", "hint:"])
    assert lines[0].startswith("error: the box could not start: ")
    assert "/home" in lines[0]
