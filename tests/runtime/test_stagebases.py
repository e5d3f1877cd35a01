"""What FROM names, where no box is needed to tell."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.model.build import BuildInfo, BuildRequest, LockedBase, LockedStep, LockInfo
from paddock.model.reference import Reference
from paddock.runtime import building, distributions, loading, pulling
from tests.images import pictures
from tests.runtime.test_building import _build, _tree
from tests.runtime.test_loading import settings
from tests.runtime.test_templates import _tar, saved
from tests.support.serving import within

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.model.remote import Remote
    from paddock.runtime import Runtime
    from paddock.store import TemplateRow

pytestmark = [pytest.mark.box, pytest.mark.container]


def test_an_image_a_tree_and_a_template_are_bases(tmp_path: Path) -> None:
    place = tmp_path / "context"
    (place / "tree/etc").mkdir(parents=True)
    (place / "tree/etc/motd").write_text("x")
    os.symlink("/etc", place / "tree/link")
    saved(place / "image.tar", _tar({"etc/passwd": b"root:x:0:0::/root:\n"}), Cmd=["it"])

    async def act(runtime: Runtime) -> None:
        digests = {}
        steps: tuple[LockedStep, ...] = ()
        for base in ("./tree", "./image.tar", "of-image:latest"):
            (place / "Dockerfile").write_text(f"FROM {base}\nCOPY Dockerfile /d\n")
            name = "of-image" if base == "./image.tar" else "other"
            made = (await _build(runtime, BuildRequest(name=name, directory=str(place))))[-1]
            assert isinstance(made, BuildInfo), made
            (found,) = made.lock.bases
            assert found.name == base
            digests[base], steps = found.digest, made.lock.steps
        assert len({*digests.values()}) == 3
        (place / "Dockerfile").write_text("FROM ./tree\nCOPY Dockerfile /d\n")
        lock = LockInfo(bases=(LockedBase(name="./tree", digest=digests["./image.tar"]),), steps=steps)
        (*_, error) = await _build(runtime, BuildRequest(name="other", directory=str(place), locked=lock))
        assert "and the lock file has sha256:" in str(error)

    within(tmp_path / "home", act)


def test_a_layout_is_an_image_and_no_tree(tmp_path: Path) -> None:
    place = tmp_path / "context"
    layer = _tar({"etc/motd": b"in the image"})
    for name, data in pictures.laid_out(layer, settings=settings(layer)).items():
        file = place / "layout" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    async def act(runtime: Runtime) -> None:
        (place / "Dockerfile").write_text("FROM ./layout\nCOPY Dockerfile /d\n")
        told = await _build(runtime, BuildRequest(name="mine", directory=str(place)))
        assert isinstance(told[-1], BuildInfo), told[-1]
        found = _tree(runtime, told)
        assert found["etc/motd"] == "in the image"
        assert "oci-layout" not in found
        (place / "layout/index.json").unlink()
        os.symlink("/etc/passwd", place / "layout/index.json")
        (*_, error) = await _build(runtime, BuildRequest(name="mine", directory=str(place)))
        assert "no OCI layout" in str(error)

    within(tmp_path / "home", act)


def test_a_distribution_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "context"
    place.mkdir()
    (place / "Dockerfile").write_text("FROM debian:bookworm\nCOPY Dockerfile /d\n")
    made: list[str] = []

    def make(wanted: object, target: str, _proceed: object) -> None:
        made.append(str(wanted))
        with open(target, "wb") as file:
            file.write(_tar({"etc/debian_version": b"12\n"}))

    monkeypatch.setattr(distributions, "make", make)
    monkeypatch.setattr(distributions.Wanted, "key", str)

    async def act(runtime: Runtime) -> None:
        for _ in range(2):
            told = await _build(runtime, BuildRequest(name="mine", directory=str(place)))
            assert isinstance(told[-1], BuildInfo), told
        assert made == ["debian:bookworm"]

    within(tmp_path / "home", act)


def test_a_registry_is_asked_only_if_the_build_may_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "context"
    place.mkdir()
    saved(tmp_path / "image.tar", _tar({"etc/passwd": b"root:x:0:0::/root:\n"}))
    asked: list[str] = []

    async def pull(runtime: Runtime, remote: Remote, _errand: object) -> TemplateRow:
        asked.append(str(remote))
        (row,) = await loading.load(runtime, str(tmp_path / "image.tar"), str(remote.local))
        return row

    monkeypatch.setattr(pulling, "pull", pull)

    async def act(runtime: Runtime) -> None:
        (place / "Dockerfile").write_text("FROM registry.test/team/image:1\nCOPY Dockerfile /d\n")
        order = BuildRequest(name="mine", directory=str(place))
        (*_, error) = await _build(runtime, order)
        assert "there is no template registry.test/team/image:1" in str(error)
        assert asked == []
        monkeypatch.setattr(building._Build, "may_reach", lambda _build, pattern: pattern == "registry.test:443")
        for _ in range(2):
            assert isinstance((await _build(runtime, order))[-1], BuildInfo)
        assert asked == ["registry.test/team/image:1"], "then it is here"

    within(tmp_path / "home", act)


def test_a_sum_beside_a_tag_does_not_move_the_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a Dockerfile names is not always its user's word; the tag is."""
    place = tmp_path / "context"
    place.mkdir()
    for name in ("old.tar", "new.tar"):
        saved(tmp_path / name, _tar({name: b"x"}))
    sum_ = f"sha256:{'0' * 64}"

    async def pull(runtime: Runtime, remote: Remote, _errand: object) -> TemplateRow:
        row = (await loading.load(runtime, str(tmp_path / "old.tar"), str(remote.local)))[0]
        return await runtime.catalogue.add(replace(row, digest=sum_, source="registry"), replacing=True)

    monkeypatch.setattr(pulling, "pull", pull)
    monkeypatch.setattr(building._Build, "may_reach", lambda _build, _pattern: True)

    async def act(runtime: Runtime) -> None:
        (latest,) = await loading.load(runtime, str(tmp_path / "new.tar"), "registry.test/x:latest")
        (place / "Dockerfile").write_text(f"FROM registry.test/x:latest@{sum_}\nCOPY Dockerfile /d\n")
        told = await _build(runtime, BuildRequest(name="mine", directory=str(place)))
        assert "old.tar" in _tree(runtime, told), "the oracle: it was pulled"
        assert await runtime.catalogue.find(Reference.parse("registry.test/x:latest")) == latest
        assert await runtime.catalogue.has(Reference.parse(f"registry.test/x:sha256-{'0' * 16}"))
        monkeypatch.setattr(building._Build, "may_reach", lambda _build, _pattern: False)
        (place / "Dockerfile").write_text(f"FROM registry.test/x:latest@{latest.digest}\nCOPY Dockerfile /d\n")
        told = await _build(runtime, BuildRequest(name="mine", directory=str(place)))
        assert "new.tar" in _tree(runtime, told), "a tag that has this sum is as good"

    within(tmp_path / "home", act)
