"""A plan shows a box its own things and the host's tools, and nothing else; these are its laws."""

from __future__ import annotations

import os
import resource
import socket
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock import codec, limits
from paddock.engines.process import plan as plans
from paddock.engines.process.toolchains import Toolchains
from paddock.errors import Unavailable, UserError
from paddock.model import BoxSpec, Limits, Mount, WorkspaceMode

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.process.plan import Ground, MountOp, Plan


@pytest.fixture
def host(tmp_path: Path) -> Path:
    directories = (
        "work/sub",
        "extra/deep",
        "data",
        "storage/home",
        "storage/tmp",
        "view/etc",
        "view/shims",
        "tools/bin",
    )
    for directory in directories:
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "single").touch()
    (tmp_path / "tools/credentials").touch()
    return tmp_path


def ground(host: Path, **rest: Any) -> Ground:
    values: dict[str, Any] = {
        "etc": f"{host}/view/etc",
        "shims": f"{host}/view/shims",
        "storage": f"{host}/storage",
        "toolchains": Toolchains(trees=(f"{host}/tools",), covers=(f"{host}/tools/credentials",)),
        "uid": 1000,
        "gid": 1000,
        "is_root": False,
        "memory_bytes": 1 << 30,
        "memory_by_kernel": False,
        **rest,
    }
    return plans.Ground(**values)


def spec(host: Path, *mounts: tuple[str, str, bool], **rest: Any) -> BoxSpec:
    wanted = tuple(Mount(source=f"{host}/{source}", target=target, read_only=ro) for source, target, ro in mounts)
    return BoxSpec(name="box", agent="shell", workspace=f"{host}/work", mounts=wanted, **rest)


def made(host: Path, *mounts: tuple[str, str, bool], **rest: Any) -> Plan:
    return plans.make(spec(host, *mounts, **rest), ground(host))


def _binds(plan: Plan) -> list[MountOp]:
    return [op for op in plan.mounts if op.op == "bind"]


_mounts = st.lists(
    st.tuples(
        st.sampled_from(["extra", "extra/deep", "data", "single"]),
        st.sampled_from(["/mnt/a", "/mnt/a/b", "/mnt/a/b/c", "/opt/x", "/home/agent/y", "/tmp/z", "/srv"]),
        st.booleans(),
    ),
    max_size=6,
    unique_by=lambda row: row[1],
)
laws = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@laws
@given(mounts=_mounts)
def test_every_bind_is_without_setuid_and_devices(host: Path, mounts: list[tuple[str, str, bool]]) -> None:
    for op in _binds(made(host, *mounts)):
        assert {"nosuid", "nodev"} <= set(op.attributes), op


@laws
@given(mounts=_mounts)
def test_only_the_boxs_own_and_what_was_asked_for_is_writable(host: Path, mounts: list[tuple[str, str, bool]]) -> None:
    plan = made(host, *mounts)
    writable = {op.target for op in _binds(plan) if "ro" not in op.attributes}
    asked = {f"{host}/work", *(target for _, target, ro in mounts if not ro)}
    assert writable == {"/tmp", "/var/tmp", plans.HOME} | asked
    assert set(plan.writable) == {plans.HOME, "/tmp", "/run/user", "/run/lock", "/dev/shm"} | asked


@laws
@given(mounts=_mounts)
def test_nothing_covers_what_was_mounted_before_it(host: Path, mounts: list[tuple[str, str, bool]]) -> None:
    """An outer mount after an inner one would hide it, and with it its protection."""
    seen: list[str] = []
    for op in made(host, *mounts).mounts:
        below = [target for target in seen if target.startswith(op.target.rstrip("/") + "/")]
        if op.op in {"bind", "tmpfs", "proc", "devpts", "cover"}:
            assert below == [], op
        seen.append(op.target)


@laws
@given(mounts=_mounts)
def test_every_source_is_known_by_its_identity(host: Path, mounts: list[tuple[str, str, bool]]) -> None:
    for op in _binds(made(host, *mounts)):
        found = os.stat(op.source)
        assert op.identity == (found.st_dev, found.st_ino)


@laws
@given(mounts=_mounts)
def test_nothing_of_the_host_is_shown_that_was_not_asked_for(host: Path, mounts: list[tuple[str, str, bool]]) -> None:
    asked = {f"{host}/{source}" for source, _, _ in mounts} | {f"{host}/work"}
    own = {f"{host}/storage/{name}" for name in ("home", "tmp")} | {f"{host}/view/{name}" for name in ("etc", "shims")}
    system = {"/usr", *(f"/{name}" for name in plans._USR_MERGED)}
    assert {op.source for op in _binds(made(host, *mounts))} <= asked | own | system | {f"{host}/tools"}


@laws
@given(mounts=_mounts)
def test_a_plan_survives_the_wire_and_can_be_printed(host: Path, mounts: list[tuple[str, str, bool]]) -> None:
    plan = made(host, *mounts)
    assert codec.from_wire(plans.Plan, codec.to_wire(plan)) == plan
    lines = plan.describe()
    assert all(line.isprintable() for line in lines)
    assert f"bind {host}/work from {host}/work nosuid,nodev" in lines


def test_a_home_of_the_caller_appears_only_as_its_toolchains(host: Path) -> None:
    plan = made(host, caller_home=os.fspath(host))
    shown = [op for op in _binds(plan) if op.source.startswith(f"{host}/")]
    assert [op.target for op in shown if "tools" in op.source] == [f"{host}/tools"]
    assert all("ro" in op.attributes for op in shown if "tools" in op.source)
    covers = [op.target for op in plan.mounts if op.op == "cover" and op.target.startswith(f"{host}/")]
    assert covers == [f"{host}/tools/credentials"]


def test_a_toolchain_in_the_workspace_is_the_workspaces_own(host: Path) -> None:
    (host / "work/.venv/bin").mkdir(parents=True)
    here = ground(host, toolchains=Toolchains(trees=(f"{host}/work/.venv",), covers=(f"{host}/work/.venv/pip.conf",)))
    plan = plans.make(spec(host), here)
    assert [op for op in plan.mounts if ".venv" in op.target] == []


# -- what is protected in a workspace ----------------------------------------------------------------------------------


def _git(plan: Plan) -> list[tuple[str, str]]:
    return [(op.op, op.target) for op in plan.mounts if op.target.endswith("/.git")]


def test_a_workspace_without_git_has_nothing_to_protect(host: Path) -> None:
    assert _git(made(host)) == []


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_git_of_a_workspace_is_read_only(host: Path, kind: str) -> None:
    git = host / "work/.git"
    git.mkdir() if kind == "directory" else git.write_text("gitdir: ../elsewhere\n")
    assert _git(made(host)) == [("readonly", f"{host}/work/.git")]


@pytest.mark.parametrize("target", ["elsewhere", "/etc", "nowhere"])
def test_git_that_is_a_link_is_refused(host: Path, target: str) -> None:
    (host / "work/.git").symlink_to(target)
    with pytest.raises(UserError) as caught:
        made(host)
    assert caught.value.code == "git-link"
    assert f"{host}/work/.git" in caught.value.message


def test_git_of_a_mount_is_protected_where_it_lands(host: Path) -> None:
    (host / "extra/.git").mkdir()
    (host / "data/.git").mkdir()
    plan = made(host, ("extra", "/mnt/a", False), ("data", "/mnt/b", True))
    assert _git(plan) == [("readonly", "/mnt/a/.git")], "the other one is read-only as a whole"


def test_sockets_in_what_is_shown_are_covered_where_they_land(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    for name in ("work/sub/a.sock", "extra/b.sock"):
        monkeypatch.chdir((host / name).parent)
        opened.append(socket.socket(socket.AF_UNIX))
        opened[-1].bind(os.path.basename(name))
    plan = made(host, ("extra", "/mnt/a", True))
    for one in opened:
        one.close()
    covers = {op.target for op in plan.mounts if op.op == "cover" and op.target.endswith(".sock")}
    assert covers == {f"{host}/work/sub/a.sock", "/mnt/a/b.sock"}
    assert [op for op in made(host).mounts if op.target.startswith("/mnt/a")] == []


# -- limits and ids ----------------------------------------------------------------------------------------------------


def test_limits_are_those_of_the_spec_or_the_defaults(host: Path) -> None:
    assert made(host).pids == limits.PIDS_DEFAULT
    plan = made(host, limits=Limits(pids=7, disk_bytes=12345, memory_bytes=1 << 29))
    rows = {number: (soft, hard) for number, soft, hard in plan.rlimits}
    assert plan.pids == 7
    assert rows[resource.RLIMIT_FSIZE] == (12345, 12345)
    assert rows[resource.RLIMIT_CORE] == (0, 0)
    assert rows[resource.RLIMIT_DATA] == (1 << 29, 1 << 29)


@pytest.mark.parametrize(
    ("wanted", "by_kernel"), [(Limits(), False), (Limits(), True), (Limits(memory_bytes=1 << 29), True)]
)
def test_memory_is_held_for_each_process_only_where_it_was_asked_for_and_nothing_better_holds_it(
    host: Path, wanted: Limits, by_kernel: bool
) -> None:
    plan = plans.make(spec(host, limits=wanted), ground(host, memory_by_kernel=by_kernel))
    assert resource.RLIMIT_DATA not in [row[0] for row in plan.rlimits]


def test_no_limit_is_above_the_callers_own(host: Path) -> None:
    for number, soft, hard in made(host, limits=Limits(disk_bytes=1 << 59)).rlimits:
        ceiling = resource.getrlimit(number)[1]
        assert soft <= hard
        assert ceiling in {resource.RLIM_INFINITY, hard} or hard < ceiling


def test_namespaces_of_a_box_are_bounded_to_the_one_it_needs(host: Path) -> None:
    wanted = made(host).namespace_limits
    assert wanted["user/max_user_namespaces"] == "1"
    assert {value for key, value in wanted.items() if key.endswith("namespaces")} == {"0", "1"}
    assert wanted["user/max_inotify_instances"] == str(limits.INOTIFY_INSTANCES)


@pytest.mark.parametrize("is_root", [True, False])
def test_a_root_caller_maps_the_owner_of_its_own_trees_and_of_no_other(host: Path, is_root: bool) -> None:
    plan = plans.make(spec(host, ("data", "/mnt/a", True)), ground(host, is_root=is_root))
    owned = {op.target for op in _binds(plan) if op.owner}
    own = {"/tmp", "/var/tmp", plans.HOME, f"{host}/work", "/mnt/a"}
    assert owned == (own if is_root else set())


def test_a_workspace_that_is_gone_is_named(host: Path) -> None:
    wanted = spec(host)
    (host / "work/sub").rmdir()
    (host / "work").rmdir()
    with pytest.raises(UserError, match=f"{host}/work") as caught:
        plans.make(wanted, ground(host))
    assert caught.value.code == "replaced"


def test_a_plan_of_many_mounts_can_be_handed_over_at_once(host: Path) -> None:
    """A root caller opens the trees; one message carries no more descriptors than this."""
    from paddock.engines.process import kernel

    mounts = [("extra", f"/mnt/{number}", False) for number in range(limits.MOUNTS_PER_BOX)]
    assert len(_binds(made(host, *mounts))) < kernel.DESCRIPTORS_MAX


# -- a gateway ---------------------------------------------------------------------------------------------------------


def test_a_sealed_plan_says_so_and_shows_the_rules(host: Path) -> None:
    plan = plans.make(spec(host), ground(host, sealed=True, localhost_ports=(5432, 80)))
    assert (plan.sealed, plan.localhost_ports) == (True, (5432, 80))
    assert plan.namespace_limits["net/ipv4/ip_unprivileged_port_start"] == "0"
    lines = plan.describe()
    assert [line for line in lines if line.startswith("network")] == [
        "network sealed: TCP and names lead to the gateway, localhost ports that do: 5432 80"
    ]
    assert "nft reject with icmpx type admin-prohibited" in lines


def test_a_plan_without_a_gateway_has_loopback_only(host: Path) -> None:
    plan = made(host)
    assert (plan.sealed, plan.localhost_ports) == (False, ())
    assert "net/ipv4/ip_unprivileged_port_start" not in plan.namespace_limits
    assert [line for line in plan.describe() if line.startswith(("network", "nft"))] == ["network loopback only"]


def _given(host: Path, *names: str) -> None:
    (host / "storage/net").mkdir()
    for name in names:
        (host / "storage/net" / name).touch()


def _shown(host: Path, *names: str) -> dict[str, str]:
    _given(host, *names)
    plan = made(host)
    ops = [op for op in plan.mounts if op.source.startswith(f"{host}/storage/net/")]
    assert all({"ro", "nosuid", "nodev", "noexec"} <= set(op.attributes) for op in ops)
    return {op.target: op.source.removeprefix(f"{host}/storage/net/") for op in ops}


def test_the_gateways_files_are_shown_where_programs_look(host: Path) -> None:
    for path in ("ssl/certs/ca-certificates.crt", "ssl/certs/java/cacerts", "pki/tls/certs/other.crt"):
        (host / "view/etc" / path).parent.mkdir(parents=True, exist_ok=True)
        (host / "view/etc" / path).touch()
    (host / "view/etc/ssl/cert.pem").symlink_to("certs/ca-certificates.crt")
    (host / "view/etc/pki/tls/certs/ca-bundle.crt").symlink_to("other.crt")
    assert _shown(host, "denials.jsonl", "bundle.pem", "cacerts", "authority.pem") == {
        "/run/paddock/denials.jsonl": "denials.jsonl",
        "/run/paddock/ca-bundle.pem": "bundle.pem",
        "/etc/ssl/certs/ca-certificates.crt": "bundle.pem",
        "/etc/ssl/certs/java/cacerts": "cacerts",
    }


def test_a_host_without_certificates_gets_none_in_etc(host: Path) -> None:
    assert _shown(host, "bundle.pem", "cacerts") == {"/run/paddock/ca-bundle.pem": "bundle.pem"}


def test_what_is_no_file_of_the_gateways_is_not_shown(host: Path) -> None:
    (host / "storage/net/bundle.pem").mkdir(parents=True)
    (host / "storage/net/denials.jsonl").symlink_to("/etc/passwd")
    assert not [op for op in made(host).mounts if "/storage/net" in op.source]


# -- the workspace's modes ---------------------------------------------------------------------------------------------


def _over(plan: Plan, place: str) -> list[tuple[str, str]]:
    """What is done at and below `place`, in order."""
    return [(op.op, op.target[len(place) :]) for op in plan.mounts if op.target == place or place + "/" in op.target]


def test_a_review_is_one_overlay_and_nothing_of_the_workspace_is_bound(host: Path) -> None:
    (host / "work/.git").mkdir()
    plan = made(host, mode=WorkspaceMode.REVIEW)
    (overlay,) = [op for op in plan.mounts if op.op == "overlay"]
    found = (host / "work").stat()
    assert (overlay.source, overlay.target, overlay.layers) == (
        f"{host}/work",
        f"{host}/work",
        f"{host}/storage/review",
    )
    assert overlay.identity == (found.st_dev, found.st_ino)
    assert _over(plan, f"{host}/work") == [("overlay", "")], "its .git too is the box's own"
    assert f"{host}/work" in plan.writable
    assert f"changes to {host}/storage/review/upper" in overlay.describe()


def test_other_directories_of_a_review_are_as_in_a_live_box(host: Path) -> None:
    (host / "extra/.git").mkdir()
    plan = made(host, ("extra", "/mnt/extra", False), mode=WorkspaceMode.REVIEW)
    assert _over(plan, "/mnt/extra") == [("bind", ""), ("readonly", "/.git")]


def test_a_root_callers_overlay_stands_for_the_workspaces_owner(host: Path) -> None:
    plan = plans.make(spec(host, mode=WorkspaceMode.REVIEW), ground(host, is_root=True))
    (overlay,) = [op for op in plan.mounts if op.op == "overlay"]
    assert overlay.owner == ((host / "work").stat().st_uid, (host / "work").stat().st_gid)


def test_a_review_of_a_repository_without_a_work_tree_is_refused(host: Path) -> None:
    for name in ("HEAD", "config", "objects", "refs"):
        (host / "work" / name).touch()
    with pytest.raises(UserError) as caught:
        made(host, mode=WorkspaceMode.REVIEW)
    assert caught.value.code == "git-directory"


def test_masks_come_last_and_every_directory_on_the_way_is_pinned(host: Path) -> None:
    plan = made(host, masks=(".env", "sub/deep/key"))
    assert _over(plan, f"{host}/work")[-4:] == [
        ("cover", "/.env"),
        ("pin", "/sub"),
        ("pin", "/sub/deep"),
        ("cover", "/sub/deep/key"),
    ]
    assert all(op.optional for op in plan.mounts if op.op in {"pin", "cover"} and op.target.startswith(f"{host}/work"))


def test_what_is_mounted_on_itself_needs_no_tree(host: Path) -> None:
    """A root caller can open 252 of them, and a workspace may hold many repositories."""
    inside = f"{host}/work/sub"
    view = (
        Mount(source=f"{host}/work/sub/a", target=f"{inside}/a", read_only=True),
        Mount(source=inside, target=inside),
        Mount(source=f"{host}/data", target=f"{inside}/a/.git"),
        Mount(source=f"{host}/data", target="/run/git/0", read_only=True),
    )
    plan = plans.make(spec(host), ground(host, view=view))
    assert _over(plan, f"{host}/work") == [
        ("bind", ""),
        ("pin", "/sub"),
        ("readonly", "/sub/a"),
        ("bind", "/sub/a/.git"),
    ]
    assert set(plan.writable) >= {f"{inside}/a/.git"}
    assert "/run/git/0" not in plan.writable


def test_what_is_opened_inside_a_closed_place_is_bound_anew(host: Path) -> None:
    (host / "work/sub/open").mkdir()
    place = f"{host}/work/sub"
    view = (Mount(source=place, target=place, read_only=True), Mount(source=f"{place}/open", target=f"{place}/open"))
    plan = plans.make(spec(host), ground(host, view=view))
    assert _over(plan, place) == [("readonly", ""), ("bind", "/open")]


def test_a_gitdir_of_the_boxs_own_takes_the_place_of_the_read_only_one(host: Path) -> None:
    (host / "work/.git").mkdir()
    assert ("readonly", "/.git") in _over(made(host), f"{host}/work")
    view = (Mount(source=f"{host}/data", target=f"{host}/work/.git"),)
    plan = plans.make(spec(host), ground(host, view=view))
    assert _over(plan, f"{host}/work") == [("bind", ""), ("bind", "/.git")]


def test_a_clone_is_bound_where_the_workspace_is(host: Path) -> None:
    view = (Mount(source=f"{host}/data", target=f"{host}/work"),)
    plan = plans.make(spec(host, mode=WorkspaceMode.CLONE), ground(host, view=view))
    sources = {op.source for op in _binds(plan) if op.target == f"{host}/work"}
    assert sources == {f"{host}/data"}
    with pytest.raises(Unavailable, match="clone"):
        plans.make(spec(host, mode=WorkspaceMode.CLONE), ground(host))
