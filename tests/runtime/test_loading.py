"""Templates from files: all of an image or none of it, and no name that was not asked for (ARC-*)."""

from __future__ import annotations

import gzip
import json
import os
import threading
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from paddock.engines.container.removal import remove_tree
from paddock.errors import PaddockError, UserError
from paddock.images.layers import LayerId, Layers
from paddock.images.oci import own_architecture
from paddock.model.reference import Reference
from paddock.runtime import loading, space, unpacking
from tests.images import pictures, tars
from tests.images.test_layout import laid_out
from tests.support import serving

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.store import TemplateRow

pytestmark = pytest.mark.box  # of its programs, which take their time

LAYER = tars.archive(tars.directory(b"etc/"), tars.file(b"etc/name", b"content"))
PLAIN = {"architecture": own_architecture(), "os": "linux", "config": {"Env": ["A=1"], "Cmd": ["sh"]}}


def settings(*layers: bytes) -> dict[str, object]:
    return {**PLAIN, "rootfs": {"type": "layers", "diff_ids": [pictures.digest(layer) for layer in layers]}}


def image(*layers: bytes, tag: str = "team:v1") -> bytes:
    return pictures.tar(pictures.saved(*layers, tag=tag, settings=settings(*layers)))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    remove_tree(f"{tmp_path}/state")  # which may hold files of other ids


def within(home: Path, act: Callable[[Runtime], Awaitable[None]]) -> None:
    serving.within(home, act)


def put(home: Path, data: bytes, name: str = "image.tar") -> str:
    (home / name).write_bytes(data)
    return str(home / name)


def test_an_image_gets_the_names_that_are_in_its_file(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        (row,) = await loading.load(runtime, put(home, gzip.compress(image(LAYER))))
        assert (row.name, row.tag, row.source) == ("team", "v1", "file")
        assert row.digest == pictures.digest(pictures.dumped(settings(LAYER)))
        assert await runtime.catalogue.listed() == [row]
        assert await space.prune(runtime) == []
        with open(f"{Layers(runtime.paths.layers).tree(LayerId(row.chain[0]))}/etc/name", "rb") as file:
            assert file.read() == b"content"
        await runtime.catalogue.remove(Reference.parse("team:v1"))
        assert await space.prune(runtime) == [*row.chain]

    within(home, act)


def test_a_name_that_is_taken_is_replaced_only_by_who_says_it(home: Path) -> None:
    """An archive of somebody else's must not become what `-t team:v1` means."""
    other = tars.archive(tars.file(b"hostile", b"x"))

    async def act(runtime: Runtime) -> None:
        mine = await loading.load(runtime, put(home, image(LAYER)))
        path = put(home, image(other))
        with pytest.raises(UserError, match="there is a template team:v1") as caught:
            await loading.load(runtime, path)
        assert caught.value.code == "exists"
        assert await runtime.catalogue.listed() == mine
        (else_named,) = await loading.load(runtime, path, "theirs")
        assert {row.name for row in await runtime.catalogue.listed()} == {"team", "theirs"}
        (again,) = await loading.load(runtime, path, "team:v1")
        assert again.chain == else_named.chain != mine[0].chain

    within(home, act)


@pytest.mark.parametrize(
    "tag", ["base:latest", "docker.io/library/docker:latest", "localhost/base:latest", "debian:12"]
)
def test_no_archive_calls_itself_what_others_begin_with(home: Path, tag: str) -> None:
    """Before these are built, the name is free; `FROM base` would be somebody else's from then on."""

    async def act(runtime: Runtime) -> None:
        path = put(home, image(LAYER, tag=tag))
        with pytest.raises(UserError, match="is that of a") as caught:
            await loading.load(runtime, path)
        assert caught.value.code == "reserved"
        assert await runtime.catalogue.listed() == []
        (row,) = await loading.load(runtime, path, tag)  # the oracle: its user says so
        assert f"{row.name}:{row.tag}" == str(Reference.parse(tag))

    within(home, act)


def test_of_several_names_all_are_given_or_none(home: Path) -> None:
    files = pictures.saved(LAYER, settings=settings(LAYER))
    listed = json.loads(files["manifest.json"])
    listed[0]["RepoTags"] = ["one:v1", "localhost/two:v1", "docker.io/library/two:v1"]
    data = pictures.tar(files | {"manifest.json": json.dumps(listed).encode()})

    async def act(runtime: Runtime) -> None:
        found = await loading.load(runtime, put(home, data))
        assert [f"{row.name}:{row.tag}" for row in found] == ["one:v1", "two:v1"]
        await runtime.catalogue.remove(Reference.parse("one:v1"))
        with pytest.raises(UserError, match="there is a template two:v1"):
            await loading.load(runtime, put(home, data))
        assert [row.name for row in await runtime.catalogue.listed()] == ["two"]

    within(home, act)


@pytest.mark.parametrize("tag", ["v1", "../../x:1", "a b:1", "UPPER:1", "", "-t:1", "a:\x1b[2J"])
def test_a_name_that_is_none_has_to_be_given(home: Path, tag: str) -> None:
    async def act(runtime: Runtime) -> None:
        path = put(home, image(LAYER, tag=tag))
        with pytest.raises(UserError) as caught:
            await loading.load(runtime, path)
        assert caught.value.code == "no-name"
        assert "\x1b" not in caught.value.message
        assert await runtime.catalogue.listed() == []
        assert [row.name for row in await loading.load(runtime, path, "mine")] == ["mine"]

    within(home, act)


def test_a_layout_and_a_stream_are_taken_too(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        place = laid_out(home / "layout")
        with pytest.raises(UserError, match="no user 'agent'"):
            await loading.load(runtime, str(place))
        reader, writer = os.pipe()
        with open(writer, "wb") as file:
            feeding = threading.Thread(target=_feed, args=(file,))
            feeding.start()
            (row,) = await loading.load(runtime, f"/proc/self/fd/{reader}")
            feeding.join()
        os.close(reader)
        assert row.name == "team"

    within(home, act)


def _feed(file: BinaryIO) -> None:
    with file:
        file.write(image(LAYER))


HOSTILE = {
    "absolute": tars.archive(tars.file(b"/etc/passwd", b"x")),
    "upwards": tars.archive(tars.file(b"a/../../x", b"x")),
    "through a link": tars.archive(tars.symlink(b"a", b"/etc"), tars.file(b"a/cron", b"x")),
    "a hard link out": tars.archive(tars.hardlink(b"a", b"../../etc/passwd")),
    "a device": tars.archive(tars.header(b"disk", b"4")),
    "a name twice": tars.archive(tars.file(b"a", b"1"), tars.file(b"a", b"2")),
    "a file that is a directory": tars.archive(tars.file(b"a", b"1"), tars.file(b"a/b", b"2")),
    "more than it says": tars.archive(tars.header(b"a", size=1 << 40)),
    "a terabyte of holes": tars.archive(
        tars.pax(
            [(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.realsize", b"1099511627776")]
        ),
        tars.file(b"a", b"0\n"),
    ),
    "deep": tars.archive(tars.gnu_long(b"L", b"d/" * 200 + b"x"), tars.file(b"x")),
    "cut off": LAYER[:700],
    "no end of a whiteout": tars.archive(tars.file(b".wh...")),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_image_is_refused_whole(home: Path, case: str) -> None:
    """With a sound layer before it, of which nothing stays."""

    async def act(runtime: Runtime) -> None:
        sound = await loading.load(runtime, put(home, image(LAYER, tag="sound:v1")))
        first = tars.archive(tars.file(b"first", b"y"))
        with pytest.raises(UserError):
            await loading.load(runtime, put(home, image(first, HOSTILE[case])))
        assert await runtime.catalogue.listed() == sound
        await space.prune(runtime)
        assert Layers(runtime.paths.layers).whole() == [*sound[0].chain]
        assert os.listdir(f"{runtime.paths.layers}/staging") == []

    within(home, act)


def test_sums_are_those_of_what_was_read(home: Path) -> None:
    files = pictures.saved(LAYER, settings=settings(LAYER))
    layer = next(name for name in files if name.endswith("layer.tar"))
    changed = tars.archive(tars.file(b"etc/name", b"changed"))

    async def act(runtime: Runtime) -> None:
        with pytest.raises(UserError, match="a layer has the sum"):
            await loading.load(runtime, put(home, pictures.tar(files | {layer: changed})))
        assert await runtime.catalogue.listed() == []
        assert Layers(runtime.paths.layers).whole() == []

    within(home, act)


def test_what_is_not_there_or_no_image_is_said(home: Path) -> None:
    async def act(runtime: Runtime) -> None:
        for path in (str(home / "missing"), put(home, b"text\n" * 999), str(home)):
            with pytest.raises(UserError):
                await loading.load(runtime, path)
        with pytest.raises(UserError, match="no name of a template"):
            await loading.load(runtime, put(home, image(LAYER)), "No Name")

    within(home, act)


def test_a_prune_between_unpacking_and_naming_takes_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ARC-13: whoever unpacked them holds the layers until we do, and we until they have a name."""
    real_read, real_row = unpacking._read, loading.row_of
    pruned: list[list[LayerId]] = []

    def read(data: bytes) -> dict[str, object]:
        pruned.append(Layers(f"{home}/state/layers").discard(set))
        return real_read(data)

    def row(*args: Any) -> TemplateRow:
        pruned.append(Layers(f"{home}/state/layers").discard(set))
        return real_row(*args)

    monkeypatch.setattr(unpacking, "_read", read)
    monkeypatch.setattr(loading, "row_of", row)

    async def act(runtime: Runtime) -> None:
        (found,) = await loading.load(runtime, put(home, image(LAYER)))
        assert pruned == [[], []]
        assert Layers(runtime.paths.layers).has(LayerId(found.chain[0]))

    within(home, act)


def test_an_image_of_too_many_layers_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.runtime.templates.LAYERS_PER_BOX", 2)
    other = tars.archive(tars.file(b"other", b"x"))

    async def act(runtime: Runtime) -> None:
        with pytest.raises(UserError, match="it has 2 layers, at most 1"):
            await loading.load(runtime, put(home, image(LAYER, other)))
        assert await runtime.catalogue.listed() == []
        assert await loading.load(runtime, put(home, image(LAYER)))

    within(home, act)


def test_there_are_not_more_templates_than_fit(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "TEMPLATES_MAX", 1)

    async def act(runtime: Runtime) -> None:
        await loading.load(runtime, put(home, image(LAYER)))
        with pytest.raises(PaddockError, match="there are 1 templates"):
            await loading.load(runtime, put(home, image(LAYER)), "other")

    within(home, act)


@pytest.mark.parametrize("tag", ["base:latest", "localhost/base:latest", "docker.io/library/docker:latest"])
def test_no_file_makes_itself_a_template_of_ours(home: Path, tag: str) -> None:
    """Built or not: the next `-t base` would run what somebody else called so."""

    async def act(runtime: Runtime) -> None:
        path = put(home, image(LAYER, tag=tag))
        with pytest.raises(UserError, match="a template of paddock's own") as caught:
            await loading.load(runtime, path)
        assert "-t NAME" in caught.value.hint
        assert await runtime.catalogue.listed() == []
        (row,) = await loading.load(runtime, path, "base")  # who says it may
        assert (row.name, row.source) == ("base", "file")

    within(home, act)
