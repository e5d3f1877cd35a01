"""The SDK on blocking calls, against a real daemon and real boxes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from paddock.client import Paddock
from paddock.errors import UserError
from paddock.model import BoxState, Limits, Mount, View, WorkspaceMode
from paddock.reports import RemovalInfo
from tests.support import contract, scripted
from tests.support.installation import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL


def test_a_run_gives_output_and_exit_code(paddock: Paddock, installation: Installation) -> None:
    done = paddock.run(["sh", "-c", "echo out; echo err >&2; exit 3"], workspace=str(installation.workspace))
    assert (done.stdout, done.stderr, done.exit_code, done.ok) == (b"out\n", b"err\n", 3, False)
    until(lambda: paddock.ls() == [], "the box is gone")


def test_a_run_takes_everything_a_box_and_a_command_have(
    paddock: Paddock, installation: Installation, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("shown")
    done = paddock.run(
        ["sh", "-c", "cat /mnt/extra/file; echo $A; cat; grep -o 'processes *77' /proc/self/limits"],
        workspace=str(installation.workspace),
        env={"A": "value"},
        mounts=[Mount(source=str(tmp_path), target="/mnt/extra", read_only=True)],
        limits=Limits(pids=77),
        stdin=b"input\n",
    )
    assert done.stdout == b"shownvalue\ninput\nprocesses             77\n", done.stderr


def test_a_run_that_takes_too_long_is_a_result(paddock: Paddock, installation: Installation) -> None:
    done = paddock.run(["sleep", "60"], workspace=str(installation.workspace), timeout_s=0.2)
    assert (done.exit_code, done.timed_out) == (124, True)


@pytest.mark.parametrize(
    ("argv", "code", "exit_code"), [(["no-such"], "not-found", 127), (["/etc/passwd"], "not-executable", 126)]
)
def test_a_command_that_cannot_start_is_an_error(
    paddock: Paddock, installation: Installation, argv: list[str], code: str, exit_code: int
) -> None:
    with pytest.raises(UserError) as caught:
        paddock.run(argv, workspace=str(installation.workspace))
    assert (caught.value.code, caught.value.exit_code) == (code, exit_code)


def test_runs_side_by_side_in_one_directory(paddock: Paddock, installation: Installation) -> None:
    with ThreadPoolExecutor(8) as pool:
        done = pool.map(lambda n: paddock.run(["echo", str(n)], workspace=str(installation.workspace)), range(16))
        assert [one.stdout for one in done] == [b"%d\n" % n for n in range(16)]


def test_a_box_is_made_found_listed_and_removed(paddock: Paddock, installation: Installation) -> None:
    made = paddock.create("mine", workspace=str(installation.workspace), env={"A": "1"})
    assert (made.info.state, made.info.env_names) == (BoxState.CREATED, ("A",))
    assert repr(made) == "<Box mine created>"
    assert [info.name for info in paddock.ls()] == ["mine"]
    assert paddock.get("mine").info.id == made.info.id
    made.remove()
    assert paddock.ls() == []
    with pytest.raises(UserError) as caught:
        paddock.get("mine")
    assert caught.value.code == "no-box"


def test_prune_and_reset_say_what_they_removed(paddock: Paddock, installation: Installation) -> None:
    for name in ("a", "b"):
        paddock.create(name, workspace=str(installation.workspace))
    stopped = paddock.named("a")
    stopped.exec(["true"])
    stopped.stop()
    assert paddock.prune() == [RemovalInfo(box="a")]
    assert paddock.reset() == [RemovalInfo(box="b")]


def test_the_first_use_of_an_sdk_with_a_home_starts_that_homes_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_HOME", "/nonexistent/elsewhere")
    with Paddock(home=str(tmp_path)) as paddock:
        assert paddock.ls() == []
        status = paddock.call("status")
        assert isinstance(status, dict)
        assert status["state"] == f"{tmp_path}/state"
        paddock.call("shutdown")


def test_an_agent_is_given_a_prompt_in_the_box_of_its_directory(installation: Installation, paddock: Paddock) -> None:
    file = scripted.install(installation.workspace, 'echo "$*"')
    own = installation.home / "config" / "agents"
    own.mkdir(parents=True, exist_ok=True)
    file.rename(own / "mine.toml")
    try:
        box = paddock.agent("mine", str(installation.workspace), view=View(mode=WorkspaceMode.REVIEW))
        assert box.info.mode is WorkspaceMode.REVIEW
        assert box.prompt("do it").stdout == b"exec --all -- do it\n"
        again = paddock.agent("mine", str(installation.workspace))
        assert again.info.id == box.info.id
        said = again.prompt("more", model="big", resume="last", ask=True, args=("-x",)).stdout
        assert said == b"exec --careful --model big --again -x -- more\n"
        with pytest.raises(UserError, match="there is no prompt"):
            box.prompt(" ")
    finally:
        (own / "mine.toml").unlink()
