from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import Unavailable, UserError
from paddock.policy import edit, positions
from paddock.policy.files import parse_policy_toml
from tests.support.properties import bounded, patient

TEXT = """# mine
allow = [
    "a.com",  # one
    "b.com"
]
deny = ["c.com", 'D.com']  # ads
default = "deny"
"""


@pytest.mark.parametrize(
    ("text", "key", "pattern", "wanted"),
    [
        ("", "allow", "x.com", 'allow = ["x.com"]\n'),
        ("allow = []\n", "allow", "x.com", 'allow = ["x.com"]\n'),
        ("allow = ['a.com']\n", "allow", "x.com", "allow = ['a.com', \"x.com\"]\n"),
        ("allow = ['a.com',]\n", "allow", "x.com", "allow = ['a.com', \"x.com\",]\n"),
        ("# top\ndefault = 'deny'\n", "deny", "x.com", "deny = [\"x.com\"]\n# top\ndefault = 'deny'\n"),
        (TEXT, "allow", "x.com", TEXT.replace('"b.com"\n', '"b.com",\n    "x.com"\n')),
        (TEXT, "allow", "a.com", TEXT),
        (TEXT, "allow", "d.com", TEXT.replace('"b.com"\n', '"b.com",\n    "d.com"\n').replace(", 'D.com'", ", ")),
        (TEXT, "deny", "a.com", TEXT.replace('    "a.com",  # one\n', "").replace("'D.com'", "'D.com', \"a.com\"")),
        (TEXT, "bypass", "x.com", 'bypass = ["x.com"]\n' + TEXT),
    ],
)
def test_a_pattern_is_added_and_the_rest_stays(text: str, key: edit.List, pattern: str, wanted: str) -> None:
    assert edit.add(text, "p", key, pattern) == wanted


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("a.com", TEXT.replace('    "a.com",  # one\n', "")),
        ("b.com", TEXT.replace('    "b.com"\n', "")),
        ("c.com", TEXT.replace('"c.com", ', " ")),
        ("d.com", TEXT.replace(", 'D.com'", ", ")),
        ("x.com", TEXT),
    ],
)
def test_a_pattern_is_removed_and_the_rest_stays(pattern: str, wanted: str) -> None:
    assert edit.remove(TEXT, "p", pattern) == wanted


def test_a_broken_file_is_not_touched() -> None:
    with pytest.raises(UserError):
        edit.add("allow = [", "p", "allow", "a.com")
    with pytest.raises(UserError):
        edit.add(TEXT, "p", "allow", "a..com")


def test_a_change_that_went_wrong_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit, "positions", lambda text: {})
    with pytest.raises(Unavailable):
        edit.remove(TEXT, "p", "a.com")
    assert positions.positions(TEXT)


LISTS = st.lists(st.sampled_from(["a.com", "b.com", "*.c.com", "localhost:80"]), max_size=4)


@bounded
@patient
@given(LISTS, LISTS, st.sampled_from(["allow", "deny", "bypass"]), st.sampled_from(["a.com", "localhost:80", "z.com"]))
def test_a_change_says_what_was_wanted(allow: list[str], deny: list[str], key: edit.List, pattern: str) -> None:
    listed = ",\n  ".join(map(repr, allow))
    text = f"allow = [\n  {listed}\n]\ndeny = {deny!r}\n" if allow else f"deny = {deny!r}\n"
    before = parse_policy_toml(text, "p")
    pairs = [
        (edit.add(text, "p", key, pattern), before.saying(key, pattern)),
        (edit.remove(text, "p", pattern), before.without(pattern)),
    ]
    for changed, wanted in pairs:
        assert set(parse_policy_toml(changed, "p").rules()) == set(wanted.rules())


@pytest.mark.parametrize(
    ("text", "action", "word", "wanted"),
    [
        ("", "allow", "POST,GET a.com/x/**", 'allow-requests = ["GET,POST a.com/x/**"]\n'),
        ("allow-requests = ['GET a.com']\n", "allow", "GET A.com", "allow-requests = ['GET a.com']\n"),
        (
            "allow-requests = ['GET a.com']\n",
            "deny",
            "GET a.com",
            'deny-requests = ["GET a.com"]\nallow-requests = []\n',
        ),
        ("bypass = ['a.com']\n", "deny", "GET a.com/x", 'deny-requests = ["GET a.com/x"]\nbypass = []\n'),
        ("deny = ['a.com', 'b.com']\n", "allow", "* a.com/x", "allow-requests = [\"* a.com/x\"]\ndeny = [ 'b.com']\n"),
        ("deny = ['a.com']\n", "deny", "GET a.com", "deny-requests = [\"GET a.com\"]\ndeny = ['a.com']\n"),
    ],
)
def test_a_rule_about_requests_is_added_and_what_would_make_it_void_goes(
    text: str, action: edit.Action, word: str, wanted: str
) -> None:
    assert edit.add_request(text, "p", action, word) == wanted


def test_a_rule_about_requests_is_removed_by_itself_or_with_its_host() -> None:
    text = "allow = ['a.com']\nallow-requests = ['GET a.com', 'GET a.com/x', 'GET b.com']\n"
    assert edit.remove(text, "p", "GET a.com") == text.replace("'GET a.com', ", " ")
    assert edit.remove(text, "p", "a.com") == "allow = []\nallow-requests = [  'GET b.com']\n"
    assert edit.remove(text, "p", "PUT a.com") == text
    with pytest.raises(UserError, match="is bypassed and has rules about requests"):
        edit.add(text, "p", "bypass", "b.com")
