"""Policies from their sources: broken files change nothing, projects narrow freely and ask for the rest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import Network
from paddock.policy import Host
from paddock.runtime.approvals import Approvals
from paddock.runtime.policies import Policies
from tests.support.installation import until
from tests.support.networks import flags

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path


@pytest.fixture
def policies(ground: Path) -> Iterator[Policies]:
    made = Policies(str(ground / "org.toml"), str(ground / "user.toml"), Approvals(str(ground / "approvals.json")))
    yield made
    made.close()


def allows(policies: Policies, network: Network, target: str, workspace: str = "") -> bool:
    return policies.check(target, "box", network, workspace).allowed


# -- sources -----------------------------------------------------------------------------------------------------------


def test_without_any_source_everything_is_denied(policies: Policies) -> None:
    verdict = policies.check("example.com", "box", Network(), "")
    assert (verdict.allowed, verdict.rule, verdict.port) == (False, None, 443)
    assert verdict.command == "paddock policy allow --box box example.com:443"
    assert policies.word(Network(), "") == "deny"


def test_flags_open_and_a_flag_beats_the_users_file(ground: Path, policies: Policies) -> None:
    (ground / "user.toml").write_text('allow = ["a.example", "b.example"]')
    assert policies.reload()
    assert allows(policies, Network(), "a.example")
    assert not allows(policies, flags("deny a.example"), "a.example")
    assert allows(policies, flags("deny a.example", "allow c.example"), "c.example")


def test_the_organisations_file_is_a_ceiling(ground: Path, policies: Policies) -> None:
    (ground / "org.toml").write_text('default = "allow"\ndeny = ["*.bad.example"]')
    assert policies.reload()
    assert allows(policies, flags("allow good.example"), "good.example")
    verdict = policies.check("x.bad.example", "box", flags("allow x.bad.example"), "")
    assert not verdict.allowed
    assert verdict.rule is not None
    assert (verdict.rule.source, verdict.rule.detail) == ("organisation", str(ground / "org.toml"))


@pytest.mark.parametrize("broken", ["org.toml", "user.toml"])
def test_what_a_broken_file_denied_is_not_guessed_by_a_new_daemon(ground: Path, broken: str) -> None:
    file = ground / broken
    file.write_text('default = "allow"\ndeny = ["bad.example"]')
    made = Policies(str(ground / "org.toml"), str(ground / "user.toml"), Approvals(str(ground / "approvals.json")))
    assert allows(made, flags(default="allow"), "good.example")
    made.close()
    file.write_text('deny = ["bad.example"')
    made = Policies(str(ground / "org.toml"), str(ground / "user.toml"), Approvals(str(ground / "approvals.json")))
    for host in ("bad.example", "good.example"):
        assert not allows(made, flags(default="allow"), host)
    file.write_text('default = "allow"\ndeny = ["bad.example"]')
    assert made.reload()
    assert allows(made, flags(default="allow"), "good.example")
    assert not allows(made, flags(default="allow"), "bad.example")
    made.close()


@pytest.mark.parametrize(
    ("network", "word"),
    [
        (Network(), "deny"),
        (flags("deny a.example"), "deny"),
        (flags("allow a.example"), "rules"),
        (flags(on_deny="ask"), "ask"),
        (flags(default="allow"), "allow"),
        (flags(default="allow", on_deny="ask"), "allow"),
        (flags(default="observe"), "observe"),
    ],
)
def test_a_network_has_one_word(policies: Policies, network: Network, word: str) -> None:
    assert policies.word(network, "") == word


def test_where_each_rule_came_from_is_shown(ground: Path, policies: Policies) -> None:
    (ground / "user.toml").write_text('allow = ["u.example"]\npresets = ["github"]')
    policies.reload()
    info = policies.info("box", flags("allow f.example"), "")
    found = {one.pattern: (one.source, one.detail) for layer in info.layers for one in layer.rules}
    assert found["u.example"] == ("user", str(ground / "user.toml"))
    assert found["f.example"] == ("flag", "command line")
    assert any(source == ("preset", "github") for source in found.values())
    assert [(source.kind, source.state) for source in info.sources] == [("organisation", "missing"), ("user", "ok")]


def test_the_hosts_own_addresses_are_closed_to_a_rule_for_all(policies: Policies) -> None:
    network = flags(default="allow")
    assert allows(policies, network, "93.184.215.14")
    policies.set_own_addresses(("93.184.215.14",))
    assert not allows(policies, network, "93.184.215.14")


def test_boxes_made_alike_share_one_policy(policies: Policies) -> None:
    first = policies.evaluator(flags("allow a.example"), "/one")
    assert policies.evaluator(flags("allow a.example"), "/two") is first
    for number in range(300):
        policies.of(flags(f"allow h{number}.example"), "")
    assert policies.evaluator(flags("allow a.example"), "/one") is not first  # and not for ever
    assert first.decide(Host("a.example"), 443).allowed


# -- broken files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('allow = ["ok.example"]\nalow = []', ":2: unknown key 'alow'"),
        ("allow = [\n", ":"),
        ('\n\nallow = ["ok.example",\n  "not a host"]', ":4: "),
        ("\udcff", "UTF-8"),
    ],
)
def test_a_broken_file_leaves_the_last_good_policy_and_lets_no_box_start(
    ground: Path, policies: Policies, text: str, line: str
) -> None:
    path = ground / "user.toml"
    path.write_text('allow = ["good.example"]')
    policies.reload()
    policies.require_good()
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert policies.reload()
    assert allows(policies, Network(), "good.example")
    shown = policies.info("", Network(), "").sources[1]
    assert (shown.state, line in shown.problem) == ("broken", True)
    with pytest.raises(UserError) as caught:
        policies.require_good()
    assert caught.value.message.startswith(str(path))
    assert caught.value.exit_code == 2
    path.write_text('allow = ["new.example"]')
    policies.reload()
    policies.require_good()
    assert allows(policies, Network(), "new.example")
    assert not allows(policies, Network(), "good.example")


def test_a_removed_file_takes_its_rules_with_it(ground: Path, policies: Policies) -> None:
    (ground / "user.toml").write_text('default = "allow"')
    policies.reload()
    assert allows(policies, Network(), "example.com")
    (ground / "user.toml").unlink()
    assert not policies.reload()  # an editor may be about to write it
    assert allows(policies, Network(), "example.com")
    until(policies.reload, "it has not come back", 1.0)
    assert not allows(policies, Network(), "example.com")


def test_a_change_of_the_file_is_noticed_by_itself(ground: Path, policies: Policies) -> None:
    async def act() -> None:
        changes = policies.changes()
        heard = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        (ground / "user.toml").write_text('allow = ["new.example"]')
        began = asyncio.get_running_loop().time()
        await asyncio.wait_for(heard, 5)
        assert asyncio.get_running_loop().time() - began < 1.0
        await changes.aclose()  # type: ignore[attr-defined]

    asyncio.run(act())
    assert allows(policies, Network(), "new.example")


# -- projects ----------------------------------------------------------------------------------------------------------


def test_a_project_narrows_at_once_and_asks_for_more(ground: Path, policies: Policies) -> None:
    place = str(ground / "project")
    (ground / "user.toml").write_text('allow = ["a.example", "b.example"]')
    policies.reload()
    (ground / "project/paddock.toml").write_text('[network]\nallow = ["p.example"]\ndeny = ["a.example"]')
    network = policies.take_project(Network(), place)
    assert not allows(policies, network, "a.example", place)
    assert allows(policies, network, "b.example", place)
    assert not allows(policies, network, "p.example", place)
    assert policies.asks(network, place) == ("p.example",)
    assert policies.info("box", network, place).sources[2].state == "unapproved"
    network, asked = policies.approve(network, place)
    assert asked == ("p.example",)
    assert allows(policies, network, "p.example", place)
    assert not allows(policies, network, "a.example", place)
    assert (policies.asks(network, place), policies.info("box", network, place).sources[2].state) == ((), "ok")


def test_an_approval_is_for_one_content_in_one_place(ground: Path, policies: Policies) -> None:
    place, other = str(ground / "project"), ground / "other"
    other.mkdir()
    text = '[network]\nallow = ["p.example"]'
    for directory in (ground / "project", other):
        (directory / "paddock.toml").write_text(text)
    policies.approve(policies.take_project(Network(), place), place)
    assert policies.asks(policies.take_project(Network(), place), place) == ()
    assert policies.asks(policies.take_project(Network(), str(other)), str(other)) == ("p.example",)
    (ground / "project/paddock.toml").write_text('# the same, laid out otherwise\n[network]\nallow = [\n"p.example"]')
    assert policies.asks(policies.take_project(Network(), place), place) == ()
    (ground / "project/paddock.toml").write_text('[network]\nallow = ["p.example", "q.example"]')
    assert policies.asks(policies.take_project(Network(), place), place) == ("p.example", "q.example")


def test_a_box_is_not_rid_of_its_narrowing_by_writing_another_file(ground: Path, policies: Policies) -> None:
    place = str(ground / "project")
    (ground / "user.toml").write_text('allow = ["a.example"]')
    policies.reload()
    (ground / "project/paddock.toml").write_text('[network]\ndeny = ["a.example"]')
    network = policies.take_project(Network(), place)
    (ground / "project/paddock.toml").unlink()
    assert policies.take_project(network, place) == network
    (ground / "project/paddock.toml").write_text('[network]\ndeny = ["b.example"]')
    kept = policies.take_project(network, place)
    assert kept == network
    assert not allows(policies, kept, "a.example", place)
    assert policies.info("box", kept, place).sources[2].state == "changed"
    newer = policies.newer(kept, place)
    assert newer is not None
    content, wanted = newer
    assert wanted == ("a.example (no longer denied)",)
    again, _ = policies.approve(kept, place)  # without a digest it is the one that the box goes by
    assert not allows(policies, again, "a.example", place)
    with pytest.raises(UserError) as caught:
        policies.approve(kept, place, "0" * 16)
    assert caught.value.code == "changed"
    changed, asked = policies.approve(kept, place, content[:16])
    assert asked == wanted
    assert allows(policies, changed, "a.example", place)
    assert policies.newer(changed, place) is None


@pytest.mark.parametrize("text", ["", "# nothing", "[network]"])
def test_a_project_that_asks_for_nothing_changes_nothing(ground: Path, policies: Policies, text: str) -> None:
    (ground / "project/paddock.toml").write_text(text)
    network = policies.take_project(Network(), str(ground / "project"))
    assert policies.asks(network, str(ground / "project")) == ()
    assert not allows(policies, network, "example.com", str(ground / "project"))


def test_nothing_can_be_approved_where_nothing_is_asked(ground: Path, policies: Policies) -> None:
    with pytest.raises(UserError) as caught:
        policies.approve(Network(), str(ground / "project"))
    assert caught.value.code == "no-project"
