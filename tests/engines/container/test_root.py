"""The root of a container box: several layers as one, links out of the way, and nothing written below."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.engines.container.boxes import placed, run, within
from tests.support.installation import until

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.engines.container.engine import ContainerEngine

pytestmark = [pytest.mark.box, pytest.mark.container]


def test_later_layers_lie_over_earlier_ones_and_a_link_at_a_name_of_ours_leads_nowhere(
    tmp_path: Path, root: Path
) -> None:
    second = tmp_path / "second"
    (second / "etc").mkdir(parents=True)
    (second / "etc/of-the-root").write_text("above\n")
    aim = tmp_path / "aim"
    aim.write_text("untouched\n")
    (second / "etc/resolv.conf").symlink_to(aim)
    placement = placed(tmp_path, root)
    placement = replace(placement, spec=replace(placement.spec, layers=(str(root), str(second))))

    async def act(engine: ContainerEngine) -> None:
        handle = await engine.start(placement)
        assert await asyncio.to_thread(run, engine, placement, "cat", "/etc/of-the-root") == (0, "above\n")
        code, text = await asyncio.to_thread(run, engine, placement, "cat", "/etc/resolv.conf")
        assert (code, text.split()[0]) == (0, "nameserver")
        handle.kill()
        until(handle.ended, "the box is gone")
        handle.close()

    within(tmp_path, act)
    assert aim.read_text() == "untouched\n"
    assert (second / "etc/resolv.conf").is_symlink()
