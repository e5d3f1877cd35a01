"""The secrets of boxes: placeholders on disk, values in memory, and what is missing said by name."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import BoxRequest, SecretUse
from paddock.policy import Evaluator, Policy
from paddock.runtime.credentials import FILE, values_of
from paddock.secrets import sources
from paddock.secrets.binding import Words, bind
from paddock.secrets.keyring import Keyring
from paddock.secrets.store import Store
from paddock.secrets.value import Secret
from tests.support.serving import within

if TYPE_CHECKING:
    from paddock.runtime import Runtime
    from paddock.runtime.box import Box

VALUE = "live-5f0c2a7741d94e6b9f"


def store(runtime: Runtime) -> Store:
    """Where no keyring answers."""
    return Store(runtime.paths.secrets, Keyring(runtime.paths.secrets, {}))


async def made(runtime: Runtime, workspace: Path, *uses: SecretUse, **given: str) -> Box:
    return await runtime.create(BoxRequest(workspace=os.fspath(workspace), secrets=uses), values_of(given))


async def entries(runtime: Runtime, box: Box) -> list[dict[str, object]]:
    found = json.loads(await runtime.credentials.document(box))["secrets"]
    assert isinstance(found, list)
    return found


def test_a_box_keeps_its_placeholder_and_no_value(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        store(runtime).put(bind("shop", Words(hosts=["api.shop.example"])), Secret(VALUE))
        box = await made(runtime, workspace, SecretUse(name="shop"))
        path = Path(box.directory) / FILE
        placeholder = runtime.environment(box)["SHOP_API_KEY"]
        assert placeholder in path.read_text()
        assert VALUE not in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        (entry,) = await entries(runtime, box)
        assert (entry["placeholder"], entry["value"], entry["missing"]) == (placeholder, VALUE, False)
        runtime.credentials._held.clear()  # as another daemon finds it
        assert runtime.environment(box)["SHOP_API_KEY"] == placeholder
        other = await made(runtime, workspace, SecretUse(name="shop"))
        assert runtime.environment(other)["SHOP_API_KEY"] != placeholder

    within(tmp_path / "home", act)


def test_what_was_set_since_then_counts_and_what_is_gone_is_missing(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        store(runtime).put(bind("shop", Words(hosts=["api.shop.example"])), Secret(VALUE))
        box = await made(runtime, workspace, SecretUse(name="shop"))
        store(runtime).put(bind("shop", Words(hosts=["eu.shop.example"])), Secret(VALUE[::-1]))
        (entry,) = await entries(runtime, box)
        assert (entry["hosts"], entry["value"]) == (["eu.shop.example"], VALUE[::-1])
        assert box.told() == []
        store(runtime).remove("shop")
        (entry,) = await entries(runtime, box)
        assert (entry["name"], entry["value"], entry["missing"]) == ("shop", "", True)
        assert box.told() == ["there is no secret 'shop'"]

    within(tmp_path / "home", act)


def test_a_variable_of_the_shell_comes_with_the_request_and_is_written_nowhere(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        store(runtime).put(bind("shop", Words(hosts=["api.shop.example"])), sources.from_env("MY_KEY"))
        box = await made(runtime, workspace, SecretUse(name="shop"), shop=VALUE, other=VALUE)
        assert (await entries(runtime, box))[0]["value"] == VALUE
        files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
        assert files
        assert not any(VALUE.encode() in path.read_bytes() for path in files)
        runtime.credentials.forget(box.row.id)
        assert (await entries(runtime, box))[0]["missing"] is True
        assert "MY_KEY was not set" in box.notes[0]
        await runtime.lend(box, (), values_of({"shop": VALUE}))
        assert (await entries(runtime, box))[0]["missing"] is False
        assert box.told() == []  # it is there now

    within(tmp_path / "home", act)


def test_whoever_changed_something_leaves_boxes_behind(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, SecretUse(name="openai", variable="OPENAI_API_KEY"), openai=VALUE)
        plain = await runtime.create(BoxRequest(workspace=os.fspath(workspace)))
        assert await runtime.credentials.document(plain) == b""
        await runtime.credentials.document(box)
        assert not runtime.credentials.is_behind(box)
        await runtime.secrets_changed(["anything"])
        assert runtime.credentials.is_behind(box)
        assert not runtime.credentials.is_behind(plain)

    within(tmp_path / "home", act)


def test_a_secret_none_of_whose_hosts_is_allowed_is_named(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, SecretUse(name="openai", variable="OPENAI_API_KEY"))
        (note,) = runtime.credentials.notes(box, Evaluator(Policy()))
        assert "api.openai.com" in note

    within(tmp_path / "home", act)


def test_nothing_is_made_for_a_secret_that_cannot_be(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        store(runtime).put(bind("shop", Words(hosts=["api.shop.example"])), Secret(VALUE))
        for use, code in (
            (SecretUse(name="nobody"), "unknown-secret"),
            (SecretUse(name="nobody", variable="X"), "unknown-secret"),
            (SecretUse(name="shop", read_only=True), "bad-secret"),
        ):
            with pytest.raises(UserError) as caught:
                await made(runtime, workspace, use)
            assert caught.value.code == code
        with pytest.raises(UserError) as caught:
            runtime.credentials.hold((SecretUse(name="shop"),), {"SHOP_API_KEY": "mine"})
        assert caught.value.code == "secret-clash"
        assert runtime.boxes == {}

    within(tmp_path / "home", act)


def test_a_record_that_cannot_be_read_is_made_anew(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, SecretUse(name="openai", variable="OPENAI_API_KEY"))
        before = runtime.environment(box)
        for damage in (b"{", b'{"held": []}', b'{"held": [{"binding": 1}]}'):
            Path(box.directory, FILE).write_bytes(damage)
            runtime.credentials._held.clear()
            assert runtime.environment(box).keys() == before.keys()
            assert runtime.environment(box)["OPENAI_API_KEY"] != before["OPENAI_API_KEY"]

    within(tmp_path / "home", act)


def test_a_box_is_lent_more_and_what_it_has_stays(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        for name in ("shop", "bank"):
            store(runtime).put(bind(name, Words(hosts=[f"api.{name}.example"])), Secret(VALUE))
        box = await made(runtime, workspace, SecretUse(name="shop"))
        before = runtime.environment(box)["SHOP_API_KEY"]
        store(runtime).remove("shop")  # what it has already is not asked for again
        await runtime.lend(box, (SecretUse(name="bank"),), {})
        env = runtime.environment(box)
        assert (env["SHOP_API_KEY"], "BANK_API_KEY" in env) == (before, True)
        assert [entry["missing"] for entry in await entries(runtime, box)] == [True, False]
        runtime.credentials._held.clear()  # as another daemon finds it
        assert runtime.environment(box) == env
        await runtime.set_env(box.name, {"CAFE_API_KEY": "mine"}, ())
        store(runtime).put(bind("cafe", Words(hosts=["api.cafe.example"])), Secret(VALUE))
        for use, code in ((SecretUse(name="cafe"), "secret-clash"), (SecretUse(name="nobody"), "unknown-secret")):
            with pytest.raises(UserError) as caught:
                await runtime.lend(box, (use,), {})
            assert caught.value.code == code
        assert runtime.environment(box).items() >= env.items()
        assert [use.name for use in box.row.spec.secrets] == ["shop", "bank"]

    within(tmp_path / "home", act)


def test_a_kept_record_with_more_than_the_box_has_gives_what_it_has(tmp_path: Path, workspace: Path) -> None:
    async def act(runtime: Runtime) -> None:
        box = await made(runtime, workspace, SecretUse(name="openai", variable="OPENAI_API_KEY"))
        before = runtime.environment(box)
        uses = (*box.row.spec.secrets, SecretUse(name="groq", variable="GROQ_API_KEY"))
        runtime.credentials.keep(box, runtime.credentials.hold(uses, {}, box))  # and then the daemon died
        for _ in range(2):
            assert runtime.environment(box) == before
            runtime.credentials._held.clear()

    within(tmp_path / "home", act)


def test_a_value_that_no_header_carries_is_refused_without_being_repeated() -> None:
    with pytest.raises(UserError) as caught:
        values_of({"shop": "two\nlines-of-it"})
    assert "lines-of-it" not in str(caught.value)
