"""What a jailed process cannot do, each time beside a process that can, and what it still can because it must."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.style.source import SRC

pytestmark = pytest.mark.box

_PROGRAM = r"""
import sys
sys.path.insert(0, sys.argv[1])
import ctypes, ctypes.util, errno, json, mmap, os, select, signal, socket, ssl, struct, time
from paddock.engines.process import jail, kernel
place, port, victim = sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *args):
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def fork():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)

def list_root():
    if "etc" not in os.listdir("/"):
        raise FileNotFoundError(errno.ENOENT, "etc")

def execute_here():
    # without a fork: the image is replaced only in the oracle's child
    if sys.argv[2] == "free":
        pid = os.fork()
        if pid:
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            return
    os.execv("/bin/true", ["true"])

def trace():
    if libc.ptrace(16, victim, 0, 0) < 0:  # PTRACE_ATTACH
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(victim, 0)
    libc.ptrace(17, victim, 0, 0)

def read_memory():
    local = ctypes.create_string_buffer(8)
    class Vector(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))
    with open(f"/proc/{victim}/maps") as maps:
        base = int(maps.readline().split("-")[0], 16)
    here, there = Vector(ctypes.addressof(local), 8), Vector(base, 8)
    if libc.process_vm_readv(victim, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) < 0:
        raise OSError(ctypes.get_errno(), "process_vm_readv")

def bind(family, kind, address):
    with socket.socket(family, kind) as sock:
        sock.bind(address)

def listen():
    with socket.socket() as sock:
        sock.listen(1)

def connect_unix():
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(f"\0scene-{port}")

def code():
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()

def make_code():
    with mmap.mmap(-1, 4096) as page:
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        if libc.mprotect(ctypes.c_void_p(address), 4096, 5) < 0:
            raise OSError(ctypes.get_errno(), "mprotect")

def thread():
    import _thread
    lock = _thread.allocate_lock()
    lock.acquire()
    _thread.start_new_thread(lock.release, ())
    lock.acquire()

FORBIDDEN = {
    "open a host file": lambda: open("/etc/passwd").close(),
    "open a file of the caller": lambda: open(place + "/file").close(),
    "write a file of the caller": lambda: open(place + "/file", "a").close(),
    "open itself in proc": lambda: open("/proc/self/status").close(),
    "list the root of the host": list_root,
    "make a directory": lambda: os.rmdir(os.mkdir(place + "/new") or place + "/new"),
    "fork": fork,
    "start a thread": thread,
    "execute": execute_here,
    "signal another process": lambda: os.kill(victim, 0),
    "signal by pidfd": lambda: os.close(os.pidfd_open(victim)),
    "trace": trace,
    "read another's memory": read_memory,
    "bind tcp": lambda: bind(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
    "bind udp": lambda: bind(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
    "bind tcp on IPv6": lambda: bind(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
    "listen": listen,
    "make a unix socket": lambda: socket.socket(socket.AF_UNIX).close(),
    "connect to an abstract socket": connect_unix,
    "make a netlink socket": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close(),
    "map writable code": code,
    "make written memory code": make_code,
    "set a name of its process": lambda: kernel.set_dumpable(dumpable=True),
    "change its ids": lambda: os.setresuid(os.getuid(), os.getuid(), os.getuid()),
    "change limits": lambda: __import__("resource").setrlimit(4, __import__("resource").getrlimit(4)),
    "change its directory": lambda: os.chdir("/"),
    "inotify": lambda: os.close(libc.inotify_init1(0)) if libc.inotify_init1(0) >= 0 else call(-1),
}

def connected():
    sock = socket.socket()
    sock.connect(("127.0.0.1", port))  # create_connection would look for nameservers
    return sock

def tcp():
    with connected() as sock:
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"

def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", port))
        sock.send(b"x")

def spliced():
    reader, writer = os.pipe2(os.O_NONBLOCK)
    with connected() as sock:
        sock.sendall(b"x")
        assert sock.recv(1, socket.MSG_PEEK) == b"x"
        assert os.splice(sock.fileno(), writer, 10) == 1
        assert os.read(reader, 10) == b"x"

def own_file():
    with open("/own", "w") as file:
        file.write("x")
    os.unlink("/own")

def waiting():
    with select.epoll() as epoll:
        epoll.poll(0.01)
    time.sleep(0.001)

def in_memory():
    fd = os.memfd_create("x")
    os.write(fd, b"x")
    os.close(fd)

NEEDED = {
    "tcp": tcp, "udp": udp, "splice": spliced, "a file of its own": own_file, "wait": waiting, "memory": in_memory,
    "random": lambda: os.urandom(8), "tls": lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
    "log": lambda: os.write(2, b""),
}
import resource, _thread
ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
said = 1
if sys.argv[2] == "jail":
    filters = jail.build()
    jail.enter({1, 2})
    jail.confine_calls(filters)
if sys.argv[2] == "free":
    del NEEDED["a file of its own"]
found = {}
for name, act in (FORBIDDEN | NEEDED).items():
    try:
        act()
        found[name] = 0
    except OSError as error:
        found[name] = error.errno or -1
    except RuntimeError:
        found[name] = errno.EPERM  # can't start new thread
found["pid"], found["uid"] = os.getpid(), os.getuid()
os.write(1, json.dumps([found, list(FORBIDDEN), list(NEEDED)]).encode())
"""

# Lets anyone trace it: some kernels let only parents do so.
_VICTIM = """
import ctypes, time
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
print(flush=True)
time.sleep(60)
"""


@cache
def _acts(way: str) -> tuple[dict[str, int], list[str], list[str]]:
    """What every act says in a process that is free, or jailed."""
    with (
        tempfile.TemporaryDirectory() as place,
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen([sys.executable, "-I", "-S", "-c", _VICTIM], stdout=subprocess.PIPE) as victim,
    ):
        assert victim.stdout is not None
        victim.stdout.readline()
        Path(place, "file").touch()
        port = listener.getsockname()[1]
        abstract.bind(f"\0scene-{port}")
        abstract.listen(4)
        echo = os.fork()
        if not echo:
            while True:
                sock, _ = listener.accept()
                sock.sendall(sock.recv(1))
                sock.close()
        try:
            argv = [sys.executable, "-I", "-S", "-c", _PROGRAM, os.fspath(SRC), way, place, str(port), str(victim.pid)]
            done = subprocess.run(argv, capture_output=True, timeout=30, check=False)
            reply = done.stdout
            assert reply, done.stderr.decode()
            found = json.loads(reply)
            return found[0], found[1], found[2]
        finally:
            victim.kill()
            os.kill(echo, 9)
            os.waitpid(echo, 0)


def test_a_jailed_process_can_do_none_of_what_a_free_one_can() -> None:
    free, acts, _ = _acts("free")
    jailed, _, _ = _acts("jail")
    assert {act: free[act] for act in acts if free[act]} == {}, "the oracle: each of them works outside"
    assert [act for act in acts if not jailed[act]] == []


def test_a_jailed_process_can_do_what_a_gateway_needs() -> None:
    jailed, _, needed = _acts("jail")
    assert {act: jailed[act] for act in needed if jailed[act]} == {}


def test_a_jailed_process_is_alone_in_its_own_namespace() -> None:
    jailed, _, _ = _acts("jail")
    assert (jailed["pid"], jailed["uid"]) == (1, 0), "root of a user namespace that owns nothing"
