from __future__ import annotations

import ast
import ipaddress
from pathlib import Path

import pytest

from paddock import limits

ADDRESSES = ("GATEWAY_ADDRESS", "REFUSAL_ADDRESS", "SYNTHETIC_FIRST", "SYNTHETIC_LAST")
LINK = ("LINK_ADDRESS", "LINK_BOX_ADDRESS")  # only the two ends of a link ever see them
ALL = {name: value for name, value in vars(limits).items() if name.isupper() and name not in (*ADDRESSES, *LINK)}
UNITS = ("_BYTES", "_CHARS", "_ENTRIES", "_S", "_MAX", "_DEFAULT", "_PER_BOX", "_PORT")
COUNTS = {"KIB", "MIB", "GIB", "FRAME_NESTING", "OPEN_FILES", "INOTIFY_INSTANCES", "INOTIFY_WATCHES", "NICE"}


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_limit_is_a_positive_number(name: str) -> None:
    assert type(ALL[name]) in {int, float}
    assert ALL[name] > 0


@pytest.mark.parametrize("name", sorted(set(ALL) - COUNTS))
def test_a_limit_carries_its_unit(name: str) -> None:
    assert name.endswith(UNITS)
    assert isinstance(ALL[name], float) == (name.endswith("_S") or "FRACTION" in name)


def test_no_limit_is_set_twice() -> None:
    tree = ast.parse(Path(str(limits.__file__)).read_text())
    names = [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    assert sorted(names) == sorted(set(names))


def test_the_largest_command_fits_one_message() -> None:
    names_and_quotes_bytes = 8 * limits.ENV_ENTRIES
    assert limits.ARGV_BYTES + limits.ENV_BYTES + names_and_quotes_bytes < limits.FRAME_MESSAGE_BYTES


def test_a_box_cannot_take_what_the_host_keeps() -> None:
    assert limits.MEMORY_FRACTION_DEFAULT < 1
    assert limits.INOTIFY_INSTANCES < 128 / 2
    assert min(limits.DISK_FLOOR_BYTES, limits.MEMORY_FLOOR_BYTES) > limits.WATCH_STEP_BYTES


def test_the_host_is_watched_faster_than_a_box_stops() -> None:
    assert limits.WATCH_INTERVAL_S < limits.STOP_GRACE_S < limits.START_TIMEOUT_S


def test_addresses_of_a_sealed_network_are_nobody_elses_and_do_not_overlap() -> None:
    found = [ipaddress.ip_address(getattr(limits, name)) for name in ADDRESSES]
    assert found == sorted(set(found))
    assert all(address in ipaddress.ip_network("198.18.0.0/15") for address in found)


def test_a_box_hears_of_its_seal_before_its_start_is_given_up() -> None:
    assert limits.SEAL_CHECK_S < limits.START_TIMEOUT_S
