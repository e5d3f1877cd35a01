"""Whoever asks for a run is told how it stands now, also when it ends meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paddock.runtime import runlist, runs
from tests.runtime.test_runs import HEADLESS, made
from tests.support.serving import within

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from paddock.runs.store import Found, Kept
    from paddock.runtime import Runtime


def test_a_run_that_ends_while_its_record_is_read_is_told_as_ended(
    tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, "exit 0")
        run = await runs.begin(runtime, box, box.agent, HEADLESS)
        active = runtime.runs.active[run]
        store = runtime.runs.store
        find, every = store.find, store.all

        def end() -> None:
            if runtime.runs.active.pop(run, None):
                store.write(replace(active.kept, info=replace(active.kept.info, reason="done")))

        def find_slowly(word: str) -> Kept:
            kept = find(word)
            end()
            return kept

        def all_slowly() -> Found:
            found = every()
            end()
            return found

        monkeypatch.setattr(store, "find", find_slowly)
        assert (await runlist.awaited(runtime, run)).reason == "done"
        store.write(active.kept)
        runtime.runs.active[run] = active
        monkeypatch.setattr(store, "all", all_slowly)
        assert [info.reason for info in await runlist.listed(runtime, "", 0)] == ["done"]

    within(tmp_path, act)
