"""Ask mode: a connection waits for a person's word, here or from another terminal; with nobody there it is refused."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from paddock.cli import asking
from paddock.reports import PendingInfo
from tests.support.origin import ANSWER
from tests.support.terminal import Person

if TYPE_CHECKING:
    from tests.support.installation import Installation
    from tests.support.origin import Origin


def pending(installation: Installation) -> list[dict[str, object]]:
    found = json.loads(installation.cli("policy", "pending", "--json").stdout)
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        (PendingInfo(id="1", box="b", kind="connection", host="a", port=1, protocol="tls"), "a:1 (tls)"),
        (PendingInfo(id="1", box="b", kind="connection", host="::1", port=1, protocol="tcp"), "[::1]:1 (tcp)"),
        (PendingInfo(id="b", box="b", kind="project", asks=("x", "y")), "paddock.toml asks for x, y"),
    ],
)
def test_what_waits_is_shown_in_a_few_words(item: PendingInfo, shown: str) -> None:
    assert asking.what(item) == shown


@pytest.mark.box
def test_two_answers_are_none(installation: Installation) -> None:
    assert installation.cli("policy", "approve", "x", "--once", "--no").returncode == 2
    done = installation.cli("policy", "approve", "x")
    assert (done.returncode, b"policy pending" in done.stderr) == (2, True)
    assert installation.cli("policy", "pending").stderr == b"nothing waits\n"


# -- nobody there ------------------------------------------------------------------------------------------------------


@pytest.mark.box
def test_without_a_terminal_it_is_refused_and_listed(installation: Installation) -> None:
    assert installation.cli("create", "box", "--on-deny", "ask").returncode == 0
    assert installation.cli("exec", "box", "curl", "-sS", "-m", "10", "http://asked.example/").stdout.startswith(
        b"paddock: asked.example:80 is denied"
    )
    (ask,) = pending(installation)
    assert (ask["box"], ask["host"], ask["port"], ask["held"]) == ("box", "asked.example", 80, False)
    assert b"asked.example:80" in installation.cli("policy", "pending").stdout
    assert installation.cli("policy", "approve", str(ask["id"]), "--for-box").returncode == 0
    assert pending(installation) == []
    assert installation.cli("policy", "check", "--box", "box", "asked.example:80").returncode == 0
    assert installation.cli("policy", "check", "asked.example:80").returncode == 77


# -- someone there -----------------------------------------------------------------------------------------------------


@pytest.mark.box
@pytest.mark.parametrize(
    ("answer", "passes", "allowed_after"), [(b"o\r", True, False), (b"b\r", True, True), (b"n\r", False, False)]
)
def test_at_a_terminal_the_question_is_asked_and_the_connection_waits(
    installation: Installation, origin: Origin, answer: bytes, passes: bool, allowed_after: bool
) -> None:
    """localhost has no listener in the box before it is allowed: the host is asked for by its other name."""
    assert installation.cli("create", "box", "--on-deny", "ask").returncode == 0
    target = f"http://host.docker.internal:{origin.port}/"
    with Person(installation, "run", "box") as person:
        person.enter(f"curl -sS -m 20 {target}; echo done-$?")
        person.sees(b"asks for")
        person.sees(b"then Enter: ")
        (ask,) = pending(installation)
        assert ask["held"] is True
        time.sleep(0.6)  # the moment in which keys still go to the box
        person.type(answer)
        if passes:
            person.sees(ANSWER.strip())
            person.sees(b"done-0")
        else:
            person.sees(b"done-")
        person.enter("exit")
        person.leaves()
    rule = installation.cli("policy", "check", "--box", "box", origin.rule)
    assert (rule.returncode == 0) == allowed_after


@pytest.mark.box
def test_an_answer_from_another_terminal_lets_it_pass(installation: Installation, origin: Origin) -> None:
    assert installation.cli("create", "box", "--on-deny", "ask").returncode == 0
    with Person(installation, "run", "box") as person:
        person.enter(f"curl -sS -m 20 http://host.docker.internal:{origin.port}/; echo done-$?")
        person.sees(b"then Enter: ")
        (ask,) = pending(installation)
        assert installation.cli("policy", "approve", str(ask["id"])).returncode == 0
        person.sees(b"done-0")
        person.enter("exit")
        person.leaves()


@pytest.mark.box
def test_always_is_for_all_boxes_and_stands_in_the_users_file(own_installation: Installation, origin: Origin) -> None:
    assert own_installation.cli("create", "box", "--on-deny", "ask").returncode == 0
    own_installation.cli("exec", "box", "curl", "-s", "-m", "10", f"http://host.docker.internal:{origin.port}/")
    (ask,) = pending(own_installation)
    assert own_installation.cli("policy", "approve", str(ask["id"]), "--always").returncode == 0
    assert (own_installation.home / "config/policy.toml").read_text() == f'allow = ["{origin.rule}"]\n'
    assert own_installation.cli("run", "--", *origin.fetch()).stdout == ANSWER


# -- projects ----------------------------------------------------------------------------------------------------------


@pytest.mark.box
def test_a_project_file_waits_for_approval_and_changing_it_asks_again(
    installation: Installation, origin: Origin
) -> None:
    file = installation.workspace / "paddock.toml"
    file.write_text(f'[network]\nallow = ["{origin.rule}"]\n')
    assert installation.cli("create", "box").returncode == 0
    assert installation.cli("exec", "box", *origin.fetch()).returncode != 0
    (waiting,) = pending(installation)
    assert (waiting["kind"], waiting["box"], waiting["asks"]) == ("project", "box", [origin.rule])
    done = installation.cli("policy", "approve", "--project", "box")
    assert done.stdout.decode() == f"approved {origin.rule}\n"
    assert pending(installation) == []
    assert installation.cli("exec", "box", *origin.fetch()).stdout == ANSWER
    assert installation.cli("run", "--", *origin.fetch()).stdout == ANSWER  # the same content in the same place
    file.write_text(f'[network]\nallow = ["{origin.rule}", "*"]\n')
    assert installation.cli("run", "--", *origin.fetch()).returncode != 0
    assert installation.cli("exec", "box", *origin.fetch()).stdout == ANSWER  # a running box never reads it again


@pytest.mark.box
def test_a_project_file_that_cannot_be_read_starts_nothing(installation: Installation) -> None:
    (installation.workspace / "paddock.toml").write_text("[network]\nalow = []\n")
    done = installation.cli("run", "--", "true")
    assert (done.returncode, b"paddock.toml:2: unknown key" in done.stderr) == (2, True)
