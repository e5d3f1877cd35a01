"""What a caller may ask for: names, working directories, mounts, and one isolation whatever way a command starts.

Every refusal here has its twin: the same request with an innocent value, through the same entrance, succeeds.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from paddock import codec, paths
from paddock.client.answers import box_request
from paddock.errors import UserError
from paddock.model import ExecSpec, Mount
from tests.support import attack, contract
from tests.support.attack import PYTHON, Terminal, inside
from tests.support.installation import IS_ROOT, Installation, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paddock.client import Box, Paddock

pytestmark = pytest.mark.box
ENGINES = contract.FULL


def refusal(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one error line of a refused command, which created nothing."""
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 2, done
    assert done.stdout == b""
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"], lines
    return lines[0]


# -- SPEC-02: names ----------------------------------------------------------------------------------------------------

BAD_NAMES = [
    "../up",
    "a/b",
    "..",
    ".",
    ".hidden",
    "a..b",
    "a\nb",
    "a\tb",
    "a b",
    "a\x1b[31mb",
    "UPPER",
    "\u0430gent",  # Cyrillic a
    "a\u200bb",
    "a\u2044b",  # a slash that is none
    "ａ",
    "x" * 65,
    "trailing-",
    "ends.lock",
    "shell",  # an agent's
    "a:b",
    "a$(id)",
]


@pytest.mark.parametrize("name", [*BAD_NAMES, "-leading", "a\0b"])
def test_a_name_that_is_no_plain_word_is_refused_by_the_sdk(
    paddock: Paddock, installation: Installation, name: str
) -> None:
    with pytest.raises(UserError) as caught:
        paddock.create(name, workspace=str(installation.workspace))
    assert caught.value.code == "bad-name"
    assert paddock.ls() == []


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_no_plain_word_is_refused_by_the_command_line(installation: Installation, name: str) -> None:
    done = installation.cli("create", "shell", f"--name={name}")
    assert "\x1b" not in refusal(done)
    assert installation.cli("ls", "-q").stdout == b""


def test_names_at_the_edge_of_the_rule_are_taken(paddock: Paddock, installation: Installation) -> None:
    for name in ("a", "x" * 64, "a.b-c_d", "0"):
        assert paddock.create(name, workspace=str(installation.workspace)).name == name


# -- SPEC-03: the working directory ------------------------------------------------------------------------------------


def test_a_working_directory_outside_is_an_error_and_opens_nothing(box: Box, installation: Installation) -> None:
    sibling = installation.workspace.parent / "sibling"
    sibling.mkdir(exist_ok=True)
    (installation.workspace / "link").symlink_to(sibling)
    (installation.workspace / "sub").mkdir()
    try:
        for cwd in (str(sibling), "../sibling", "link", "sub/../../sibling", str(installation.state), "/nowhere"):
            with pytest.raises(UserError) as caught:
                box.exec(["touch", "made"], cwd=cwd)
            assert caught.value.code == "bad-cwd", cwd
            done = installation.cli("exec", "-w", cwd, "target", "touch", "made")
            assert done.returncode == 126
            assert done.stderr.startswith(b"error: cannot enter ")
        assert list(sibling.iterdir()) == []
        assert box.exec(["touch", "made"], cwd="sub").ok  # the oracle: a directory of the box is entered
        assert (installation.workspace / "sub" / "made").exists()
    finally:
        sibling.rmdir()


@pytest.mark.parametrize("cwd", ["/etc", "/usr/bin", "/", "/proc/1", "/sys", "/dev", "/var", "/home"])
def test_a_working_directory_never_becomes_writable(box: Box, cwd: str) -> None:
    assert box.exec(["sh", "-c", "pwd"], cwd=cwd).stdout.decode().strip() == cwd
    assert box.exec(["touch", "made"], cwd=cwd).exit_code == 1
    assert box.exec(["touch", "made"], cwd="/tmp").ok


# -- SPEC-04, SPEC-05: mounts ------------------------------------------------------------------------------------------


def by_workspace_word(installation: Installation, source: str) -> str:
    return refusal(installation.cli("run", "shell", source, "--", "-c", "true"))


def by_current_directory(installation: Installation, source: str) -> str:
    return refusal(installation.cli("run", "--", "true", cwd=Path(source)))


def by_create(installation: Installation, source: str) -> str:
    return refusal(installation.cli("create", "shell", source))


def by_extra(installation: Installation, source: str) -> str:
    return refusal(installation.cli("create", "shell", str(installation.workspace), source))


def by_read_only_extra(installation: Installation, source: str) -> str:
    return refusal(installation.cli("create", "shell", str(installation.workspace), f"{source}:ro"))


def by_volume(installation: Installation, source: str) -> str:
    return refusal(installation.cli("run", "-v", f"{source}:/mnt/x", "--", "true"))


def by_read_only_volume(installation: Installation, source: str) -> str:
    return refusal(installation.cli("create", "shell", "-v", f"{source}:/mnt/x:ro"))


def _caught(act: Callable[[], object]) -> str:
    with pytest.raises(UserError) as caught:
        act()
    return caught.value.message


def by_sdk_workspace(installation: Installation, source: str) -> str:
    with installation.sdk() as sdk:
        return _caught(lambda: sdk.create("box", workspace=source))


def by_sdk_mount(installation: Installation, source: str) -> str:
    mount = Mount(source=source, target="/mnt/x", read_only=True)
    with installation.sdk() as sdk:
        return _caught(lambda: sdk.run(["true"], workspace=str(installation.workspace), mounts=[mount]))


def by_wire_open(installation: Installation, source: str) -> str:
    """The daemon's own verb, past every check a client could make."""
    request: Any = codec.to_wire(box_request(workspace=str(installation.workspace)))
    request["mounts"] = [{"source": source, "target": ""}]
    with installation.sdk() as sdk:
        return _caught(lambda: sdk.call("open", request=request))


def by_wire_run(installation: Installation, source: str) -> str:
    request: Any = {"workspace": source}
    with installation.sdk() as sdk:
        return _caught(lambda: sdk.call("run", request=request, exec={"argv": ["true"]}))


WAYS: list[Callable[[Installation, str], str]] = [
    by_workspace_word,
    by_current_directory,
    by_create,
    by_extra,
    by_read_only_extra,
    by_volume,
    by_read_only_volume,
    by_sdk_workspace,
    by_sdk_mount,
    by_wire_open,
    by_wire_run,
]


@pytest.fixture
def forbidden(installation: Installation, canaries: dict[str, Path], tmp_path: Path) -> dict[str, str]:
    """Places no box is shown, each also under the name of a link."""
    home = paths.home_directory()
    places = {
        "root": "/",
        "home": home,
        "ssh": str(canaries["ssh"].parent),
        "config": str(canaries["config"].parent),
        "proc": "/proc",
        "own proc": "/proc/self/root",
        "sys": "/sys",
        "dev": "/dev",
        "etc": "/etc",
        "run": "/run",
        "usr": "/usr",
        "tmp": "/tmp",
        "state": str(installation.state),
        "boxes": str(installation.state / "boxes"),
        "socket directory": str(installation.state / "run"),
        "installation": str(installation.home),
        "above the installation": str(installation.home.parent),
        "through dots": f"{installation.workspace}/../../../../../../../../..{home}",
    }
    for name, place in [*places.items()]:
        link = tmp_path / name.replace(" ", "-")
        link.symlink_to(place)
        places[f"link to {name}"] = str(link)
        if Path(place).resolve() == Path(place) and place != "/":
            (tmp_path / f"{link.name}-parent").symlink_to(Path(place).parent)
            places[f"{name} behind a linked parent"] = f"{tmp_path}/{link.name}-parent/{Path(place).name}"
    return places


@pytest.mark.parametrize("ask", WAYS)
def test_what_no_box_may_see_is_refused_whatever_way_it_is_asked_for(
    installation: Installation, forbidden: dict[str, str], ask: Callable[[Installation, str], str]
) -> None:
    for name, source in forbidden.items():
        assert "cannot be" in ask(installation, source), name
    assert installation.cli("ls", "-q").stdout == b""


@pytest.mark.parametrize("ask", WAYS)
def test_an_innocent_directory_is_taken_through_the_same_entrance(
    installation: Installation, tmp_path: Path, ask: Callable[[Installation, str], str]
) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):  # the entrance expects a refusal and gets none
        ask(installation, str(tmp_path))


@pytest.mark.parametrize("name", ["docker.sock", "containerd.sock", "agent.1234"])
def test_a_socket_is_no_mount_whatever_it_is_called(installation: Installation, tmp_path: Path, name: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        place = str(tmp_path / name)
        listener.bind(place)
        listener.listen()
        for option in (f"{place}:/mnt/x", f"{place}:/mnt/x:ro", f"{place}:/var/{name}"):
            assert "is a socket" in refusal(installation.cli("create", "shell", "-v", option))
        assert "is a socket" in refusal(installation.cli("create", "shell", str(installation.workspace), place))


@pytest.mark.parametrize(
    "target",
    [
        *("/", "/usr/bin", "/etc", "/proc", "/proc/self/fd/1", "/run/paddock", "/run/paddock/bin/sudo", "/dev/null"),
        *("/home/agent", "/tmp", "/mnt/../etc", "relative", "//usr//lib", "/lib64/x", "/sys/fs/cgroup", "/mnt/.."),
    ],
)
def test_a_mount_cannot_land_on_what_is_the_boxs_own(installation: Installation, tmp_path: Path, target: str) -> None:
    assert "mount cannot" in refusal(installation.cli("create", "shell", "-v", f"{tmp_path}:{target}"))
    assert installation.cli("run", "-v", f"{tmp_path}:/mnt/x", "--", "test", "-d", "/mnt/x").returncode == 0


@pytest.fixture
def alias(canaries: dict[str, Path], tmp_path: Path) -> Iterator[Path]:
    """A bind mount of ~/.ssh elsewhere."""
    place = tmp_path / "innocent"
    place.mkdir()
    subprocess.run(["mount", "--bind", str(canaries["ssh"].parent), str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.privileged
def test_a_bind_mount_of_a_secret_place_is_still_that_place(
    installation: Installation, alias: Path, nonce: str
) -> None:
    assert (alias / f".{nonce}").read_text() == nonce  # the oracle: the secret is there, under a harmless name
    for ask in WAYS:
        assert ".ssh" in ask(installation, str(alias)), ask


def test_unknown_keys_of_a_request_are_refused_by_name(paddock: Paddock, installation: Installation) -> None:
    good: dict[str, Any] = {"workspace": str(installation.workspace)}
    for key in ("privileged", "devices", "capabilities", "binds", "Mounts", "networks", "caller_uid"):
        with pytest.raises(UserError, match=f"unknown key '{key}'"):
            paddock.call("create", request={**good, key: True})
    assert paddock.ls() == []
    paddock.call("create", request=good)


# -- what a box was shown is checked again when it starts --------------------------------------------------------------


def test_a_path_swapped_for_a_link_after_the_check_does_not_start(paddock: Paddock, installation: Installation) -> None:
    """Another box that can write to the parent puts a link in the place of a checked directory."""
    outer, target = installation.workspace / "outer", installation.workspace.parent / "secret-project"
    (outer / "src").mkdir(parents=True)
    (target / "src").mkdir(parents=True)
    (target / "src" / "private").write_text("private")
    try:
        victim = paddock.create("victim", workspace=str(outer / "src"))
        assert victim.exec(["ls"]).stdout == b""
        victim.stop()
        attacker = paddock.create("attacker", workspace=str(installation.workspace))
        assert attacker.exec(["sh", "-c", f"mv outer outer.old && ln -s {target} outer"]).ok
        assert (outer / "src" / "private").exists()  # the oracle: the name leads there now
        with pytest.raises(UserError, match="was replaced"):
            victim.exec(["cat", "private"])
    finally:
        (target / "src" / "private").unlink()
        (target / "src").rmdir()
        target.rmdir()


# -- SPEC-06: one isolation --------------------------------------------------------------------------------------------

FINGERPRINT = """
import resource, socket
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
keys = "Uid Gid Groups NoNewPrivs Seccomp Seccomp_filters CapInh CapPrm CapEff CapBnd CapAmb NSpid".split()
libc.prctl.restype = ctypes.c_int
value = {
    "status": {key: status[key].strip() for key in keys if key != "NSpid"},
    "pids deep": len(status["NSpid"].split()),
    "maps": [open(f"/proc/self/{name}").read() for name in ("uid_map", "gid_map", "setgroups")],
    "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in sorted(os.listdir("/proc/self/ns"))},
    "open": [fd for fd in range(4096) if attempt(os.fstat, fd) == "ok"],
    "environment": sorted(os.environ),
    "limits": {str(n): resource.getrlimit(n) for n in range(16)},
    "umask": os.umask(0),
    "nice": os.nice(0),
    "oom": open("/proc/self/oom_score_adj").read(),
    "securebits": libc.prctl(27, 0, 0, 0, 0),
    "mounts": sorted(line.split(" ")[4] + " " + line.split(" ")[5] for line in open("/proc/self/mountinfo")),
    # but for the two that libc keeps for itself: posix_spawn ignores them, fork does not
    "signals": [int(status[key], 16) & ~0x180000000 for key in ("SigBlk", "SigIgn", "SigCgt")],
    "root": os.listdir("/"),
    "parent": os.getppid(),
}
name = ARGS[0]
open(f"{name}.new", "w").write(json.dumps(value))
os.rename(f"{name}.new", name)
"""


def fingerprints(installation: Installation, box: Box) -> dict[str, dict[str, Any]]:
    def argv(name: str) -> list[str]:
        return attack.program(FINGERPRINT, name)

    def cli(*words: str) -> None:
        done = installation.cli(*words)
        assert done.returncode == 0, done.stderr

    def on_terminal(*words: str) -> None:
        terminal = Terminal(installation, *words)
        assert terminal.finish() == 0, terminal.seen

    box.exec(argv("sdk"))
    box.exec(argv("sdk with a deadline"), timeout_s=60.0)
    box.exec(argv("sdk with input"), stdin=b"x")
    box.detach(argv("sdk detached"))
    cli("exec", "target", *argv("exec"))
    cli("exec", "-i", "target", *argv("exec -i"))
    cli("exec", "--timeout", "60s", "target", *argv("exec --timeout"))
    cli("exec", "-d", "target", *argv("exec -d"))
    on_terminal("exec", "-t", "target", *argv("exec -t"))
    on_terminal("exec", "-it", "--timeout", "60s", "target", *argv("exec -it --timeout"))
    script = installation.workspace / "script.py"
    script.write_text(argv("")[3])
    cli("run", "target", "--", "-c", f"exec {PYTHON} -I script.py '[\"session\"]'")
    cli("run", "-d", "target", "--", "-c", f"exec {PYTHON} -I script.py '[\"session detached\"]'")
    terminal = Terminal(installation, "run", "target")
    terminal.read_until(b"$ ")
    terminal.type(f"exec {PYTHON} -I script.py '[\"session on a terminal\"]'\n")
    assert terminal.finish() == 0, terminal.seen
    cli("run", "--", *argv("run"))
    cli("run", "--name", "named", "--", *argv("run --name"))
    on_terminal("run", "--", *argv("run on a terminal"))
    with installation.sdk() as sdk:
        assert sdk.run(argv("sdk run"), workspace=str(installation.workspace)).ok
    script.unlink()
    until(lambda: len(list(installation.workspace.glob("[!.]*"))) == 17, "every command left its fingerprint")
    return {path.name: json.loads(path.read_text()) for path in installation.workspace.glob("[!.]*")}


# How the caller's terminal reads and shows text goes in from the command line, and a shell sets its own.
OF_THE_CALLER = {
    *("TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "COLORTERM", "NO_COLOR", "EDITOR", "VISUAL", "PAGER", "GIT_PAGER"),
    *("_", "SHLVL", "PWD", "OLDPWD"),
}
BOXES_OF_THEIR_OWN = {"run", "run --name", "run on a terminal", "sdk run"}  # other inodes, and other ids for root


def test_every_way_to_start_a_command_gives_the_same_isolation(installation: Installation, box: Box) -> None:
    found = fingerprints(installation, box)
    for seen in found.values():
        seen["environment"] = [key for key in seen["environment"] if key not in OF_THE_CALLER]
        del seen["parent"]
    reference = found.pop("sdk")
    for name, seen in found.items():
        differing = {key for key, value in seen.items() if value != reference[key]}
        assert differing <= ({"namespaces", "maps"} if name in BOXES_OF_THEIR_OWN else set()), name
    shared = {"time", "time_for_children"}
    for name in BOXES_OF_THEIR_OWN:
        private = {key: inode for key, inode in found[name]["namespaces"].items() if key not in shared}
        assert not private.items() & reference["namespaces"].items(), name


def test_the_isolation_is_what_the_threat_model_asks_for(box: Box, installation: Installation) -> None:
    inside(box, FINGERPRINT + "say(0)", "one")
    one = json.loads((installation.workspace / "one").read_text())
    status = one["status"]
    assert {status[key] for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0000000000000000"}
    assert (status["NoNewPrivs"], status["Seccomp"], one["open"]) == ("1", "2", [0, 1, 2])
    assert one["maps"][2] == "deny\n"
    uid = 1000 if IS_ROOT else os.getuid()
    assert status["Uid"].split() == [str(uid)] * 4
    assert one["maps"][0].split()[0] == str(uid)
    assert one["maps"][0].split()[2] == "1"
    host = {
        name: os.readlink(f"/proc/self/ns/{name}") for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
    }
    assert not host.items() & one["namespaces"].items()


def test_the_environment_of_the_caller_stays_outside(installation: Installation, nonce: str) -> None:
    names = ("SECRET_TOKEN", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD_X", "SSH_AUTH_SOCK", "PYTHONPATH", "BASH_ENV")
    env = dict.fromkeys(names, nonce)
    script = "env; cat /proc/*/environ 2>/dev/null"
    done = installation.cli("run", "--", "sh", "-c", script, env=env)
    assert done.returncode in {0, 1}
    assert nonce.encode() not in done.stdout
    asked = installation.cli(
        "run", "-e", "SECRET_TOKEN", "--", "sh", "-c", script, env=env
    )  # the oracle: by name it goes in
    assert nonce.encode() in asked.stdout


# -- SPEC-09: our own directories --------------------------------------------------------------------------------------


def _open_parent(installation: Installation) -> None:
    installation.home.parent.chmod(0o777)


def _open_home(installation: Installation) -> None:
    installation.home.chmod(0o777)


def _open_state(installation: Installation) -> None:
    installation.state.mkdir()
    installation.state.chmod(0o770)


def _linked_state(installation: Installation) -> None:
    elsewhere = installation.home.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    installation.state.symlink_to(elsewhere)


def _linked_boxes(installation: Installation) -> None:
    elsewhere = installation.home.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    installation.state.mkdir(mode=0o700)
    (installation.state / "boxes").symlink_to(elsewhere)


def _file_for_a_directory(installation: Installation) -> None:
    installation.state.mkdir(mode=0o700)
    (installation.state / "run").write_text("")


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Installation]:
    """An installation nobody has used, whose daemon may never come up."""
    root = tmp_path / "loose"
    root.mkdir(mode=0o700)
    installation = Installation(root)
    installation.home.chmod(0o700)
    yield installation
    if (installation.state / "paddock.db").exists():
        root.chmod(0o700)
        installation.close()


@pytest.mark.parametrize(
    "spoil", [_open_parent, _open_home, _open_state, _linked_state, _linked_boxes, _file_for_a_directory]
)
def test_a_state_directory_that_others_could_replace_is_refused(
    fresh: Installation, spoil: Callable[[Installation], None]
) -> None:
    spoil(fresh)
    done = fresh.cli("run", "--", "true")
    assert done.returncode in {2, 125}
    assert done.stderr.startswith(b"error: ")
    assert not (fresh.home.parent / "elsewhere" / "daemon.log").exists()
    assert not (fresh.home.parent / "elsewhere" / "paddock.db").exists()


def test_the_same_state_directory_kept_private_works(fresh: Installation) -> None:
    assert fresh.cli("run", "--", "true").returncode == 0
    for directory in (fresh.state, *(fresh.state / name for name in ("run", "boxes", "trash"))):
        assert directory.stat().st_mode & 0o7777 == 0o700
        assert directory.stat().st_uid == os.getuid()
    assert (fresh.state / "run" / "daemon.sock").stat().st_mode & 0o777 == 0o600
    assert (fresh.state / "paddock.db").stat().st_mode & 0o077 == 0


def test_a_planted_socket_link_is_not_followed(fresh: Installation) -> None:
    """Whoever answers there would be told the caller's whole request."""
    (fresh.state / "run").mkdir(parents=True, mode=0o700)
    fresh.state.chmod(0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        trap = str(fresh.workspace / "trap.sock")
        listener.bind(trap)
        listener.listen()
        listener.setblocking(False)
        (fresh.state / "run" / "daemon.sock").symlink_to(trap)
        done = fresh.cli("run", "--", "true")
        assert done.returncode == 125
        assert b"not a socket" in done.stderr
        with pytest.raises(BlockingIOError):
            listener.accept()
        with socket.socket(socket.AF_UNIX) as oracle:
            oracle.connect(str(fresh.state / "run" / "daemon.sock"))
        listener.accept()[0].close()


def test_exec_never_runs_for_another_user_of_the_box(box: Box) -> None:
    for user in ("root", "0", "nobody", "agent\n", "../agent"):
        with pytest.raises(UserError, match="has no user"):
            box.start(ExecSpec(argv=("id",), user=user))
    assert box.exec(["id", "-un"], user="agent").stdout == b"agent\n"
