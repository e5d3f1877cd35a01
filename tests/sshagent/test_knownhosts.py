"""Which keys a user knows a host by: the lines of known_hosts, as ssh itself reads them."""

from __future__ import annotations

import base64
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.sshagent.knownhosts import keys_of, written
from paddock.sshagent.wire import string
from tests.support.sshkeys import somebody

if TYPE_CHECKING:
    from pathlib import Path

KIND = "ssh-ed25519"
ONE, TWO, CERT = (
    string(KIND.encode()) + string(b"1" * 32),
    string(KIND.encode()) + string(b"2" * 32),
    string(b"ssh-ed25519-cert-v01@openssh.com") + string(b"3" * 32),
)


def line(names: str, key: bytes = ONE, kind: str = KIND) -> str:
    return f"{names} {kind} {base64.b64encode(key).decode()} comment\n"


@pytest.mark.parametrize(
    ("text", "host", "port", "expected"),
    [
        (line("git.example"), "git.example", 22, {ONE}),
        (line("git.example"), "GIT.example", 22, {ONE}),
        (line("git.example"), "git.example", 2222, set()),
        (line("git.example"), "agit.example", 22, set()),
        (line("[git.example]:2222"), "git.example", 2222, {ONE}),
        (line("[git.example]:2222"), "git.example", 22, set()),
        (line("a.example,git.example,10.0.0.1"), "git.example", 22, {ONE}),
        (line("*.example"), "git.example", 22, {ONE}),
        (line("*.example,!git.example"), "git.example", 22, set()),
        (line("!git.example,*.example"), "git.example", 22, set()),
        (line("git.exampl?"), "git.example", 22, {ONE}),
        (line("git.example") + line("git.example", TWO), "git.example", 22, {ONE, TWO}),
        (line("git.example") + "@revoked " + line("*"), "git.example", 22, set()),
        ("@cert-authority " + line("git.example"), "git.example", 22, set()),
        (line("git.example", CERT, "ssh-ed25519-cert-v01@openssh.com"), "git.example", 22, set()),
        (line("git.example", kind="ssh-rsa"), "git.example", 22, set()),
        ("# " + line("git.example"), "git.example", 22, set()),
        ("git.example ssh-ed25519 !!!\n", "git.example", 22, set()),
        ("git.example\n\n|1|x ssh-ed25519 AAAA\n|1|a|b|c ssh-ed25519 AAAA\n", "git.example", 22, set()),
    ],
)
def test_a_host_is_known_by_its_lines(text: str, host: str, port: int, expected: set[bytes]) -> None:
    assert keys_of([text], host, port) == expected


def test_hashed_names_are_found_as_ssh_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(line("git.example") + line("[git.example]:2222", TWO))
    words = [*somebody(tmp_path), "ssh-keygen", "-q", "-H", "-f", str(file)]
    subprocess.run(words, check=True, capture_output=True)
    text = file.read_text()
    assert "git.example" not in text
    assert keys_of([text], "git.example", 22) == {ONE}
    assert keys_of([text], "git.example", 2222) == {TWO}
    assert keys_of([text], "other.example", 22) == set()


def test_what_is_written_for_a_box_is_read_again() -> None:
    for port in (22, 2222):
        assert keys_of([written("git.example", port, {ONE, TWO})], "git.example", port) == {ONE, TWO}
