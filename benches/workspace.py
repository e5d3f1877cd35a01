"""A workspace: what work in it costs a live box beside the host, and what a start, a review and a diff of it cost."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from benches.figures import Figure, Samples, Target
from benches.installation import PROGRAM
from benches.timing import interleave, milliseconds
from benches.yardsticks import measured, run
from paddock.model import BoxRequest, ExecSpec, View, WorkspaceMode
from paddock.reports import LeaveReport

if TYPE_CHECKING:
    from benches.installation import Installation

ROUNDS = 15
OPENINGS = 25
DIFFS = 20
SMALL_FILES, LARGE_FILES, LARGE_FILE_BYTES = 20_000, 50_000, 21_475  # the second is 1 GiB
CHANGED_FILES = 100
PER_DIRECTORY = 10
_GIT_ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
_BARE_STATUS, _BARE_FILES = "git status, bare", "create and unlink, bare"
_EMPTY, _EMPTY_ASKED = "in an empty directory", "in an empty directory, and what it left"
# Both time themselves, so that starting them in a box is no part of it.
_STATUS = """
import subprocess, time
begun = time.perf_counter()
subprocess.run(["git", "status", "--porcelain"], check=True, stdout=subprocess.DEVNULL)
print((time.perf_counter() - begun) * 1e3)
"""
_CREATE_AND_UNLINK = """
import os, time
begun = time.perf_counter()
for number in range(3000):
    with open(f"new-{number}", "w") as file:
        file.write("text")
for number in range(3000):
    os.unlink(f"new-{number}")
print((time.perf_counter() - begun) * 1e3)
"""
_CHANGE = f"""
import os
for number in range(0, {LARGE_FILES}, {LARGE_FILES // CHANGED_FILES}):
    name = f"{{number // 200}}/{{number // {PER_DIRECTORY}}}/{{number}}.txt"
    with open(name, "a") as file:
        file.write("one more line\\n")
"""


def measure(installation: Installation) -> list[Figure]:
    top = os.path.dirname(installation.workspace)
    small, large = f"{top}/small", f"{top}/large"
    _project(small, SMALL_FILES, 100)
    _project(large, LARGE_FILES, LARGE_FILE_BYTES)
    os.sync()
    return [
        *_work(installation, small),
        *_starts(installation, small),
        _review(installation, large),
        *_diff(installation, large),
    ]


def _project(place: str, files: int, size_bytes: int) -> None:
    """A repository with one commit, its files ten to a directory."""
    line = f"{'a line of text ' * 4}\n"
    text = (line * (size_bytes // len(line) + 1))[:size_bytes]
    for number in range(files):
        directory = f"{place}/{number // 200}/{number // PER_DIRECTORY}"
        if number % PER_DIRECTORY == 0:
            os.makedirs(directory, exist_ok=True)
        with open(f"{directory}/{number}.txt", "w", encoding="ascii") as file:
            file.write(f"{number}\n{text}")
    for words in (
        ["init", "-q"],
        ["-c", "core.compression=0", "add", "."],
        ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "all"],
    ):
        subprocess.run(["git", *words], cwd=place, env=_GIT_ENV, check=True)


def _work(installation: Installation, project: str) -> list[Figure]:
    """The work of a live box beside the same on the host, turn by turn."""
    taken: dict[str, list[float]] = {"status": [], _BARE_STATUS: [], "files": [], _BARE_FILES: []}
    with installation.sdk.create("live", workspace=project) as box:
        for number in range(-2, ROUNDS):
            for inside, outside, script in (
                ("status", _BARE_STATUS, _STATUS),
                ("files", _BARE_FILES, _CREATE_AND_UNLINK),
            ):
                argv = ["/usr/bin/python3", "-I", "-c", script]
                done = box.exec(argv)
                bare = subprocess.run(argv, cwd=project, env=_GIT_ENV, capture_output=True, check=True)
                if number >= 0:
                    taken[inside].append(float(done.stdout))
                    taken[outside].append(float(bare.stdout))
    samples = {name: Samples.of(values) for name, values in taken.items()}
    return [
        Figure(
            name="live_status",
            what=f"live: git status, {SMALL_FILES} files",
            unit="ms",
            samples=samples["status"],
            yardsticks=measured(samples, _BARE_STATUS),
        ),
        Figure(
            name="live_files",
            what="live: 3000 small files created and unlinked",
            unit="ms",
            samples=samples["files"],
            yardsticks=measured(samples, _BARE_FILES),
        ),
    ]


def _starts(installation: Installation, project: str) -> list[Figure]:
    def start(workspace: str) -> None:
        assert installation.sdk.run(["/bin/true"], workspace=workspace).ok

    def start_and_ask(workspace: str) -> None:
        request = BoxRequest(workspace=workspace, ephemeral=True, caller_path="/usr/bin:/bin")
        command = installation.sdk.start_run(request, ExecSpec(argv=("/bin/true",)))
        assert command.finish().ok
        assert command.left() == LeaveReport()

    actions = {
        "run": lambda: start(project),
        "ask": lambda: start_and_ask(project),
        _EMPTY: lambda: start(installation.workspace),
        _EMPTY_ASKED: lambda: start_and_ask(installation.workspace),
    }
    taken = interleave(actions, OPENINGS, between=installation.rest)
    return [
        Figure(
            name=name,
            what=f"new live box in a repository of {SMALL_FILES} files, first command done{more}",
            unit="ms",
            samples=taken[action],
            yardsticks=measured(taken, yardstick),
        )
        for name, action, more, yardstick in (
            ("run_live", "run", "", _EMPTY),
            ("run_live_left", "ask", ", and what it left", _EMPTY_ASKED),
        )
    ]


def _review(installation: Installation, project: str) -> Figure:
    """A box that stays, made and started: what review takes longer than live, pair by pair."""
    live, review, more = [], [], []
    for number in range(-2, OPENINGS):
        one = _open(installation, project, WorkspaceMode.LIVE)
        other = _open(installation, project, WorkspaceMode.REVIEW)
        if number >= 0:
            live.append(one)
            review.append(other)
            more.append(other - one)
    return Figure(
        name="review_open_more",
        what="1 GiB, 50,000 files: what opening a review box takes longer than a live one",
        unit="ms",
        samples=Samples.of(more),
        target=Target(p50_most=20),
        note=f"live {Samples.of(live).p50:.1f} ms, review {Samples.of(review).p50:.1f} ms",
    )


def _open(installation: Installation, project: str, mode: WorkspaceMode) -> float:
    box = installation.sdk.create(f"open-{mode.value}", workspace=project, view=View(mode=mode))
    try:
        return milliseconds(lambda: box.exec(["/bin/true"]))
    finally:
        box.remove(force=True)
        installation.rest()


def _diff(installation: Installation, project: str) -> list[Figure]:
    with installation.sdk.create("changed", workspace=project, view=View(mode=WorkspaceMode.REVIEW)) as box:
        assert box.exec(["/usr/bin/python3", "-I", "-c", _CHANGE]).ok
        assert len(box.diff()) == CHANGED_FILES
        command = [PROGRAM, "diff", "changed"]
        actions = {"sdk": lambda: list(box.diff()), "cli": lambda: run(command, installation.environ)}
        taken = interleave(actions, DIFFS, warm=2)
    return [
        Figure(
            name=f"diff_{name}",
            what=f"1 GiB, 50,000 files: diff of {CHANGED_FILES} changed ones ({words})",
            unit="ms",
            samples=taken[name],
            target=Target(p50_most=150),
        )
        for name, words in (("sdk", "SDK"), ("cli", "./paddock diff"))
    ]
