from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import codec, limits
from paddock.errors import UserError
from paddock.model import (
    BoxSpec,
    Budget,
    ExecResult,
    ExecSpec,
    Limits,
    Mount,
    Network,
    NetworkRule,
    Publish,
    SecretUse,
    TtySize,
    WorkspaceMode,
    check_env,
    check_name,
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


@pytest.mark.parametrize("budget", [{"tokens": -1}, {"picodollars": 1 << 62}, {"seconds": math.nan}])
def test_a_budget_is_not_negative_and_not_endless(budget: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        Budget(**budget)
    assert caught.value.code == "bad-budget"


def test_a_box_has_no_more_secrets_than_the_gateway_takes() -> None:
    uses = tuple(SecretUse(name=f"s{number}") for number in range(limits.SECRETS_PER_BOX + 1))
    assert BoxSpec(name="a", agent="shell", workspace="/w", secrets=uses[1:]).secrets == uses[1:]
    with pytest.raises(UserError):
        BoxSpec(name="a", agent="shell", workspace="/w", secrets=uses)


RULE = NetworkRule(action="deny", pattern="a.example")


@pytest.mark.parametrize("name", ["a", "7", "claude-app", "a.b_c-d", "x" * limits.NAME_CHARS, "lock", "a.locks"])
def test_a_plain_name_is_a_box_name(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * (limits.NAME_CHARS + 1),
        "A",
        "é",
        "a b",
        "a/b",
        "a\0",
        "a\n",
        "-a",
        "a-",
        ".a",
        "a.",
        "_a",
        "a..b",
        "~",
        "a.lock",
    ],
)
def test_anything_else_is_no_box_name(name: str) -> None:
    with pytest.raises(UserError, match="is not a box name") as caught:
        check_name(name)
    assert (caught.value.code, bool(caught.value.hint)) == ("bad-name", True)


@given(st.text(alphabet="abz09_.-/A\n\0é", max_size=70))
def test_a_box_name_is_safe_wherever_it_is_put(name: str) -> None:
    try:
        check_name(name)
    except UserError:
        return
    assert name.isascii()
    assert name == name.lower()
    assert not set(name) & set("/\0\n ~")
    assert ".." not in name
    assert name[0].isalnum()
    assert name[-1].isalnum()


@pytest.mark.parametrize(
    "env", [{}, {"A": ""}, {"_a1": "x=y\n"}, {"A": "é"}, {"A": "\udcff"}, {"A": "v" * (limits.ENV_BYTES - 1)}]
)
def test_an_environment_execve_takes_is_taken(env: dict[str, str]) -> None:
    assert check_env(env) is env


@pytest.mark.parametrize(
    "env",
    [
        {"": "x"},
        {"1A": "x"},
        {"A=B": "x"},
        {"A\n": "x"},
        {"É": "x"},
        {"A": "a\0b"},
        {"A": "\ud800"},
        {"A": "v" * limits.ENV_BYTES},
        {"A": "é" * (limits.ENV_BYTES // 2)},
        {f"A{n}": "" for n in range(limits.ENV_ENTRIES + 1)},
    ],
    ids=lambda env: ascii(env)[:20],
)
def test_an_environment_execve_would_not_take_is_refused(env: dict[str, str]) -> None:
    with pytest.raises(UserError) as caught:
        check_env(env)
    assert caught.value.code == "bad-env"


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
        (lambda: ExecSpec(argv=()), "no-command"),
        (lambda: ExecSpec(argv=("", "x")), "no-command"),
        (lambda: ExecSpec(argv=("echo", "a\0b")), "bad-command"),
        (lambda: ExecSpec(argv=("echo", "\ud800")), "bad-command"),
        (lambda: ExecSpec(argv=("echo", "x" * limits.ARGV_BYTES)), "bad-command"),
        (lambda: ExecSpec(argv=("echo", "é" * (limits.ARGV_BYTES // 2))), "bad-command"),
        (lambda: ExecSpec(argv=("true",), env={"A": "\0"}), "bad-env"),
        (lambda: ExecSpec(argv=("true",), timeout_s=0), "bad-timeout"),
        (lambda: ExecSpec(argv=("true",), timeout_s=-1), "bad-timeout"),
        (lambda: ExecSpec(argv=("true",), timeout_s=math.nan), "bad-timeout"),
        (lambda: ExecSpec(argv=("true",), timeout_s=math.inf), "bad-timeout"),
        (lambda: TtySize(rows=0, cols=80), "bad-tty"),
        (lambda: TtySize(rows=24, cols=65536), "bad-tty"),
        (lambda: Publish(port=0, box_port=80), "bad-port"),
        (lambda: Publish(port=80, box_port=65536), "bad-port"),
        (lambda: Network(publish=(Publish(port=1, box_port=1),) * (limits.PUBLISHED_PER_BOX + 1)), "bad-port"),
        (lambda: Network(rules=(RULE,) * (limits.RULES_PER_BOX + 1)), "bad-policy"),
        (lambda: Network(project="x" * (limits.PROJECT_FILE_BYTES + 1)), "bad-policy"),
    ],
)
def test_a_value_that_cannot_be_is_never_built(build: Callable[[], object], code: str) -> None:
    with pytest.raises(UserError) as caught:
        build()
    assert caught.value.code == code


def test_the_largest_values_are_built() -> None:
    BoxSpec(name="n", agent="a", workspace="/w", mounts=_mounts(limits.MOUNTS_PER_BOX))
    ExecSpec(argv=("e", "x" * (limits.ARGV_BYTES - 1)), tty=TtySize(rows=65535, cols=65535), timeout_s=0.001)


def test_a_command_is_ok_when_it_exits_with_zero() -> None:
    assert ExecResult(exit_code=0).ok
    assert not ExecResult(exit_code=1).ok


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
