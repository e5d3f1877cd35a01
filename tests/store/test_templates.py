"""Templates and steps of builds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.model import ImageRun
from paddock.store import TemplateRow
from paddock.store import templates as subject
from tests.store.rows import execute

if TYPE_CHECKING:
    from paddock.store import Store

ROW = TemplateRow(
    name="team/base",
    tag="v1",
    chain=("sha256:b", "sha256:a", "sha256:b"),
    config='{"os":"linux"}',
    image=ImageRun(user="agent", uid=1000, gid=1000, entrypoint=("/start", "\udcff")),
    source="file",
    digest="sha256:0",
    created_at="2026-01-01",
)


def test_a_template_is_read_back_as_it_was_written(store: Store) -> None:
    store.add_template(ROW)
    store.add_template(replace(ROW, tag="v0", created_at=""))
    assert store.template("team/base", "v1") == ROW
    assert [row.tag for row in store.templates()] == ["v0", "v1"]
    assert store.templates()[0].created_at > ROW.created_at
    assert store.template("team/base", "v2") is None
    assert store.remove_template("team/base", "v1")
    assert not store.remove_template("team/base", "v1")
    assert [row.tag for row in store.templates()] == ["v0"]


def test_a_name_is_taken_over_only_where_that_is_wanted(store: Store) -> None:
    store.add_template(ROW)
    other = replace(ROW, chain=("sha256:c",))
    with pytest.raises(Unavailable, match="UNIQUE"):
        store.add_template(other)
    assert store.templates() == [ROW]
    store.add_template(other, replacing=True)
    assert store.templates() == [other]
    assert store.layers() == {"sha256:c"}


def test_a_damaged_template_is_said_and_keeps_its_layers(store: Store, path: str) -> None:
    store.add_template(ROW)
    execute(path, "UPDATE templates SET image = '[['")
    with pytest.raises(Unavailable, match="the template team/base:v1 is damaged") as caught:
        store.template("team/base", "v1")
    assert caught.value.hint == "build or load it again"
    assert store.templates() == []
    assert store.layers() == {"sha256:a", "sha256:b"}


def test_a_step_that_is_asked_for_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for day, act in (("1", store.cache), ("2", store.cache)):
        monkeypatch.setattr(subject, "now", lambda day=day: f"2026-01-0{day}")
        act(f"key{day}", f"frozen:{day}")
    monkeypatch.setattr(subject, "now", lambda: "2026-01-03")
    assert (store.cached("key1"), store.cached("other")) == ("frozen:1", None)
    assert store.drop_cache("2026-01-03") == 1
    assert (store.cached("key1"), store.cached("key2")) == ("frozen:1", None)
    store.cache("key1", "frozen:new")
    assert store.cached("key1") == "frozen:new"
    assert store.cached_layers() == {"frozen:new"}
