"""The rules of a sealed network: the bytes a box loads and the file people read are one and the same to the kernel."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.engines.process import kernel, nft
from tests.support import namespaces

if TYPE_CHECKING:
    from collections.abc import Callable

NFT = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin:/bin")
RULES = Path(nft.__file__).with_name("rules.nft")
LINK = Path(nft.__file__).with_name("link.nft")
NET = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET


def listed(load: Callable[[], None], *options: str) -> str:
    """What the kernel says its rules are in a new network, after `load`."""
    read, write = os.pipe()

    def act() -> None:
        load()
        assert NFT is not None
        done = subprocess.run([NFT, *options, "list", "ruleset"], capture_output=True, check=True, timeout=20)
        os.write(write, done.stdout)

    namespaces.inside(act, NET)
    os.close(write)
    with open(read, encoding="ascii") as pipe:
        return pipe.read()


def load_text(text: str) -> Callable[[], None]:
    def load() -> None:
        assert NFT is not None
        subprocess.run([NFT, "-f", "-"], input=text.encode(), check=True, timeout=20)

    return load


needs_nft = pytest.mark.skipif(NFT is None, reason="nft is not installed")


@needs_nft
@pytest.mark.parametrize("options", [("-a",), ("-j",), ("--debug=netlink",), ("-nn",)])
def test_the_bytes_are_the_readable_rules(options: tuple[str, ...]) -> None:
    ours = listed(nft.load, *options)
    theirs = listed(load_text(RULES.read_text()), *options)
    assert ours == theirs
    assert "61001" in ours or options == ("--debug=netlink",)


def load_both() -> None:
    nft.load()
    nft.load_link()


@needs_nft
@pytest.mark.parametrize("options", [("-a",), ("-j",), ("--debug=netlink",), ("-nn",)])
def test_the_bytes_of_a_link_are_its_readable_rules(options: tuple[str, ...]) -> None:
    def theirs() -> None:
        load_text(RULES.read_text())()
        load_text(LINK.read_text())()

    ours = listed(load_both, *options)
    assert ours == listed(theirs, *options)
    assert ours != listed(nft.load, *options), "the oracle"


@needs_nft
def test_the_comparison_sees_a_difference() -> None:
    other = RULES.read_text().replace("policy drop", "policy accept")
    assert listed(nft.load, "-a") != listed(load_text(other), "-a")


def test_the_readable_rules_name_the_ports_of_limits() -> None:
    for text in (RULES.read_text(), LINK.read_text()):
        assert f"redirect to :{limits.SEAL_DNS_PORT}" in text
        assert f"redirect to :{limits.SEAL_TCP_PORT}" in text


def test_the_plan_shows_the_rules_without_their_frame() -> None:
    lines = nft.readable()
    assert "table inet paddock {" in lines
    assert "type filter hook output priority 0; policy drop;" in lines
    assert not [line for line in lines if line in {"", "}"} or line.startswith("#")]
    assert "type nat hook prerouting priority -100; policy accept;" in nft.readable(link=True)


def test_a_batch_is_whole_messages_of_which_the_last_rule_is_answered() -> None:
    rest, flags = nft.BATCH, []
    while rest:
        length, kind, flag, _, _ = struct.unpack_from("=IHHII", rest)
        assert length % 4 == 0
        flags.append((kind, bool(flag & 4)))
        rest = rest[length:]
    assert [kind for kind, _ in flags] == [16, 0xA00, 0xA03, 0xA03, *[0xA06] * 7, 17]
    assert [place for place, (_, answered) in enumerate(flags) if answered] == [10]


def test_rules_that_are_there_already_are_an_error() -> None:
    def act() -> None:
        nft.load()
        with pytest.raises(FileExistsError):
            nft.load()

    namespaces.inside(act, NET)


def test_one_without_rights_loads_nothing() -> None:
    def act() -> None:
        kernel.drop_all_capabilities()
        with pytest.raises(PermissionError):
            nft.load()

    namespaces.inside(act, NET)
