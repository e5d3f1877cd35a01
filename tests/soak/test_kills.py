"""`kill -9` of the daemon at random moments of random work: what was acknowledged holds, and nothing is left over.

Workers use an installation as people do and keep a model beside it. A request that got its answer must hold from then
on; one whose daemon was killed may have been done or not, and the next look decides which. PADDOCK_SEED repeats the
choices of a run.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from paddock import frames
from paddock.errors import Unavailable, UserError
from paddock.model import BoxState
from tests.support.installation import IS_ROOT, alive, until
from tests.support.nursery import Nursery

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.client import Paddock
    from paddock.model import BoxInfo
    from tests.support.installation import Installation

pytestmark = [pytest.mark.box, pytest.mark.soak, pytest.mark.timeout(900)]

KILLS = 200 if IS_ROOT else 80  # the second time that ./test runs it
WORKERS = 3
YOUNG = 0.2  # the share of daemons killed while they start, which takes about START_S
START_S = 0.4
WORK_MAX = 8  # requests that others may finish first
REQUEST_S = 0.05
LONGEST_LIFE_S = 3.0
PATIENCE_S = 60.0
CUT_SHORT = {"daemon-lost", "daemon"}  # lost in the middle of a request, or killed while it started
GRACE_S = 0.3
JOBS_MODELLED = 32  # of a box; it keeps twice as many

T = TypeVar("T")


def patiently(action: Callable[[], T]) -> T:
    """A look at what is there, repeated until a daemon lives long enough to answer."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return action()
        except Unavailable as error:
            if error.code not in CUT_SHORT or time.monotonic() > deadline:
                raise


class Model:
    """What a worker knows of one name. A set holds all that is possible."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.exists = {False}
        self.forget()

    def __repr__(self) -> str:
        return f"<Model {self.name} exists {self.exists} running {self.running} colour {self.colour} did {self.done}>"

    def forget(self) -> None:
        """It is new, or gone."""
        self.running = {False}
        self.colour = {""}
        self.done: list[str] = []  # what acknowledged commands wrote into its home
        self.tried: set[str] = set()  # what any command may have written there
        self.jobs: dict[str, str] = {}  # acknowledged jobs and what they print


class Worker:
    """Each verb widens the model by what may happen, asks, and narrows it to what was acknowledged."""

    def __init__(self, home: Installation, number: int, seed: int) -> None:
        self._home = home
        self._workspace = str(home.workspace)
        self._chance = random.Random(f"{seed} {number}")
        self._models = [Model(f"w{number}-{letter}") for letter in "abc"]
        self._tokens = (f"t{number}-{n}" for n in range(1_000_000))
        self.acknowledged = 0
        self.cut_short = 0

    def __repr__(self) -> str:
        return f"<Worker {self._models}>"

    def work(self, stop: threading.Event) -> None:
        with self._home.sdk() as sdk:
            while not stop.is_set():
                self._step(sdk, self._chance.choice(self._models))

    def names(self) -> set[str]:
        return {model.name for model in self._models if model.exists == {True}}

    def check(self, sdk: Paddock) -> None:
        """When nobody kills any more: everything, in detail."""
        for model in self._models:
            self._look(sdk, model)
            if model.exists == {True}:
                self._check_files(sdk, model)
                self._check_jobs(sdk, model)

    def _step(self, sdk: Paddock, model: Model) -> None:
        self._look(sdk, model)
        verbs = [self._create, self._run]
        if model.exists == {True}:
            verbs = [self._exec, self._exec, self._detach, self._detach, self._env, self._stop, self._remove, self._run]
        try:
            self._chance.choice(verbs)(sdk, model)
            self.acknowledged += 1
        except Unavailable as error:
            if error.code not in CUT_SHORT:
                raise
            self.cut_short += 1

    # -- looking -------------------------------------------------------------------------------------------------------

    def _look(self, sdk: Paddock, model: Model) -> None:
        """What is there must be possible; what was open is then known."""
        info = patiently(lambda: _info(sdk, model.name))
        assert (info is not None) in model.exists, model
        model.exists = {info is not None}
        if info is None:
            model.forget()
            return
        runs = info.state is BoxState.RUNNING
        assert runs in model.running, (model, info)
        # A stop that was cut short ends the box under another daemon, which did not ask for it.
        assert info.state is not BoxState.FAILED or model.running == {False, True}, (model, info)
        model.running = {runs}
        assert ("COLOUR" in info.env_names) in {bool(colour) for colour in model.colour}, (model, info)

    def _check_files(self, sdk: Paddock, model: Model) -> None:
        script = "echo $COLOUR; cat ~/log 2>/dev/null; true"
        colour, *written = sdk.named(model.name).exec(["sh", "-c", script]).stdout.decode().split("\n")[:-1]
        assert colour in model.colour, model
        assert [token for token in written if token in set(model.done)] == model.done, (model, written)
        assert set(written) <= model.tried, (model, written)
        assert len(set(written)) == len(written), (model, written)

    def _check_jobs(self, sdk: Paddock, model: Model) -> None:
        for job, token in model.jobs.items():
            until(lambda job=job: not _runs(sdk, model.name, job), f"{job} has ended")  # type: ignore[misc]
            assert _output(sdk, model.name, job) == token, model

    # -- doing ---------------------------------------------------------------------------------------------------------

    def _create(self, sdk: Paddock, model: Model) -> None:
        model.exists = {False, True}
        sdk.create(model.name, workspace=self._workspace)
        model.exists = {True}

    def _exec(self, sdk: Paddock, model: Model) -> None:
        token = next(self._tokens)
        model.running |= {True}
        model.tried.add(token)
        assert sdk.named(model.name).exec(["sh", "-c", f"echo {token} >> ~/log"]).ok
        model.done.append(token)
        model.running = {True}

    def _detach(self, sdk: Paddock, model: Model) -> None:
        token = next(self._tokens)
        model.running |= {True}
        job = sdk.named(model.name).detach(["sh", "-c", f"sleep 0.1; echo {token}"])
        model.jobs[job] = f"{token}\n"
        model.jobs = dict(list(model.jobs.items())[-JOBS_MODELLED:])
        model.running = {True}

    def _env(self, sdk: Paddock, model: Model) -> None:
        colour = self._chance.choice(["red", "green", "blue", ""])
        model.colour |= {colour}
        sdk.named(model.name).set_env({"COLOUR": colour} if colour else {}, () if colour else ("COLOUR",))
        model.colour = {colour}

    def _stop(self, sdk: Paddock, model: Model) -> None:
        self._expect_an_end(sdk, model)
        grace_s = self._chance.choice([0.0, GRACE_S])
        try:
            sdk.named(model.name).stop(grace_s)
        except Unavailable:
            time.sleep(2 * grace_s)  # it may have been asked to end, and takes its time for that
            raise
        model.running = {False}

    def _remove(self, sdk: Paddock, model: Model) -> None:
        self._expect_an_end(sdk, model)
        model.exists = {False, True}
        sdk.named(model.name).remove(force=True)
        model.exists = {False}
        model.forget()

    def _expect_an_end(self, sdk: Paddock, model: Model) -> None:
        ended = patiently(lambda: [job.id for job in sdk.named(model.name).jobs() if job.exit_code is not None])
        model.jobs = {job: token for job, token in model.jobs.items() if job in ended}  # others are cut off
        model.running |= {False}

    def _run(self, sdk: Paddock, _model: Model) -> None:
        token = next(self._tokens)
        result = sdk.run(["sh", "-c", f"echo {token}; exit 3"], workspace=self._workspace)
        assert (result.exit_code, result.stdout) == (3, f"{token}\n".encode())


def _info(sdk: Paddock, name: str) -> BoxInfo | None:
    try:
        return sdk.get(name).info
    except UserError as error:
        if error.code != "no-box":
            raise
        return None


def _output(sdk: Paddock, name: str, job: str) -> str:
    """What a job printed, by its journal."""
    _, fds = sdk.journal(name, job)
    text = b""
    for fd in fds:
        with open(fd, "rb") as file:
            text += b"".join(payload for kind, payload in frames.Decoder().feed(file.read()) if kind == frames.STDOUT)
    return text.decode()


def _runs(sdk: Paddock, name: str, job: str) -> bool:
    (found,) = [row for row in sdk.named(name).jobs() if row.id == job]
    return found.running


def kill_often(home: Installation, chance: random.Random, workers: list[Worker], stop: Callable[[], bool]) -> int:
    """Kill each daemon at a random moment of its life: while it starts, or after some work, in the middle of more."""
    killed = 0
    while killed < KILLS and not stop():
        pid = _holder(home)
        if pid is None:
            time.sleep(0.002)
            continue
        if chance.random() < YOUNG:
            time.sleep(chance.uniform(0, START_S))
        else:
            _await_work(workers, chance.randint(0, WORK_MAX))
            time.sleep(chance.uniform(0, REQUEST_S))
        if pid == _holder(home):
            os.kill(pid, signal.SIGKILL)
            until(lambda pid=pid: not alive(pid), "the killed daemon is gone")  # type: ignore[misc]
            killed += 1
    return killed


def _await_work(workers: list[Worker], count: int) -> None:
    wanted = sum(worker.acknowledged for worker in workers) + count
    deadline = time.monotonic() + LONGEST_LIFE_S
    while sum(worker.acknowledged for worker in workers) < wanted and time.monotonic() < deadline:
        time.sleep(0.002)


def _holder(home: Installation) -> int | None:
    """The daemon that signed the lock, if it is alive and a daemon."""
    try:
        pid = int((home.state / "daemon.lock").read_text())
        is_daemon = b"paddock.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if is_daemon and alive(pid) else None


def test_no_kill_loses_what_was_acknowledged_or_leaves_anything_behind(own_installation: Installation) -> None:
    home = own_installation
    seed = int(os.environ.get("PADDOCK_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"PADDOCK_SEED={seed}")  # noqa: T201
    workers = [Worker(home, number, seed) for number in range(WORKERS)]
    stop = threading.Event()
    begun = time.monotonic()
    with Nursery() as nursery:
        with ThreadPoolExecutor(WORKERS) as pool:
            working = [pool.submit(worker.work, stop) for worker in workers]
            killed = kill_often(home, random.Random(seed), workers, lambda: any(future.done() for future in working))
            stop.set()
            for future in working:
                future.result()
        took_s = time.monotonic() - begun
        acknowledged, cut_short = (sum(getattr(w, key) for w in workers) for key in ("acknowledged", "cut_short"))
        print(f"{killed} kills, {acknowledged} requests acknowledged, {cut_short} cut short, {took_s:.0f} s")  # noqa: T201
        with home.sdk() as sdk:
            for worker in workers:
                worker.check(sdk)
            expected = set().union(*(worker.names() for worker in workers))
            until(lambda: {box.name for box in sdk.ls()} == expected, "no box is there that nobody made")
            repairs = "\n".join(map(str, home.status()["repairs"]))  # type: ignore[call-overload]
        assert killed == KILLS
        assert acknowledged > KILLS
        assert "damaged" not in repairs
        assert not list(home.state.glob("unreadable-*"))
        assert not list(home.state.glob("*.corrupt-*"))
        home.clear()
        assert home.cli("daemon", "stop").returncode == 0
        until(lambda: not nursery.living(), f"no process is left: {nursery.named()}")
    assert sorted(path.name for path in (home.state / "run").iterdir()) == []
    for place in ("boxes", "trash"):
        assert list((home.state / place).iterdir()) == []
