"""A box as `ls` tells of it, for tests that have none: change what matters with dataclasses.replace."""

from __future__ import annotations

from typing import Final

from paddock.model import BoxInfo, BoxState, EngineName

BOX: Final = BoxInfo(
    id="abc",
    name="box",
    agent="shell",
    engine=EngineName.PROCESS,
    state=BoxState.STOPPED,
    reason="",
    workspace="/w",
    mounts=(),
    env_names=(),
    workdir="",
    ephemeral=False,
    created_at="",
    pid=None,
)
