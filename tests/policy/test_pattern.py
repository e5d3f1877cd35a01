from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import UserError
from paddock.policy.host import Host
from paddock.policy.pattern import Pattern
from tests.support.hostile_hosts import hostile_hosts
from tests.support.properties import bounded, patient


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("example.com", "example.com"),
        ("Example.COM.", "example.com"),
        ("example.com:443", "example.com:443"),
        ("*.Example.com", "*.example.com"),
        ("*.example.com:443", "*.example.com:443"),
        ("*.com", "*.com"),
        ("*", "*"),
        ("*:443", "*:443"),
        ("localhost:5432", "localhost:5432"),
        ("127.0.0.1:5432", "localhost:5432"),
        ("[::1]:5432", "localhost:5432"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.2:80", "127.0.0.2:80"),
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:80", "192.0.2.1:80"),
        ("192.0.2.1/32", "192.0.2.1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:80", "[2001:db8::1]:80"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.0/8:5432", "10.0.0.0/8:5432"),
        ("fd00::/8", "fd00::/8"),
        ("[fd00::/8]:443", "[fd00::/8]:443"),
        ("FC00::/7", "fc00::/7"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("::/0", "::/0"),
        ("::1/128", "::1"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_a_pattern_has_one_spelling(text: str, canonical: str) -> None:
    assert Pattern.parse(text).text == canonical
    assert Pattern(canonical) == Pattern(text)
    assert str(Pattern(text)) == canonical


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", ""),
        ("localhost", "localhost:PORT"),
        ("LOCALHOST.", "localhost:PORT"),
        ("*.localhost", "no matter of rules"),
        ("app.localhost:80", "no matter of rules"),
        ("gateway.paddock", "no matter of rules"),
        ("*.paddock", "no matter of rules"),
        ("paddock:80", "no matter of rules"),
        ("host.docker.internal:80", "localhost:PORT"),
        ("**.example.com", ""),
        ("*example.com", ""),
        ("api.*.example.com", ""),
        ("example.*", ""),
        ("*.", ""),
        ("*.10.0.0.1", "10.0.0.0/8"),
        ("*.1", ""),
        ("example.com:*", "1 to 65535"),
        ("example.com:0", "1 to 65535"),
        ("example.com:https", "1 to 65535"),
        ("example.com:", "1 to 65535"),
        ("*:0443", "1 to 65535"),
        ("https://example.com", ""),
        ("example.com/path", ""),
        ("10.0.0.1/8", "10.0.0.0/8"),
        ("10.0.0.0/33", ""),
        ("10.0.0.0/08", ""),
        ("10.0.0.0/255.0.0.0", ""),
        ("10.0/8", ""),
        ("fd00::1/8", "fd00::/8"),
        ("fd00::/129", ""),
        ("[10.0.0.0/8]:80", "brackets"),
        ("[example.com]:80", "brackets"),
        ("[::1", "brackets"),
        ("fe80::1%lo", ""),
        ("bücher.example", ""),
        ("user@example.com", ""),
        ("a" * 400, "too long"),
        ("evil.test\0.example.com", ""),
        ("127.1:80", ""),
    ],
)
def test_what_is_no_pattern_is_refused_with_a_way_out(text: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        Pattern.parse(text)
    assert caught.value.code == "bad-pattern"
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("wide", "narrow", "covers"),
    [
        ("*", "a.com:1", True),
        ("*", "10.0.0.0/8", True),
        ("*:443", "a.com:443", True),
        ("*:443", "a.com", False),
        ("a.com", "a.com:443", True),
        ("a.com:443", "a.com", False),
        ("*.a.com", "b.a.com", True),
        ("*.a.com", "*.b.a.com:1", True),
        ("*.a.com", "*.a.com", True),
        ("*.a.com", "a.com", False),
        ("*.a.com", "ba.com", False),
        ("*.b.a.com", "*.a.com", False),
        ("a.com", "*.a.com", False),
        ("a.com", "b.com", False),
        ("10.0.0.0/8", "10.1.0.0/16:80", True),
        ("10.1.0.0/16", "10.0.0.0/8", False),
        ("10.0.0.0/8", "a.com", False),
        ("fd00::/8", "fd00::1", True),
        ("::/0", "10.0.0.1", False),
        ("a.com", "10.0.0.1", False),
    ],
)
def test_a_pattern_covers_what_lies_within_it(wide: str, narrow: str, covers: bool) -> None:
    assert Pattern(wide).covers(Pattern(narrow)) is covers


@pytest.mark.parametrize(
    ("pattern", "host", "port", "named"),
    [
        ("a.com", "a.com", 443, True),
        ("a.com", "b.a.com", 443, False),
        ("a.com:443", "a.com", 80, False),
        ("*.a.com", "b.a.com", 1, True),
        ("*.a.com", "a.com", 1, False),
        ("*.a.com", "ba.com", 1, False),
        ("*", "a.com", 1, True),
        ("*", "10.0.0.1", 1, False),
        ("10.0.0.0/8", "10.0.0.1", 1, False),
    ],
)
def test_a_pattern_names_hosts_by_name_only(pattern: str, host: str, port: int, named: bool) -> None:
    assert Pattern(pattern).names(Host(host), port) is named


@bounded
@patient
@given(st.text(max_size=60) | st.text(alphabet="a1*.:/[]", max_size=20))
def test_any_text_is_a_pattern_with_a_stable_spelling_or_refused(text: str) -> None:
    check(text)


def test_hostile_hosts_make_no_hostile_patterns() -> None:
    for text in hostile_hosts(5_000, 2):
        for spelled in (text, f"*.{text}", f"{text}:443", f"[{text}]:443", f"{text}/8"):
            check(spelled)


def check(text: str) -> None:
    try:
        pattern = Pattern(text)
    except UserError as error:
        if error.code != "bad-pattern":
            raise
        return
    assert pattern.text.isascii()
    assert Pattern(pattern.text) == pattern
    assert pattern.covers(pattern)
