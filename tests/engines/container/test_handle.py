"""What is known of a running container box without asking it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock.engines.container.handle import ContainerHandle
from paddock.engines.process import handle
from tests.engines.container.boxes import placed

if TYPE_CHECKING:
    from pathlib import Path


def test_one_without_an_init_below_it_is_not_idle(tmp_path: Path) -> None:
    placement = placed(tmp_path, tmp_path)
    held = handle.hold(placement, os.getpid(), ContainerHandle)
    assert repr(held) == f"<ContainerHandle one pid {os.getpid()}>"
    assert not held.is_idle()
    held.close()
