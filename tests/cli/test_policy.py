"""policy and network proxy, from the command line to the gateway: what is said is what happens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock import codec
from paddock.cli import policy
from paddock.reports import LayerInfo, PolicyInfo, RuleInfo, SourceInfo, VerdictInfo
from tests.support.origin import ANSWER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.installation import Installation
    from tests.support.origin import Origin


@pytest.fixture
def user_file(installation: Installation) -> Iterator[Path]:
    path = installation.home / "config/policy.toml"
    assert installation.cli("daemon", "start").returncode == 0
    yield path
    path.unlink(missing_ok=True)
    installation.cli("policy", "show")


def reaches(installation: Installation, box: str, origin: Origin) -> bool:
    done = installation.cli("exec", box, *origin.fetch())
    assert (done.returncode == 0) == (done.stdout == ANSWER), done.stderr
    return done.stdout == ANSWER


# -- words -------------------------------------------------------------------------------------------------------------


def test_a_policy_is_shown_with_where_each_rule_came_from(capsys: pytest.CaptureFixture[str]) -> None:
    rule = RuleInfo(action="allow", pattern="a.example", source="user", detail="/x\x1b.toml", bypass=True)
    info = PolicyInfo(
        box="",
        network="observe",
        on_deny="deny",
        layers=(LayerInfo(name="box", default="observe", rules=(rule,)),),
        sources=(SourceInfo(kind="user", place="/x", state="broken", problem="/x:3: unknown key"),),
    )
    assert policy._print(info, as_json=False) == 0
    shown = capsys.readouterr()
    assert "user           /x (broken: /x:3: unknown key)" in shown.out
    assert "allow (bypass)  a.example  user: /x\\x1b.toml" in shown.out
    assert "OBSERVE MODE IS OPEN" in shown.err
    policy._print(info, as_json=True)
    assert codec.from_wire(PolicyInfo, json.loads(capsys.readouterr().out)) == info


@pytest.mark.parametrize(
    ("host", "shown"), [("a.example", "denied a.example:443: why"), ("2001:db8::1", "denied [2001:db8::1]:443: why")]
)
def test_a_verdict_is_one_line(host: str, shown: str) -> None:
    verdict = VerdictInfo(
        host=host, port=443, allowed=False, observed=False, bypass=False, reason="why", rule=None, command=""
    )
    assert policy._line(verdict) == shown


@pytest.mark.parametrize("words", [["allow", "a.example"], ["deny", "--box", "x", "--user", "a.example"], ["rm", "a"]])
def test_a_change_says_for_whom(installation: Installation, words: list[str]) -> None:
    done = installation.cli("policy", *words)
    assert (done.returncode, b"--box BOX or --user" in done.stderr) == (2, True)


# -- one box -----------------------------------------------------------------------------------------------------------


@pytest.mark.box
def test_a_box_reaches_what_it_is_allowed_and_nothing_else(installation: Installation, origin: Origin) -> None:
    assert installation.cli("create", "shut").returncode == 0
    assert installation.cli("create", "open", "--allow-host", origin.rule).returncode == 0
    assert reaches(installation, "open", origin)
    assert not reaches(installation, "shut", origin)


@pytest.mark.box
def test_rules_change_while_the_box_runs(installation: Installation, origin: Origin) -> None:
    assert installation.cli("create", "box").returncode == 0
    assert not reaches(installation, "box", origin)
    assert installation.cli("policy", "allow", "--box", "box", origin.rule).returncode == 0
    assert reaches(installation, "box", origin)
    assert installation.cli("policy", "deny", "--box", "box", origin.rule).returncode == 0
    assert not reaches(installation, "box", origin)
    assert installation.cli("policy", "rm", "--box", "box", origin.rule).returncode == 0
    assert not reaches(installation, "box", origin)
    assert installation.cli("network", "proxy", "box", "--allow-host", origin.rule).returncode == 0
    assert reaches(installation, "box", origin)
    again = installation.cli("policy", "rm", "--box", "box", "never.example")
    assert (again.returncode, b"there is no rule" in again.stderr) == (2, True)


@pytest.mark.box
def test_run_adds_to_the_rules_of_a_box_that_exists(installation: Installation, origin: Origin) -> None:
    first = ("run", "--name", "box", "--allow-host", "a.example", "--", "true")
    assert installation.cli(*first).returncode == 0
    done = installation.cli("run", "--name", "box", "--allow-host", origin.rule, "--", *origin.fetch())
    assert done.stdout == ANSWER
    shown = json.loads(installation.cli("policy", "show", "--json", "box").stdout)
    patterns = [rule["pattern"] for layer in shown["layers"] for rule in layer["rules"]]
    assert patterns == ["a.example", origin.rule]


@pytest.mark.box
def test_rules_outlive_stop_and_the_daemon(own_installation: Installation, origin: Origin) -> None:
    assert own_installation.cli("create", "box").returncode == 0
    assert own_installation.cli("policy", "allow", "--box", "box", origin.rule).returncode == 0
    own_installation.kill_daemon()
    assert reaches(own_installation, "box", origin)
    assert own_installation.cli("stop", "box").returncode == 0
    assert reaches(own_installation, "box", origin)


@pytest.mark.box
def test_check_why_and_suggest_agree_with_the_gateway(installation: Installation, origin: Origin) -> None:
    assert installation.cli("create", "box").returncode == 0
    assert not reaches(installation, "box", origin)
    done = installation.cli("policy", "check", "--box", "box", origin.rule, "example.com")
    assert (done.returncode, [line.split()[0] for line in done.stdout.splitlines()]) == (77, [b"denied", b"denied"])
    assert installation.cli("exec", "box", "curl", "-sS", "-m", "5", "http://denied.example/").stdout.startswith(
        b"paddock: denied.example:80 is denied"
    )
    suggested = installation.cli("policy", "suggest", "box").stdout.decode().splitlines()
    assert suggested == ["paddock policy allow --box box denied.example:80"]
    assert json.loads(installation.cli("policy", "suggest", "--json", "box").stdout) == ["denied.example:80"]
    assert installation.cli("policy", "allow", "--box", "box", origin.rule, "denied.example:80").returncode == 0
    done = installation.cli("policy", "check", "--box", "box", origin.rule)
    assert (done.returncode, done.stdout.split()[0]) == (0, b"allowed")
    assert reaches(installation, "box", origin)
    why = installation.cli("policy", "why", "--box", "box", "denied.example:80").stdout.decode()
    assert "rule: allow denied.example:80 (from flag: command line)" in why
    why = json.loads(installation.cli("policy", "why", "--json", "--box", "box", "other.example").stdout)
    assert why["command"] == "paddock policy allow --box box other.example:443"
    assert installation.cli("policy", "suggest", "box").stdout == b""


@pytest.mark.box
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--allow-host", "bad host"], b"bad host"),
        (["--allow-host", "localhost"], b"localhost"),
        (["--preset", "nonsense"], b"nonsense"),
        (["--policy", "open"], b"--policy"),
        (["--allow-cidr", "10.0.0.1/8"], b"--allow-cidr"),
    ],
)
def test_a_rule_that_is_none_makes_no_box(installation: Installation, words: list[str], message: bytes) -> None:
    done = installation.cli("create", "box", *words)
    assert (done.returncode, message in done.stderr) == (2, True)
    assert installation.cli("ls", "-q").stdout == b""


# -- the user's file ---------------------------------------------------------------------------------------------------


@pytest.mark.box
def test_the_users_file_speaks_for_all_boxes_at_once(
    installation: Installation, user_file: Path, origin: Origin
) -> None:
    for box in ("one", "two"):
        assert installation.cli("create", box).returncode == 0
        assert not reaches(installation, box, origin)
    user_file.write_text("# mine\nallow = [\n]  # nothing yet\n")
    assert installation.cli("policy", "allow", "--user", origin.rule).returncode == 0
    assert user_file.read_text().startswith("# mine\nallow = [")
    assert origin.rule in user_file.read_text()
    assert reaches(installation, "one", origin)
    assert reaches(installation, "two", origin)
    assert installation.cli("policy", "deny", "--box", "two", origin.rule).returncode == 0
    assert not reaches(installation, "two", origin)  # a flag beats the file
    assert installation.cli("policy", "rm", "--user", origin.rule).returncode == 0
    assert not reaches(installation, "one", origin)


@pytest.mark.box
def test_a_broken_file_keeps_running_boxes_as_they_are_and_starts_none(
    installation: Installation, user_file: Path, origin: Origin
) -> None:
    user_file.write_text(f'allow = ["{origin.rule}"]\n')
    assert installation.cli("create", "box").returncode == 0
    assert reaches(installation, "box", origin)
    user_file.write_text("allow = []\nalow = []\n")
    shown = installation.cli("policy", "show", "box").stdout.decode()
    assert f"{user_file}:2: unknown key 'alow'" in shown
    assert reaches(installation, "box", origin)
    done = installation.cli("run", "--", "true")
    assert (done.returncode, f"{user_file}:2:".encode() in done.stderr) == (2, True)
    user_file.write_text("allow = []\n")
    assert installation.cli("run", "--", "true").returncode == 0
    assert not reaches(installation, "box", origin)


@pytest.mark.box
def test_observe_mode_says_loudly_that_it_is_open(installation: Installation) -> None:
    done = installation.cli("run", "--policy", "observe", "--", "true")
    assert b"OBSERVE MODE IS OPEN" in done.stderr
    assert b"OBSERVE" not in installation.cli("run", "--", "true").stderr
