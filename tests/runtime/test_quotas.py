"""Quotas are said before anything is frozen, and a file that says none clearly is no quota but an error."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock import limits
from paddock.errors import Unavailable, UserError
from paddock.images import sizes
from paddock.images.layers import LayerId, Layers
from paddock.model.build import BuildInfo, BuildRequest
from paddock.model.reference import Reference
from paddock.model.remote import Remote
from paddock.runtime import checkpointfiles, errands, freezing, loading, pulling, quotas, unpacking
from paddock.runtime.errands import Errand
from paddock.runtime.quotas import Quotas
from paddock.store import TemplateRow
from tests.images import tars
from tests.runtime.test_building import _build
from tests.runtime.test_loading import image, put
from tests.support.killing import stopped_box, view, within, write
from tests.support.serving import request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paddock.runtime import Runtime

pytestmark = pytest.mark.box  # of its programs, which take their time


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


LARGE = tars.archive(tars.file(b"large", os.urandom(1 << 18)))


def test_what_builds_and_loads_made_counts_at_once(home: Path, tmp_path: Path) -> None:
    """Also of a build that failed: its steps stay in the cache."""
    context = tmp_path / "context"
    context.mkdir()
    (context / "large").write_bytes(os.urandom(1 << 18))
    order = BuildRequest(name="mine", directory=str(context))

    async def act(runtime: Runtime) -> None:
        say(runtime, 'total = "100k"')
        (context / "Dockerfile").write_text("FROM scratch\nCOPY large /\nCOPY missing /\n")
        (*_, failed) = await _build(runtime, order)
        assert "no 'missing' to copy" in str(failed)
        (*_, error) = await _build(runtime, order)
        assert isinstance(error, UserError)
        assert error.code == "quota"
        say(runtime, 'total = "400k"')
        (context / "Dockerfile").write_text("FROM scratch\nCOPY large /\n")
        assert isinstance((await _build(runtime, order))[-1], BuildInfo), "the oracle: it was the quota"
        await loading.load(runtime, put(tmp_path, image(LARGE)))
        with pytest.raises(UserError, match="layers take"):
            await freezing.create(runtime, runtime.find("mine"))

    within(home, act)


def test_what_is_pulled_or_taken_in_is_within_the_quota_of_all_layers(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    async def run(_runtime: Runtime, remote: Remote, *_: object) -> None:
        ran.append(str(remote))
        raise UserError("nobody is there", code="test")

    monkeypatch.setattr(errands, "run", run)
    remote = Remote.parse("example.com/a:v1")

    async def act(runtime: Runtime) -> None:
        await loading.load(runtime, put(tmp_path, image(LARGE)))
        await freezing.create(runtime, runtime.find("mine"), "first")
        path = put(tmp_path, b"", "out")
        await checkpointfiles.write(runtime, "mine@first", path)
        wanted = request(tmp_path / "workspace", name="taken")
        say(runtime, 'total = "100k"')
        for refused in (pulling.pull(runtime, remote, Errand()), checkpointfiles.take(runtime, path, wanted)):
            with pytest.raises(UserError, match="layers take"):
                await refused
        assert (ran, len(runtime.boxes)) == ([], 1)
        say(runtime, 'total = "1g"')
        with pytest.raises(UserError, match="nobody is there"):
            await pulling.pull(runtime, remote, Errand())
        box = await checkpointfiles.take(runtime, path, wanted)
        (layer,) = box.row.spec.home_layers
        assert sizes.known_size(Layers(runtime.paths.layers), LayerId(layer)) is not None

    within(home, act)


def test_what_nobody_waited_for_is_measured_before_the_next(home: Path, tmp_path: Path) -> None:
    async def act(runtime: Runtime) -> None:
        layers = Layers(runtime.paths.layers)

        async def leave() -> None:
            async with quotas.counting(runtime):
                unpacked.append(await asyncio.to_thread(_unpacked, put(tmp_path, image(LARGE)), layers))
                await asyncio.Event().wait()

        unpacked: list[LayerId] = []
        task = asyncio.create_task(leave())
        while not unpacked:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert sizes.known_size(layers, unpacked[0]) is None
        say(runtime, 'total = "100k"')
        with pytest.raises(UserError, match="layers take"):
            await loading.load(runtime, "/nonexistent", "a:b")

    within(home, act)


def _unpacked(path: str, layers: Layers) -> LayerId:
    with loading.opened(path, layers.root) as fd:
        return unpacking.unpack(fd, layers.root).layers[0]


def test_the_quota_of_a_box_leaves_out_what_it_was_made_of(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = runtime.find("mine")
        with open(f"{box.directory}/root/upper/large", "wb") as file:
            file.write(os.urandom(1 << 18))
        await freezing.create(runtime, box, "first")
        (layer,) = (layer for layer in box.row.spec.layers if layer.startswith("frozen:"))
        await quotas.measure(runtime, [layer])
        say(runtime, 'box = "100k"')
        with pytest.raises(UserError, match="takes"):
            await quotas.check(runtime, box)
        await runtime.register.change(box, replace(box.row.spec, template="team:v1"))
        await runtime.catalogue.add(TemplateRow(name="team", tag="v1", chain=(layer,), config="{}"))
        await quotas.check(runtime, box)
        await runtime.catalogue.remove(Reference.parse("team:v1"))
        with pytest.raises(UserError, match="takes"):
            await quotas.check(runtime, box)
        runtime.catalogue.keep_step("key", LayerId(layer))  # a step of the template that was
        await quotas.check(runtime, box)

    within(home, act)
