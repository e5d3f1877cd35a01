"""A build as it is asked for and told."""

from __future__ import annotations

import pytest

from paddock import codec
from paddock.errors import UserError
from paddock.model.build import BuildInfo, BuildRequest, LockedBase, LockedStep, LockInfo


def test_it_goes_over_the_wire_and_back() -> None:
    lock = LockInfo(
        bases=(LockedBase(name="debian", digest="sha256:1"),),
        steps=(LockedStep(line=3, does="RUN x", key="k"), LockedStep(line=4, does="COPY", key="l")),
        digest="sha256:2",
    )
    asked = BuildRequest(name="a:b", directory="/d", arguments={"K": "V"}, uses_cache=False, locked=lock)
    assert codec.from_wire(BuildRequest, codec.to_wire(asked)) == asked
    told = BuildInfo(name="a", tag="b", digest="sha256:3", layers=2, steps=1, lock=lock)
    assert codec.from_wire(BuildInfo, codec.to_wire(told)) == told


def test_what_is_unknown_is_refused() -> None:
    with pytest.raises(UserError, match="unknown key 'secrets'"):
        codec.from_wire(BuildRequest, {"name": "a", "directory": "/d", "secrets": []})
