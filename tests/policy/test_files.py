from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import limits
from paddock.errors import UserError
from paddock.policy.files import digest, parse_policy_toml, parse_project_toml
from paddock.policy.rules import Default, OnDeny, Source, SourceKind
from tests.support.properties import bounded, patient

WHOLE = """
# Mine.
default = "observe"
on-deny = "ask"
presets = ["github"]
allow = [
    "*.Example.com",  # the whole
    "localhost:5432",
]
deny = ["ads.example.com"]
bypass = ["pinned.example.com:443"]
"""


def test_a_policy_file_says_what_it_says() -> None:
    statement = parse_policy_toml(WHOLE, "/home/me/policy.toml")
    assert statement.source == Source(SourceKind.USER, "/home/me/policy.toml")
    assert (statement.default, statement.on_deny) == (Default.OBSERVE, OnDeny.ASK)
    assert statement.presets == ("github",)
    assert statement.allow == ("*.example.com", "localhost:5432")
    assert statement.deny == ("ads.example.com",)
    assert statement.bypass == ("pinned.example.com:443",)


def test_an_empty_file_says_nothing() -> None:
    statement = parse_policy_toml("", "/etc/paddock/policy.toml", SourceKind.ORGANISATION)
    assert statement.source.kind is SourceKind.ORGANISATION
    assert statement.default is None
    assert list(statement.rules()) == []


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("allow = []\nallowed = []", 2, "unknown key 'allowed'"),
        ("[network]\nallow = []", 1, "unknown key 'network'"),
        ("\n\n[a.b]\nc = 1", 3, "unknown key 'a'"),
        ("on_deny = 'ask'", 1, "unknown key 'on_deny'"),
        ("\ndefault = 'open'", 2, "default must be one of deny, allow, observe"),
        ("default = true", 1, "default must be one of"),
        ("on-deny = 'perhaps'", 1, "on-deny must be one of deny, ask"),
        ("allow = 'a.com'", 1, "allow must be a list"),
        ("allow = [\n  'a.com',\n  7,\n]", 3, "allow must be a list of strings"),
        ("allow = [\n  'a.com',\n\n  'b..com', 'c.com'\n]", 4, "'b..com' is not a pattern"),
        ("deny = ['a.com',\n'''\nb\n''']", 2, "is not a pattern"),
        ("presets = [\n'github',\n'nothing']", 3, "there is no preset 'nothing'"),
        ("bypass = [['a.com']]", 1, "bypass must be a list of strings"),
        ("allow = [\n", 1, "Invalid"),
        ("a = 1\na = 2", 2, "Cannot overwrite"),
        ("x\0 = 1", 1, ""),
        ("'evil\\u001b[2J' = 1", 1, "unknown key"),
        ("allow = " + "[" * 100_000, 1, "nested"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(text: str, line: int, said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_policy_toml(text, "/p/policy.toml")
    assert caught.value.message.startswith(f"/p/policy.toml:{line}: ")
    assert said in caught.value.message
    assert "\x1b" not in caught.value.message


def test_a_file_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POLICY_FILE_BYTES", 20)
    with pytest.raises(UserError) as caught:
        parse_policy_toml("# " + "x" * 20, "p")
    assert caught.value.code == "policy-size"


def test_a_project_speaks_in_its_own_table() -> None:
    statement = parse_project_toml("[network]\ndefault = 'deny'\nallow = ['a.com']\n", "/w/paddock.toml")
    assert statement is not None
    assert statement.source == Source(SourceKind.PROJECT, "/w/paddock.toml")
    assert statement.default is Default.DENY
    assert statement.allow == ("a.com",)
    assert parse_project_toml("", "/w/paddock.toml") is None


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[network]\non-deny = 'ask'", 2, "unknown key 'on-deny'"),
        ("[network]\ndefault = 'allow'", 2, "a project may only deny by default"),
        ("[network]\n\ndefault = 'observe'", 3, "a project may only deny by default"),
        ("[networks]\nallow = []", 1, "unknown key 'networks'"),
        ("allow = ['a.com']", 1, "unknown key 'allow'"),
        ("network = 1", 1, "network must be a table"),
        ("\n[[network]]\nallow = []", 2, "network must be a table"),
        ("[network]\nallow = [\n'a.com',\n'?']", 4, "'?' is not a pattern"),
        ("network.allow = ['?']", 1, "'?' is not a pattern"),
        ("network = { allow = ['a.com', '?'] }", 1, "'?' is not a pattern"),
    ],
)
def test_a_mistake_of_a_project_is_named_with_file_and_line(text: str, line: int, said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_project_toml(text, "paddock.toml")
    assert caught.value.message.startswith(f"paddock.toml:{line}: ")
    assert said in caught.value.message


def test_an_approval_is_bound_to_what_is_said_not_to_how() -> None:
    first = parse_project_toml("[network]\nallow = ['a.com', 'b.com']", "x")
    again = parse_project_toml("# new\n[network]\nallow = [\n  'A.com',\n  'b.com',\n]", "y")
    assert first is not None
    assert again is not None
    assert digest(first) == digest(again)
    assert re.fullmatch("[0-9a-f]{64}", digest(first))
    others = [
        replace(first, allow=("a.com",)),
        replace(first, deny=("c.com",)),
        replace(first, bypass=("c.com",)),
        replace(first, presets=("github",)),
        replace(first, default=Default.DENY),
    ]
    assert len({digest(one) for one in (first, *others)}) == 6


@bounded
@patient
@given(st.text() | st.text(alphabet="allow=[]'\"\n#.{},defut", max_size=60))
def test_any_text_is_a_policy_or_refused_with_its_line(text: str) -> None:
    for parse in (parse_policy_toml, parse_project_toml):
        try:
            parse(text, "p.toml")
        except UserError as error:
            if not re.match(r"p\.toml:[0-9]+: ", error.message):
                raise


def test_rules_about_requests_are_read_and_counted_in_an_approval() -> None:
    text = '[network]\nallow-requests = ["POST,GET a.com/x"]\ndeny-requests = ["* a.com/y"]\n'
    said = parse_project_toml(text, "p")
    assert said is not None
    assert (said.allow_requests, said.deny_requests) == (("GET,POST a.com/x",), ("* a.com/y",))
    without = replace(said, deny_requests=())
    assert len({digest(said), digest(without), digest(replace(without, allow_requests=()))}) == 3


@pytest.mark.parametrize(
    ("text", "line", "code"),
    [
        ('allow = []\nallow-requests = ["get a.com"]', 2, "bad-request-rule"),
        ('deny-requests = ["GET a.com/%41"]', 1, "bad-request-rule"),
        ('allow-requests = ["GET a.com"]\nbypass = ["a.com"]', 1, "bad-policy"),
    ],
)
def test_a_rule_about_requests_that_cannot_be_names_file_and_line(text: str, line: int, code: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_policy_toml(text, "p")
    assert (caught.value.message.startswith(f"p:{line}: "), caught.value.code) == (True, code)
