"""A box is what its spec says, or there is none."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import pytest

from paddock import codec, limits
from paddock.errors import UserError
from paddock.model import (
    BoxSpec,
    Budget,
    Limits,
    Mount,
    SecretUse,
    WorkspaceMode,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_spec_of_before_there_were_secrets_and_budgets_loads() -> None:
    wire = codec.to_wire(BoxSpec(name="a", agent="shell", workspace="/w"))
    assert isinstance(wire, dict)
    old = {key: value for key, value in wire.items() if key not in {"secrets", "budget"}}
    assert codec.from_wire(BoxSpec, old) == codec.from_wire(BoxSpec, wire)


def test_a_spec_with_secrets_and_a_budget_survives_the_wire() -> None:
    uses = (SecretUse(name="github", read_only=True), SecretUse(name="openai", variable="OPENAI_API_KEY"))
    spec = BoxSpec(name="a", agent="shell", workspace="/w", secrets=uses, budget=Budget(tokens=0, picodollars=10**12))
    assert codec.from_wire(BoxSpec, codec.to_wire(spec)) == spec
    assert not Budget(requests=1).needs_usage
    assert Budget(tokens=5).over(spec.budget) == Budget(tokens=5, picodollars=10**12)


def test_a_box_has_no_more_secrets_than_the_gateway_takes() -> None:
    uses = tuple(SecretUse(name=f"s{number}") for number in range(limits.SECRETS_PER_BOX + 1))
    assert BoxSpec(name="a", agent="shell", workspace="/w", secrets=uses[1:]).secrets == uses[1:]
    with pytest.raises(UserError):
        BoxSpec(name="a", agent="shell", workspace="/w", secrets=uses)


@pytest.mark.parametrize("key", ["memory_bytes", "cpus", "pids", "disk_bytes", "wall_s"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, 1 << 60])
def test_a_limit_that_limits_nothing_is_refused(key: str, value: Any) -> None:
    Limits(**{key: 1})
    with pytest.raises(UserError, match=f"{key} must be a positive number"):
        Limits(**{key: value})


def test_a_box_spec_is_checked_and_frozen() -> None:
    spec = BoxSpec(name="claude-app", agent="claude", workspace="/work")
    assert (spec.mounts, spec.env, spec.limits) == ((), {}, Limits())
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: BoxSpec(name="No", agent="a", workspace="/w"), "bad-name"),
        (lambda: BoxSpec(name="n", agent="a", workspace="/w", env={"A B": ""}), "bad-env"),
        (lambda: BoxSpec(name="n", agent="a", workspace="/w", mounts=_mounts(limits.MOUNTS_PER_BOX + 1)), "bad-mount"),
    ],
)
def test_a_value_that_cannot_be_is_never_built(build: Callable[[], object], code: str) -> None:
    with pytest.raises(UserError) as caught:
        build()
    assert caught.value.code == code


def test_the_largest_value_is_built() -> None:
    BoxSpec(name="n", agent="a", workspace="/w", mounts=_mounts(limits.MOUNTS_PER_BOX))


def _mounts(count: int) -> tuple[Mount, ...]:
    return tuple(Mount(source="/s", target=f"/t{n}") for n in range(count))


# -- how a box has its workspace ---------------------------------------------------------------------------------------


def test_a_record_that_says_nothing_of_it_is_of_a_live_box() -> None:
    spec = BoxSpec(name="a", agent="shell", workspace="/w")
    wire = codec.to_wire(spec)
    assert isinstance(wire, dict)
    for key in ("mode", "branch", "masks", "writable"):
        del wire[key]
    assert codec.from_wire(BoxSpec, wire) == spec
    assert spec.mode is WorkspaceMode.LIVE


@pytest.mark.parametrize("mode", list(WorkspaceMode))
def test_a_mode_survives_its_record(mode: WorkspaceMode) -> None:
    spec = BoxSpec(name="a", agent="shell", workspace="/w", mode=mode, masks=(".env", "a/b"))
    assert codec.from_wire(BoxSpec, codec.to_wire(spec)) == spec


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        ({"branch": "fix"}, "bad-mode"),
        ({"mode": WorkspaceMode.REVIEW, "branch": "fix"}, "bad-mode"),
        ({"mode": WorkspaceMode.REVIEW, "writable": (".envrc",)}, "bad-mode"),
        ({"mode": WorkspaceMode.CLONE, "writable": (".envrc",)}, "bad-mode"),
        ({"masks": ("x",) * (limits.MASKS_PER_BOX + 1)}, "bad-path"),
        ({"writable": ("x",) * (limits.MASKS_PER_BOX + 1)}, "bad-path"),
    ],
)
def test_what_a_mode_cannot_have_is_refused(rest: dict[str, Any], code: str) -> None:
    with pytest.raises(UserError) as caught:
        BoxSpec(name="a", agent="shell", workspace="/w", **rest)
    assert caught.value.code == code
