"""The launcher: a warm, single-threaded process that turns into boxes.

The daemon asks over a SEQPACKET socket; the launcher clones, and the child reads its own plan from a socket of its own
after the clone. So the launcher never holds a plan, an environment or a secret, and nothing of one box lies in
another's memory. See docs/process-engine.md for the order of operations and why each step stands where it stands.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys

from paddock.engines.container import keeper
from paddock.engines.guest import init
from paddock.engines.guest.wire import receive_fds
from paddock.engines.process import confine, covering, kernel, landlock, seccomp

MESSAGE_BYTES = 64 * 1024
MAX_FDS = 4


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    if os.getuid() == 0:
        os.setgroups([])
    kernel.join_new_session_keyring()  # one for all boxes: one per box meets the kernel's quota of 200 keys
    kit = confine.Kit(seccomp.build(), landlock.abi())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # boxes are reaped by the kernel; the daemon watches pidfds
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel.set_title(b"paddock-init")
    gc.collect()
    kernel.trim_heap()
    gc.freeze()
    gc.disable()
    control.send(b'{"ready":true}')
    _serve(control, kit)


def _serve(control: socket.socket, kit: confine.Kit) -> None:
    while True:
        data, fds, _ = receive_fds(control, MESSAGE_BYTES, MAX_FDS)
        if not data:  # the daemon is gone; boxes stay
            os._exit(0)
        try:
            reply, passed = _answer(json.loads(data), fds, kit)
        except OSError as error:
            reply, passed = {"error": str(error), "errno": error.errno}, []
        for fd in fds:
            os.close(fd)
        socket.send_fds(control, [json.dumps(reply).encode()], passed)
        for fd in passed:
            os.close(fd)


def _answer(request: dict[str, str], fds: list[int], kit: confine.Kit) -> tuple[dict[str, object], list[int]]:
    if request["op"] == "idmap":
        return {}, [_idmap(request["uid_map"], request["gid_map"])]
    if request["op"] in {"cover", "trees"}:
        _help(fds[0], trees=request["op"] == "trees")
        return {}, []
    plan, *listeners = fds
    pid, gate, held = _clone(kernel.BOX_NAMESPACES)
    if pid == 0:
        _become_box(plan, listeners, gate, kit)
    try:
        if kit.is_root:
            _write_maps(pid, request["uid_map"], request["gid_map"], with_groups=len(listeners) > 1)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(held)
    return {"pid": pid}, []


def _clone(namespaces: int) -> tuple[int, int, int]:
    """A child and both ends of a pipe it waits at: it has `gate`, and goes on when we close `held`."""
    gate, held = os.pipe2(os.O_CLOEXEC)
    try:
        pid = kernel.clone(namespaces)
    except OSError:
        os.close(gate)
        os.close(held)
        raise
    os.close(gate if pid else held)
    return pid, gate, held


def _become_box(plan: int, listeners: list[int], gate: int, kit: confine.Kit) -> None:
    """Child side: never returns. A second listener is that of a container box's keeper."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.read(gate, 1)  # ends when the parent has written the id maps
        os.setsid()
        channel, listener = socket.socket(fileno=plan), listeners[0]
        if len(listeners) > 1:
            keeper.serve(channel, listener, listeners[1], kit)
        init.serve(listener, *confine.enter(channel, listener, kit))
    finally:
        os._exit(70)


def _help(channel: int, *, trees: bool) -> None:
    """A process that does one thing for a box that runs (covering.py), and reads what it is on `channel`."""
    if kernel.clone(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS if trees else 0) == 0:
        try:
            covering.serve(socket.socket(fileno=channel), trees=trees)
        finally:
            os._exit(0)


def _write_maps(pid: int, uid_map: str, gid_map: str, *, with_groups: bool = False) -> None:
    """`with_groups` lets programs inside choose their groups, as sudo and apt do."""
    groups = "allow" if with_groups else "deny"
    for name, text in (("setgroups", groups), ("uid_map", uid_map), ("gid_map", gid_map)):
        confine.write_file(f"/proc/{pid}/{name}", text)


def _idmap(uid_map: str, gid_map: str) -> int:
    """A user namespace that serves only as an id map for a mount."""
    pid, gate, held = _clone(kernel.CLONE_NEWUSER)
    if pid == 0:
        os.read(gate, 1)
        os._exit(0)
    try:
        _write_maps(pid, uid_map, gid_map)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(held)


if __name__ == "__main__":
    main()
