"""Settings, servers and state around a home, without a box that runs; tests/boxes has those."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock import agents
from paddock.errors import UserError
from paddock.model import BoxSpec
from paddock.runtime import belongings, furnishing
from paddock.runtime.homes import Home
from paddock.secrets.binding import Words, bind
from paddock.secrets.record import Kind, Source
from paddock.secrets.store import opened
from tests.support.robots import DEFINITION
from tests.support.serving import request, within

if TYPE_CHECKING:
    from pathlib import Path

    from paddock.runtime import Runtime
    from paddock.runtime.box import Box

TEXT = DEFINITION.format(name="robot", settings='".robot/RULES.md", ".robot/settings.json", ".robot"')


async def robot(runtime: Runtime, workspace: Path, **more: object) -> Box:
    asked = replace(request(workspace), agent="robot", definition=TEXT, **more)  # type: ignore[arg-type]
    return await runtime.create(asked)


def test_a_file_that_is_the_users_and_seeded_has_both(tmp_path: Path) -> None:
    home, box = tmp_path / "user", tmp_path / "box"
    (home / ".robot").mkdir(parents=True)
    (home / ".robot/settings.json").write_text('{"model": "big"}')
    (box / "home").mkdir(parents=True)
    agent = agents.parse(TEXT)
    spec = BoxSpec(name="b", agent="robot", workspace="/w", caller_home=str(home), with_settings=True)
    made = belongings.Settings(spec, agent, str(box), Home(f"{box}/home"))
    assert made.paths == [".robot"], "a path in another is not mounted twice"
    assert made.root_of(".robot/settings.json").upper == made.root_of(".robot/new").upper == f"{box}/settings"
    assert made.root_of(".robot.json").upper == f"{box}/home"
    [mount] = made.mounts()
    assert (mount.source, mount.target, mount.read_only) == (f"{box}/settings/.robot", "/home/agent/.robot", True)
    bare = belongings.Settings(replace(spec, with_settings=False), agent, str(box), Home(f"{box}/home"))
    assert (bare.mounts(), (box / "settings").exists()) == ((), False), "what was copied before is gone"


@pytest.mark.parametrize(("made", "fits"), [("file", False), ("link", False), ("directory", True), ("", True)])
def test_nothing_is_mounted_over_what_is_no_such_thing(tmp_path: Path, made: str, fits: bool) -> None:
    home, source = tmp_path / "home", tmp_path / "source"
    home.mkdir()
    source.mkdir()
    place = home / "place"
    if made == "directory":
        place.mkdir()
    elif made == "link":
        place.symlink_to(source)
    elif made:
        place.touch()
    assert belongings._fits(Home(str(home)), "place", str(source)) is fits
    assert belongings._fits(Home(str(home)), "place/inner", str(source)) is fits


def test_entries_have_the_placeholders_of_secrets(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        (tmp_path / "config").mkdir()
        table = '[web]\nurl = "https://h.example.com/"\nsecrets = ["openai"]\nheaders = { X-Team = "blue" }\n'
        (tmp_path / "config/mcp.toml").write_text(table)
        store = opened(runtime.paths.secrets, {})
        store.put(bind("openai", Words()), Source(kind=Kind.ENV, words=("NO_SUCH",)))
        box = await robot(runtime, workspace, mcp=("web",))
        await furnishing.furnish(runtime, box)
        listed = json.loads((tmp_path / f"state/boxes/{box.row.id}/home/.robot/mcp.json").read_text())
        placeholder = runtime.environment(box)["OPENAI_API_KEY"]
        assert listed["mcpServers"]["web"]["headers"] == {"X-Team": "blue", "authorization": f"Bearer {placeholder}"}

    within(tmp_path, act)


def test_an_agent_without_state_or_a_list_is_told_so(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        (tmp_path / "config").mkdir()
        (tmp_path / "config/mcp.toml").write_text('[db]\ncommand = ["x"]\n')
        box = await runtime.create(replace(request(workspace), mcp=("db",)))
        with pytest.raises(UserError, match="shell has no state"):
            await runtime.remove(box.name, force=False, keep_state=True)
        await furnishing.furnish(runtime, box)
        assert box.notes == ["shell has no list of MCP servers: in the box `paddock-mcp NAME` connects to db"]
        assert [mount.target for mount in box.view] == ["/run/mcp"]

    within(tmp_path, act)
