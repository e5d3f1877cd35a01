"""The bundle of a box, as data."""

from __future__ import annotations

import json
import resource

from paddock.engines.container import bundle, ids


def _config() -> dict[str, object]:
    text = bundle.config(("/init",), ids.block(0), ((resource.RLIMIT_CORE, 0, 0),), 1 << 30, set_id=False)
    value = json.loads(text)
    assert isinstance(value, dict)
    return value


def test_it_asks_for_no_network_no_cgroup_and_no_queues_of_its_own() -> None:
    linux = _config()["linux"]
    assert isinstance(linux, dict)
    assert {row["type"] for row in linux["namespaces"]} == {"pid", "uts", "mount", "user"}
    assert "cgroupsPath" not in linux
    assert "resources" not in linux


def test_no_capability_reaches_beyond_the_files_and_ids_of_the_box() -> None:
    process = _config()["process"]
    assert isinstance(process, dict)
    given = set(process["capabilities"]["bounding"])
    assert "CAP_CHOWN" in given
    assert not given & {
        "CAP_SYS_ADMIN",
        "CAP_SETFCAP",
        "CAP_SYS_PTRACE",
        "CAP_NET_ADMIN",
        "CAP_NET_RAW",
        "CAP_MKNOD",
        "CAP_SYS_MODULE",
    }
    assert "inheritable" not in process["capabilities"]


def test_calls_that_no_box_has_are_not_on_its_list() -> None:
    linux = _config()["linux"]
    assert isinstance(linux, dict)
    rules = linux["seccomp"]["syscalls"]
    allowed = {name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert {"read", "execve", "setgroups"} <= allowed
    assert not allowed & {
        "io_uring_setup",
        "bpf",
        "keyctl",
        "mount",
        "unshare",
        "setns",
        "userfaultfd",
        "open_by_handle_at",
    }
    assert linux["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"
