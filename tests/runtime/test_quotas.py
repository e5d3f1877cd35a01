"""Quotas are said before anything is frozen, and a file that says none clearly is no quota but an error."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.errors import Unavailable, UserError
from paddock.runtime import freezing, loading, quotas
from paddock.runtime.quotas import Quotas
from tests.support.killing import stopped_box, view, within, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.runtime import Runtime


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield from stopped_box(tmp_path)


def say(runtime: Runtime, text: str) -> None:
    os.makedirs(runtime.paths.config, exist_ok=True)
    with open(runtime.paths.storage, "w", encoding="utf-8") as file:
        file.write(text)


def test_no_file_is_no_quota_and_one_says_sizes(tmp_path: Path) -> None:
    path = tmp_path / "storage.toml"
    assert quotas.read(str(path)) == Quotas()
    path.write_text('total = "2g"\nbox = "5m"\n')
    assert quotas.read(str(path)) == Quotas(total=2 << 30, box=5 << 20)


@pytest.mark.parametrize("text", ["total = 5", 'totl = "5g"', 'total = "many"', "total", 'box = ""', "\udcff"])
def test_what_is_no_quota_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "storage.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError):
        quotas.read(str(path))


@pytest.mark.parametrize("key", ["total", "box"])
def test_a_checkpoint_beyond_a_quota_is_refused_and_nothing_changes(home: Path, key: str) -> None:
    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        say(runtime, f'{key} = "1k"')
        first = await freezing.create(runtime, box, "first")
        await quotas.measure(runtime, box.row.spec.home_layers)
        write(box, "two")
        was = view(runtime, box), box.row.spec
        with pytest.raises(UserError, match="take") as caught:
            await freezing.create(runtime, box, "second")
        assert caught.value.code == "quota"
        assert "storage.toml" in caught.value.hint
        assert (view(runtime, box), box.row.spec) == was
        say(runtime, f'{key} = "1g"')
        assert (await freezing.create(runtime, box, "second")).box == first.box, "the oracle: it was the quota"

    within(home, act)


def test_a_disk_that_is_as_good_as_full_is_said_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        was = view(runtime, box)
        with monkeypatch.context() as patch:
            patch.setattr(limits, "FREE_LEAST_BYTES", 1 << 60)
            with pytest.raises(Unavailable, match="left on the disk") as caught:
                await freezing.create(runtime, box)
        assert (caught.value.code, "paddock df" in caught.value.hint) == ("disk", True)
        assert view(runtime, box) == was
        await freezing.create(runtime, box)

    within(home, act)


def test_a_template_is_not_loaded_beyond_the_quota_of_all_layers(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        await freezing.create(runtime, runtime.find("mine"))
        await quotas.measure(runtime, runtime.find("mine").row.spec.home_layers)
        say(runtime, 'total = "1k"')
        with pytest.raises(UserError, match="layers take"):
            await loading.load(runtime, "/nonexistent", "a:b")
        say(runtime, 'total = "1g"')
        with pytest.raises(UserError, match="nonexistent"):
            await loading.load(runtime, "/nonexistent", "a:b")

    within(home, act)
