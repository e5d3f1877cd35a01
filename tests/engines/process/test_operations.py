"""The operations of a plan: what each says of itself, and that it means what was looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import operations
from paddock.engines.process import plan as plans
from paddock.engines.process.operations import HOME, MountOp
from paddock.errors import UserError
from tests.support.plans import binds, ground, spec

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("is_root", [True, False])
def test_a_root_caller_maps_the_owner_of_its_own_trees_and_of_no_other(host: Path, is_root: bool) -> None:
    plan = plans.make(spec(host, ("data", "/mnt/a", True)), ground(host, is_root=is_root))
    owned = {op.target for op in binds(plan) if op.owner}
    own = {"/tmp", "/var/tmp", HOME, f"{host}/work", "/mnt/a"}
    assert owned == (own if is_root else set())


def test_a_workspace_that_is_gone_is_named(host: Path) -> None:
    wanted = spec(host)
    for name in ("sub", "real"):
        (host / "work" / name).rmdir()
    (host / "work").rmdir()
    with pytest.raises(UserError, match=f"{host}/work") as caught:
        plans.make(wanted, ground(host))
    assert caught.value.code == "replaced"


def test_a_directory_on_the_way_that_became_a_link_is_refused(host: Path) -> None:
    here = ground(host)
    assert operations.bind(f"{host}/extra/deep", "/mnt/a", here, own=True).source == f"{host}/extra/deep"
    (host / "extra").rename(host / "moved")
    (host / "extra").symlink_to("moved")
    with pytest.raises(UserError, match="was replaced") as caught:
        operations.bind(f"{host}/extra/deep", "/mnt/a", here, own=True)
    assert caught.value.code == "replaced"


def test_a_bind_is_read_only_unless_it_is_asked_to_be_more(host: Path) -> None:
    here = ground(host)
    assert operations.bind("/usr", "/usr", here).attributes == ("ro", "nosuid", "nodev")
    wider = operations.bind("/usr", "/usr", here, read_only=False, extra=("noexec",))
    assert wider.attributes == ("nosuid", "nodev", "noexec")


def test_what_is_not_asked_for_is_not_said_but_for_a_right() -> None:
    assert operations.encoded(MountOp(op="dir", target="/x")) == '{"op": "dir", "target": "/x", "noexec": false}'


@pytest.mark.parametrize(
    ("op", "line"),
    [
        (MountOp(op="symlink", target="/a", to="b"), "symlink /a -> b"),
        (MountOp(op="tmpfs", target="/a", options="size=1"), "tmpfs /a size=1"),
        (
            MountOp(op="overlay", target="/a", source="/b", layers="/c", attributes=("nosuid",)),
            "overlay /a from /b changes to /c/upper nosuid",
        ),
    ],
)
def test_an_operation_is_one_line(op: MountOp, line: str) -> None:
    assert op.describe() == line
