"""Users of a root that somebody else made."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace

import pytest

from paddock.engines.guest import accounts
from paddock.engines.process import kernel

PASSWD = (
    b"root:x:0:0:root:/root:/bin/sh\n"
    b"broken\n:x:5:5::/:\nlarge:x:70000:1::/:\nminus:x:-1:0::/:\narabic:x:\xd9\xa1:0::/:\n"
    b"agent:x:1000:1001::/home/agent:/bin/sh\nlost:x:7:7::relative:\n"
)
GROUP = b"root:x:0:\nstaff:x:50:other,agent\nagent:x:1001:\nodd:x:x:agent\nsudo:x:27:agent\nhuge:x:99999:agent\n"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("agent", ("agent", 1000, 1001, (50, 27), "/home/agent")),
        ("1000", ("agent", 1000, 1001, (50, 27), "/home/agent")),
        ("agent:staff", ("agent", 1000, 50, (), "/home/agent")),
        ("1000:0", ("agent", 1000, 0, (), "/home/agent")),
        ("1234", ("1234", 1234, 0, (), "/")),
        ("65535:65535", ("65535", 65535, 65535, (), "/")),
        ("root", ("root", 0, 0, (), "/root")),
        ("lost", ("lost", 7, 7, (), "/")),
    ],
)
def test_a_user_is_found_by_name_or_number(words: str, found: tuple[object, ...]) -> None:
    one = accounts.find(words, PASSWD, GROUP)
    assert (one.name, one.uid, one.gid, one.groups, one.home) == found
    assert repr(one) == f"<Account {one.name} {one.uid}:{one.gid}>"


@pytest.mark.parametrize(
    "words",
    ["", ":", ":0", "nobody", "large", "minus", "arabic", "65536", "agent:odd", "a\nb", "x" * 300],
)
def test_what_no_box_could_have_is_no_user(words: str) -> None:
    with pytest.raises(accounts.Unknown):
        accounts.find(words, PASSWD, GROUP)


def test_the_first_of_a_name_counts_and_groups_have_a_bound() -> None:
    both = b"a:x:1:1::/:\na:x:0:0::/:\n"
    many = b"".join(b"g%d:x:%d:a\n" % (number, number) for number in range(5000))
    one = accounts.find("a", both, many)
    assert one.uid == 1
    assert len(one.groups) == 256


def test_files_that_are_none_are_read_as_empty(tmp_path: object) -> None:
    os.mkfifo(f"{tmp_path}/fifo")
    assert accounts._read(f"{tmp_path}/fifo") == b""
    assert accounts._read(f"{tmp_path}/missing") == b""


def _deaf(_number: int) -> int:
    return -1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another")
@pytest.mark.parametrize("has_fsuid", [True, False])
def test_acting_as_another_makes_their_files_and_ends(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, has_fsuid: bool
) -> None:
    if not has_fsuid:  # as on gVisor
        real = accounts._libc
        rest = {"capget": real.capget, "capset": real.capset}
        monkeypatch.setattr(accounts, "_libc", SimpleNamespace(setfsuid=_deaf, setfsgid=_deaf, **rest))
    os.chmod(f"{tmp_path}", 0o777)
    place = os.open(f"{tmp_path}", os.O_RDONLY)
    own = (0, 0)
    child = subprocess.Popen(["sleep", "60"], user=61009)
    with accounts.acting_as(accounts.Account("a", 61000, 61001), own):
        os.close(os.open("theirs", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=place))
        with pytest.raises(PermissionError):
            os.open("/etc/shadow", os.O_RDONLY)
        child.kill()  # whoever it is
    assert child.wait() == -9
    os.close(os.open("/etc/shadow", os.O_RDONLY))  # the oracle: root reads it
    status = os.stat("theirs", dir_fd=place)
    os.close(place)
    assert (status.st_uid, status.st_gid) == (61000, 61001)
    kernel.set_dumpable(dumpable=True)  # other ids took that from us, who are all tests of this worker
