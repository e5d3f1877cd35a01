"""One prepared /etc serves every box: complete, free of the host's secrets, and renewed only when the host changes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from paddock.engines.process import etc
from paddock.errors import UserError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "host"
    (root / "ssl/certs").mkdir(parents=True)
    for directory in (root, root / "ssl", root / "ssl/certs"):
        directory.chmod(0o755)
    (root / "services").write_text("ssh 22/tcp\n")
    (root / "services").chmod(0o644)
    (root / "ssl/certs/a.pem").write_text("anchor")
    (root / "ssl/certs/a.pem").chmod(0o644)
    (root / "localtime").symlink_to("/usr/share/zoneinfo/Europe/Berlin")
    return root


def prepare(tmp_path: Path, source: Path, *, uid: int = 1000, gid: int = 1000, shell: str = "/bin/bash") -> Path:
    return Path(etc.prepare(str(tmp_path / "etc"), uid=uid, gid=gid, shell=shell, source_root=str(source)))


def content(path: Path) -> dict[str, str]:
    files = {str(file.relative_to(path)): file for file in path.rglob("*") if file.is_symlink() or file.is_file()}
    return {name: os.readlink(file) if file.is_symlink() else file.read_text() for name, file in files.items()}


def test_a_box_finds_what_is_generated_and_what_is_copied(tmp_path: Path, source: Path) -> None:
    found = content(prepare(tmp_path, source, uid=1234, gid=567, shell="/usr/bin/zsh"))
    assert sorted(found) == [
        *(
            "bash.bashrc",
            "bashrc",
            "gitconfig",
            "group",
            "hostname",
            "hosts",
            "localtime",
            "machine-id",
            "nsswitch.conf",
        ),
        *("passwd", "profile", "resolv.conf", "services", "ssh/ssh_config", "ssl/certs/a.pem"),
    ]
    assert found["passwd"].splitlines()[0] == "agent:x:1234:567:agent:/home/agent:/usr/bin/zsh"
    assert found["group"].splitlines()[0] == "agent:x:567:"
    assert found["hostname"] == "box\n"
    assert found["gitconfig"] == "", "a place to mount on"
    assert found["resolv.conf"] == "nameserver 198.18.0.1\noptions timeout:1 attempts:3\n"
    assert found["hosts"].splitlines()[-1] == "198.18.0.1 gateway.paddock host.docker.internal"
    assert "hosts: files dns" in found["nsswitch.conf"].splitlines()
    assert found["services"] == "ssh 22/tcp\n"
    assert found["localtime"] == "/usr/share/zoneinfo/Europe/Berlin"


def test_the_hosts_own_identity_is_replaced_not_copied(tmp_path: Path, source: Path) -> None:
    generated = ("passwd", "group", "hosts", "hostname", "resolv.conf", "nsswitch.conf", "machine-id", "profile")
    for name in (*generated, "shadow", "sudoers", "npmrc", "pip.conf", "gitconfig", "environment", "fstab"):
        (source / name).write_text("CANARY")
        (source / name).chmod(0o644)
    (source / "ssl/certs/twin.pem").write_text("CANARY")
    (source / "ssl/certs/twin.pem").chmod(0o644)
    found = content(prepare(tmp_path, source))
    assert [name for name, text in found.items() if "CANARY" in text] == ["ssl/certs/twin.pem"]


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_closed_file_is_not_copied_and_its_open_twin_is(tmp_path: Path, source: Path, mode: int) -> None:
    for name, file_mode in (("closed.pem", mode), ("open.pem", 0o644)):
        (source / "elsewhere").mkdir(exist_ok=True)
        (source / "elsewhere").chmod(0o755)
        for place in (source / "ssl/certs" / name, source / "elsewhere" / name):
            place.write_text("CANARY")
            place.chmod(file_mode)
        (source / "ssl/certs" / f"link-{name}").symlink_to(source / "elsewhere" / name)
    found = content(prepare(tmp_path, source))
    assert {name for name, text in found.items() if "CANARY" in text} == {
        "ssl/certs/open.pem",
        "ssl/certs/link-open.pem",
    }


def test_others_can_read_all_of_it_whatever_the_umask(tmp_path: Path, source: Path) -> None:
    before = os.umask(0o077)
    try:
        path = prepare(tmp_path, source)
    finally:
        os.umask(before)
    for entry in (path, *path.rglob("*")):
        if not entry.is_symlink():
            assert entry.stat().st_mode & 0o777 == (0o755 if entry.is_dir() else 0o644), entry


def test_an_unchanged_host_gives_the_same_directory_untouched(tmp_path: Path, source: Path) -> None:
    first = prepare(tmp_path, source)
    before = _written(tmp_path / "etc")
    assert prepare(tmp_path, source) == first
    assert _written(tmp_path / "etc") == before


def _written(top: Path) -> dict[Path, tuple[int, int, int]]:
    """What would show that a file was written: looking at it, which changes when it was last read, does not."""
    found = {entry: entry.lstat() for entry in top.rglob("*")}
    return {entry: (status.st_ino, status.st_mtime_ns, status.st_size) for entry, status in found.items()}


def test_a_changed_source_makes_a_new_one_and_leaves_the_old(tmp_path: Path, source: Path) -> None:
    first = prepare(tmp_path, source)
    (source / "services").write_text("http 80/tcp\n")
    second = prepare(tmp_path, source)
    assert first != second
    assert (first / "services").read_text() == "ssh 22/tcp\n"
    assert (second / "services").read_text() == "http 80/tcp\n"
    assert prepare(tmp_path, source) == second


def test_a_change_beside_the_list_makes_no_new_one(tmp_path: Path, source: Path) -> None:
    first = prepare(tmp_path, source)
    (source / "unrelated").write_text("x")
    assert prepare(tmp_path, source) == first


def test_a_new_certificate_arrives(tmp_path: Path, source: Path) -> None:
    prepare(tmp_path, source)
    (source / "ssl/certs/b.pem").write_text("second")
    (source / "ssl/certs/b.pem").chmod(0o644)
    assert (prepare(tmp_path, source) / "ssl/certs/b.pem").read_text() == "second"


def test_another_user_or_shell_gets_its_own(tmp_path: Path, source: Path) -> None:
    paths = {prepare(tmp_path, source), prepare(tmp_path, source, uid=2), prepare(tmp_path, source, shell="/bin/sh")}
    assert len(paths) == 3


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'["x", {}]', b"\xff\xfe"])
def test_a_damaged_index_is_made_again(tmp_path: Path, source: Path, damage: bytes) -> None:
    first = prepare(tmp_path, source)
    [index] = (tmp_path / "etc").glob("*.index")
    good = index.read_bytes()
    index.write_bytes(damage)
    assert prepare(tmp_path, source) == first
    assert index.read_bytes() == good


def test_a_lost_generation_is_made_again(tmp_path: Path, source: Path) -> None:
    first = prepare(tmp_path, source)
    first.rename(tmp_path / "gone")
    assert prepare(tmp_path, source) == first
    assert content(first) == content(tmp_path / "gone")


def test_preparing_at_the_same_time_gives_one_whole_directory(tmp_path: Path, source: Path) -> None:
    results: list[Path] = []
    meet = threading.Barrier(4)

    def work() -> None:
        meet.wait()
        results.append(prepare(tmp_path, source))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert len(set(results)) == 1
    assert content(results[0]) == content(prepare(tmp_path / "alone", source))
    assert len(list((tmp_path / "etc").iterdir())) == 2, "the generation and its index"


@pytest.mark.parametrize("shell", ["", "bash", "/bin/sh:0", "/bin/sh\nroot:x:0:0::/:/bin/sh", "/bin/\x1b"])
def test_a_shell_that_would_break_passwd_is_refused(tmp_path: Path, source: Path, shell: str) -> None:
    with pytest.raises(UserError, match="is not a shell"):
        prepare(tmp_path, source, shell=shell)


def test_the_agent_is_the_first_answer_for_its_id(tmp_path: Path, source: Path) -> None:
    lines = content(prepare(tmp_path, source, uid=65534, gid=65534))["passwd"].splitlines()
    assert next(line for line in lines if line.split(":")[2] == "65534").startswith("agent:")


def test_this_machine_gets_a_usable_one(tmp_path: Path) -> None:
    path = Path(etc.prepare(str(tmp_path), uid=1000, gid=1000, shell="/bin/sh"))
    assert (path / "passwd").is_file()
    assert not any((path / name).exists() for name in ("shadow", "sudoers", "npmrc", "ssl/private"))
    assert (path / "gitconfig").read_text() == "", "the host's may name helpers and tokens"
    if os.path.exists("/etc/ld.so.cache"):
        assert (path / "ld.so.cache").read_bytes() == Path("/etc/ld.so.cache").read_bytes()
