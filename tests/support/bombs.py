"""Programs that take what a box may not have.

Each is bounded, says `done` when nothing stopped it, exits with 3 when it was refused, and with 137 when a part of it
was killed. `HOLD` is how long it keeps what it took.
"""

from __future__ import annotations

from paddock.limits import KIB, MIB

_HEAD = """
import ctypes, mmap, os, signal, sys, time
MIB = 1 << 20
CHUNK = b"x" * MIB
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]

def end(refused=False):
    if not refused:
        time.sleep(float(os.environ.get("HOLD", "20")))
    print("refused" if refused else "done", flush=True)
    os._exit(3 if refused else 0)
"""

# 400 MiB each, in ways that the kernel counts differently.
MEMORY = {
    "one process": """
try:
    kept = [bytearray(CHUNK) for _ in range(400)]
except MemoryError:
    end(refused=True)
""",
    "many processes": """
children = []
for _ in range(25):
    pid = os.fork()
    if pid == 0:
        kept = bytearray(CHUNK) * 16
        time.sleep(float(os.environ.get("HOLD", "20")))
        os._exit(0)
    children.append(pid)
if any(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL for pid in children):
    os._exit(137)
os.environ["HOLD"] = "0"
""",
    "a file in memory": """
fd = os.memfd_create("bomb")
for _ in range(400):
    os.write(fd, CHUNK)
""",
    "a shared mapping": """
kept = mmap.mmap(-1, 400 * MIB)
for _ in range(400):
    kept.write(CHUNK)
""",
    "page tables": """
size = 400 * MIB // 4096 * 2 * MIB
start = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)
libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), 15)  # no huge pages
for offset in range(0, size, 2 * MIB):
    ctypes.c_char.from_address(start + offset).value
""",
    "System V segments": """
for _ in range(50):
    segment = libc.shmget(0, 8 * MIB, 0o1600)
    if segment < 0:
        end(refused=True)
    place = libc.shmat(segment, None, 0)
    ctypes.memset(place, 1, 8 * MIB)
    libc.shmdt(ctypes.c_void_p(place))
""",
    "a file in /dev/shm": """
try:
    with open("/dev/shm/bomb", "wb", buffering=0) as file:
        for _ in range(200):
            assert file.write(CHUNK) == MIB
except (OSError, AssertionError):
    end(refused=True)
""",
}

PROCESSES = {
    # Every one of them goes on trying, so that a place that becomes free is taken at once.
    "processes": """
print("begun", flush=True)
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
    "threads": """
import threading
def spread():
    while True:
        try:
            threading.Thread(target=spread).start()
        except RuntimeError:
            time.sleep(0.01)
print("begun", flush=True)
spread()
""",
}

DISK = {
    "many files": """
for number in range(40):
    with open(f"{os.environ['PLACE']}/{number}", "wb") as file:
        for _ in range(10):
            file.write(CHUNK)
""",
    "files without a name": """
for number in range(40):
    fd = os.open(f"{os.environ['PLACE']}/bomb", os.O_CREAT | os.O_RDWR)
    os.unlink(f"{os.environ['PLACE']}/bomb")
    for _ in range(10):
        os.write(fd, CHUNK)
""",
    "empty files": """
os.mkdir(f"{os.environ['PLACE']}/empty")
os.chdir(f"{os.environ['PLACE']}/empty")
for number in range(int(os.environ.get("FILES", "200000"))):
    os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
""",
}

# What the kernel counts per user, and a box must not take from its user. Each prints how many it got, and waits.
COUNTS = {
    "open files": """
def take():
    kept.append(os.open("/dev/null", os.O_RDONLY))
""",
    "inotify instances": """
def take():
    fd = libc.inotify_init()
    if fd < 0:
        raise OSError(ctypes.get_errno(), "inotify_init")
    kept.append(fd)
""",
    "inotify watches": """
instances = []  # few of them: the user has 128, and other tests some of those
os.chdir(os.environ["PLACE"])
for number in range(2000):
    open(str(number), "w").close()
def take():
    instance, number = divmod(len(kept), 2000)
    if instance == len(instances):
        instances.append(libc.inotify_init())
    if libc.inotify_add_watch(instances[instance], b"%d" % number, 2) < 0:
        raise OSError(ctypes.get_errno(), "inotify_add_watch")
    kept.append(0)
""",
    "terminals": """
def take():
    kept.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
""",
    "timers": """
timer = ctypes.c_void_p()
def take():
    if libc.timer_create(1, None, ctypes.byref(timer)):
        raise OSError(ctypes.get_errno(), "timer_create")
    kept.append(0)
""",
    "semaphores": """
def take():
    if libc.semget(0, 100, 0o1600) < 0:
        raise OSError(ctypes.get_errno(), "semget")
    kept.append(0)
""",
    "message queues": """
def take():
    if libc.msgget(0, 0o1600) < 0:
        raise OSError(ctypes.get_errno(), "msgget")
    kept.append(0)
""",
    "names in memory": """
def take():
    open(f"{os.environ['PLACE']}/{len(kept)}", "w").close()
    kept.append(0)
""",
}

ONE_FILE = {
    "written": """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    with open("/tmp/bomb", "wb", buffering=0) as file:
        for _ in range(80):
            assert file.write(CHUNK) == MIB
except (OSError, AssertionError):
    print(os.stat("/tmp/bomb").st_size)
    end(refused=True)
""",
    "sparse": """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
open("/tmp/bomb", "w").close()
try:
    os.truncate("/tmp/bomb", int(os.environ["SIZE"]))
except OSError as error:
    print(os.stat("/tmp/bomb").st_size)
    end(refused=True)
""",
}


def whole(body: str) -> str:
    return f"{_HEAD}{body}\nend()\n"


def counting(kind: str) -> str:
    """Takes MOST at most, prints how many it got, and keeps them until its input ends."""
    loop = """
try:
    while len(kept) < int(os.environ["MOST"]):
        take()
except OSError:
    pass
print(len(kept), flush=True)
sys.stdin.read()
"""
    return f"{_HEAD}kept = []\n{COUNTS[kind]}{loop}"


def over(limit: str, allowed: int) -> str:
    """The reason of a box that went over: a small excess is told in a smaller unit, so that the two sizes differ."""
    units = ((MIB, "MiB"), (KIB, "KiB"), (1, "bytes"))
    sizes = "|".join(f"[0-9.]+ {name} used, {allowed // unit} {name}" for unit, name in units)
    return f"{limit} limit: ({sizes}) allowed"
