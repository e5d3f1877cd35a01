"""Templates by name."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable, UserError
from paddock.images.layers import LayerId, Layers
from paddock.model.reference import Reference
from paddock.runtime.background import Background
from paddock.runtime.catalogue import Catalogue, noted
from paddock.store import Store, TemplateRow
from tests.support.scarcity import no_growth

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

V1 = Reference(name="team", tag="v1")
ROW = TemplateRow(name="team", tag="v1", chain=(f"sha256:{'a' * 64}",), config="{}")


def within(tmp_path: Path, scenario: Callable[[Catalogue], Awaitable[None]]) -> None:
    async def run() -> None:
        store, background = Store(f"{tmp_path}/paddock.db"), Background()
        try:
            await scenario(Catalogue(store, background, f"{tmp_path}/templates.json"))
        finally:
            await background.close()
            store.close()

    asyncio.run(run())


def _layers(tmp_path: Path) -> Layers:
    layers = Layers(f"{tmp_path}/layers")
    (tmp_path / "layers/sha256" / ("a" * 64) / "tree").mkdir(parents=True, exist_ok=True)
    return layers


def test_a_template_is_there_until_it_is_removed(tmp_path: Path) -> None:
    async def scenario(catalogue: Catalogue) -> None:
        assert not await catalogue.has(V1)
        made = await catalogue.add(ROW)
        assert made.created_at
        assert (await catalogue.find(V1), await catalogue.listed(), await catalogue.has(V1)) == (made, [made], True)
        assert [*noted(f"{tmp_path}/templates.json", _layers(tmp_path))] == [made]
        await catalogue.remove(V1)
        assert [*noted(f"{tmp_path}/templates.json", _layers(tmp_path))] == []
        for act in (catalogue.find, catalogue.remove):
            with pytest.raises(UserError, match="there is no template team:v1") as caught:
                await act(V1)
            assert caught.value.hint == "`paddock template ls` lists them; a file or directory is written ./team"

    within(tmp_path, scenario)


def test_a_name_that_is_taken_stays_whose_it_is(tmp_path: Path) -> None:
    other = replace(ROW, chain=(f"sha256:{'b' * 64}",))

    async def scenario(catalogue: Catalogue) -> None:
        made = await catalogue.add(ROW)
        with pytest.raises(UserError, match="there is a template team:v1") as caught:
            await catalogue.add(other)
        assert caught.value.code == "exists"
        assert await catalogue.find(V1) == made
        await catalogue.add(other, replacing=True)
        assert (await catalogue.find(V1)).chain == other.chain

    within(tmp_path, scenario)


def test_without_room_nothing_has_happened(tmp_path: Path) -> None:
    async def scenario(catalogue: Catalogue) -> None:
        made = await catalogue.add(ROW)
        big = replace(ROW, tag="v2", config="x" * 300_000)
        path = f"{tmp_path}/paddock.db"
        with no_growth(path, f"{path}-wal"), pytest.raises(Unavailable) as caught:
            await catalogue.add(big)
        assert caught.value.code in {"disk", "write"}
        assert await catalogue.listed() == [made]
        await catalogue.add(big)
        assert len(await catalogue.listed()) == 2

    within(tmp_path, scenario)


def test_what_a_step_of_a_build_made_is_found_again(tmp_path: Path) -> None:
    async def scenario(catalogue: Catalogue) -> None:
        assert await asyncio.to_thread(catalogue.step, "key") is None
        await asyncio.to_thread(catalogue.keep_step, "key", LayerId("frozen:a"))
        assert await asyncio.to_thread(catalogue.step, "key") == "frozen:a"
        assert await catalogue.drop_steps("2000") == 0
        assert await catalogue.drop_steps("9999") == 1
        assert await asyncio.to_thread(catalogue.step, "key") is None

    within(tmp_path, scenario)


def test_repr_names_the_list(tmp_path: Path) -> None:
    async def scenario(catalogue: Catalogue) -> None:
        assert repr(catalogue) == f"<Catalogue {tmp_path}/templates.json>"

    within(tmp_path, scenario)


def test_what_came_from_elsewhere_is_not_replaced_by_who_names_where_it_must_come_from(tmp_path: Path) -> None:
    async def scenario(catalogue: Catalogue) -> None:
        await catalogue.add(replace(ROW, source="registry"))
        await catalogue.add(replace(ROW, source="registry"), replacing=True, of="registry")
        mine = await catalogue.add(replace(ROW, source="build"), replacing=True)
        with pytest.raises(UserError, match="there is a template team:v1"):
            await catalogue.add(replace(ROW, source="registry"), replacing=True, of="registry")
        assert await catalogue.listed() == [mine]

    within(tmp_path, scenario)
