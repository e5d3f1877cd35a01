"""What this machine can hold, found out by doing it: each probe tries the real thing in a child and cleans up.

Reading flags lies in both directions; a user namespace that was made, a filter that was installed and an overlay that
was mounted do not.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from typing import TYPE_CHECKING

from paddock import proc
from paddock.engines.base import Probe
from paddock.engines.container import ids
from paddock.engines.process import cgroups, confine, kernel, landlock, nft, seal, seccomp

if TYPE_CHECKING:
    from collections.abc import Callable

_USERNS_SYSCTL = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_KVM_GET_API_VERSION = 0xAE00
_APPARMOR_FIX = (
    "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\n"
    "profile paddock {python} flags=(unconfined) {{\\n  userns,\\n}}\\n'"
    " | sudo tee /etc/apparmor.d/paddock && sudo apparmor_parser -r /etc/apparmor.d/paddock"
)


def all_probes() -> list[Probe]:
    return [probe() for probe in _PROBES]


def _in_child(action: Callable[[], None], flags: int) -> str:
    """Run `action` in a child with new namespaces; returns what went wrong, or nothing."""
    uid, gid = os.getuid(), os.getgid()
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        pid = kernel.clone(flags)
    except OSError as error:
        os.close(read)
        os.close(write)
        return error.strerror or str(error)
    if pid == 0:
        try:
            confine.write_file("/proc/self/setgroups", "deny")
            confine.write_file("/proc/self/uid_map", f"0 {uid} 1")
            confine.write_file("/proc/self/gid_map", f"0 {gid} 1")
            action()
        except BaseException as error:  # noqa: BLE001  a child says what it was and is gone
            os.write(write, str(error).encode()[:400] or b"failed")
        finally:
            os._exit(0)
    os.close(write)
    said = os.read(read, 500).decode("utf-8", "replace")
    os.close(read)
    os.waitpid(pid, 0)
    return said


def _nothing() -> None:
    """Being there is all there is to try."""


def _user_namespaces() -> Probe:
    problem = _in_child(_nothing, kernel.CLONE_NEWUSER)
    if not problem:
        return Probe(name="user namespaces", ok=True, detail="can be made")
    fix = "sudo sysctl -w user.max_user_namespaces=15000"
    if _read(_USERNS_SYSCTL) == "1":
        problem, fix = f"{problem} (AppArmor restricts them)", _apparmor_fix()
    elif os.path.exists("/proc/sys/kernel/unprivileged_userns_clone"):
        fix = "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    return Probe(name="user namespaces", ok=False, detail=problem, fix=fix)


def _apparmor() -> Probe:
    if _read(_USERNS_SYSCTL) != "1":
        return Probe(name="apparmor", ok=True, detail="does not restrict user namespaces")
    problem = _in_child(lambda: kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE), _MOUNT_FLAGS)
    detail = f"restricts user namespaces: {problem}" if problem else "restricts user namespaces, but lets us"
    return Probe(name="apparmor", ok=not problem, detail=detail, fix=_apparmor_fix() if problem else "")


def _apparmor_fix() -> str:
    return _APPARMOR_FIX.format(python=os.path.realpath(sys.executable))


_MOUNT_FLAGS = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS


def _proc_mount() -> Probe:
    def act() -> None:
        kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)

    problem = _in_child(act, _MOUNT_FLAGS | kernel.CLONE_NEWPID)
    fix = "inside a container, start it with an unmasked /proc (docker: --security-opt systempaths=unconfined)"
    return Probe(name="/proc mount", ok=not problem, detail=problem or "can be mounted", fix=fix if problem else "")


def _seccomp() -> Probe:
    try:
        filters = seccomp.build()
    except OSError as error:
        return Probe(name="seccomp", ok=False, detail=str(error), fix="sudo apt install libseccomp2")

    def act() -> None:
        kernel.set_no_new_privs()
        seccomp.install(filters)

    problem = _in_child(act, kernel.CLONE_NEWUSER)
    instructions = sum(map(len, filters)) // 8
    return Probe(name="seccomp", ok=not problem, detail=problem or f"two filters, {instructions} instructions")


def _landlock() -> Probe:
    abi = landlock.abi()
    if abi:
        return Probe(name="landlock", ok=True, detail=f"ABI {abi}")
    fix = "add landlock to the kernel's lsm= parameter (Linux 5.13 or newer); boxes work without this second layer"
    return Probe(name="landlock", ok=False, detail="not offered by this kernel", fix=fix)


def _cgroups() -> Probe:
    found = cgroups.find("doctor")
    if not found.reasons:
        return Probe(name="cgroups", ok=True, detail=f"can limit {', '.join(found.parents)}")
    detail = "; ".join(f"{name}: {why}" for name, why in sorted(found.reasons.items()))
    fix = (
        "none needed: limits are held per process and watched; in a cgroup delegated to you the kernel would hold them"
    )
    return Probe(name="cgroups", ok=False, detail=detail, fix=fix)


def _nftables() -> Probe:
    """The very rules of a sealed network, gone with their namespace."""

    def act() -> None:
        seal.close_off()
        nft.load()

    problem = _in_child(act, kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET)
    fix = "sudo modprobe -a nf_tables nft_chain_nat nft_redir nft_reject_inet nft_ct" if problem else ""
    return Probe(name="nftables", ok=not problem, detail=problem or "a network can be sealed", fix=fix)


def _overlay() -> Probe:
    """What a review does: an overlay of a user namespace's own, a change in it, and another look at what is below."""

    def act() -> None:
        kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount("tmpfs", "/tmp", "tmpfs", 0, "size=1m")
        for name in ("lower", "upper", "work", "merged"):
            os.mkdir(f"/tmp/{name}")
        options = "userxattr,lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work"
        with open("/tmp/lower/file", "x", encoding="ascii") as file:
            file.write("below\n")
        kernel.mount("overlay", "/tmp/merged", "overlay", 0, options)
        with open("/tmp/merged/file", "a", encoding="ascii") as file:
            file.write("above\n")
        if os.stat("/tmp/upper/file").st_size <= os.stat("/tmp/lower/file").st_size:
            raise OSError(errno.EIO, "an overlay keeps its changes elsewhere")
        kernel.look_again(kernel.pick_file_system(os.open("/tmp/merged", os.O_PATH)))

    problem = _in_child(act, _MOUNT_FLAGS)
    fix = (
        "--review needs Linux 5.11 or newer with overlayfs for user namespaces; the other modes do not"
        if problem
        else ""
    )
    return Probe(name="overlay", ok=not problem, detail=problem or "can be mounted: --review works", fix=fix)


def _runtimes() -> Probe:
    found = []
    for name in ("crun", "runc", "runsc"):
        path = shutil.which(name)
        if path:
            done = proc.run([path, "--version"], env={"PATH": "/usr/bin:/bin"}, cwd="/", timeout_s=5.0)
            found.append((done.stdout.decode("utf-8", "replace").splitlines() or [name])[0])
    if found:
        return Probe(name="oci runtimes", ok=True, detail=", ".join(found))
    fix = "sudo apt install crun: container boxes need one"
    return Probe(name="oci runtimes", ok=False, detail="none of crun, runc, runsc is installed", fix=fix)


def _subordinate_ids() -> Probe:
    if os.getuid() == 0:
        return Probe(name="subordinate ids", ok=True, detail="root gives each container box 65536 of its own")
    found = ids.own(os.getuid(), os.getgid())
    detail = found.describe() if found.by_tool else "none: a container box has one id, and some packages need more"
    fix = "sudo apt install uidmap && sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER"
    return Probe(name="subordinate ids", ok=found.by_tool, detail=detail, fix=fix)


def _kvm() -> Probe:
    try:
        fd = os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        fix = "sudo usermod -aG kvm $USER, or enable virtualisation in the firmware; no engine of this version uses it"
        return Probe(name="kvm", ok=False, detail=f"/dev/kvm: {error.strerror}", fix=fix)
    version = ctypes.CDLL(None).ioctl(fd, _KVM_GET_API_VERSION, 0)
    os.close(fd)
    detail = f"API {version}; no guest was booted, so this proves little"
    return Probe(name="kvm", ok=version >= 0, detail=detail)


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


_PROBES = (
    _user_namespaces,
    _apparmor,
    _proc_mount,
    _seccomp,
    _landlock,
    _cgroups,
    _nftables,
    _overlay,
    _runtimes,
    _subordinate_ids,
    _kvm,
)
