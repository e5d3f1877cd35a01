"""A path has the readings that servers give it, or it is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.policy.urlpath import Ambiguous, readings
from tests.support.properties import bounded


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/", ("/",)),
        ("/repos/me/x", ("/repos/me/x",)),
        ("/a/b/", ("/a/b/",)),
        ("/v1/models/gemini:generateContent", ("/v1/models/gemini:generateContent",)),
        ("/%72epos/me", ("/repos/me",)),
        ("/a%20b", ("/a b",)),
        ("/%C3%A9", ("/é",)),
        ("/.well-known/x.y", ("/.well-known/x.y",)),
        ("/a%2f", ("/a/", "/a%2F")),
        ("/@scope%2fname", ("/@scope/name", "/@scope%2Fname")),
        ("/branches/feature%2Fx", ("/branches/feature/x", "/branches/feature%2Fx")),
    ],
)
def test_a_plain_path_is_read_without_its_escapes(path: str, read: tuple[str, ...]) -> None:
    assert readings(path) == read


@pytest.mark.parametrize(
    "path",
    [
        *("", "*", "x", "//", "/a//b", "/./a", "/a/.", "/a/..", "/../a", "/a/../b", "/...", "/a/ ../b"),
        *("/%2e%2e/a", "/%2E/a", "/a/.%2e", "/a/%2e.", "/..%2fa", "/a%2f%2e%2e%2fb", "/a%2f/b", "/%2fa"),
        *("/a;b", "/a/..;/b", "/a%3bb", "/a\\b", "/a%5cb", "/a%5C..%5Cb", "/a%00", "/a%0d%0a", "/a%7f"),
        *("/a%", "/a%2", "/a%zz", "/a%252e", "/a%25", "/a%3f", "/a%23", "/%u002e"),
        *(
            "/%c0%ae%c0%ae/a",
            "/%c0%af",
            "/%e0%80%af",
            "/%ff",
            "/%ef%bc%8e%ef%bc%8e/a",
            "/%ef%bc%8fa",
        ),  # overlong, twins
        "/" + "a" * 5000,
    ],
)
def test_a_path_that_two_servers_could_read_as_two_is_refused(path: str) -> None:  # PRX-12
    with pytest.raises(Ambiguous):
        readings(path)


@bounded
@given(st.text("/.%2eEfF5cC;\\ab0", max_size=24).map(lambda text: "/" + text))
def test_no_reading_climbs_or_is_cut(path: str) -> None:
    try:
        read = readings(path)
    except Ambiguous:
        return
    for each in read:
        parts = each.split("/")
        assert parts[0] == ""
        assert not {".", ".."} & set(parts)
        assert "" not in parts[1:-1]
        assert not {";", "\\"} & set(each)
    assert readings(read[0])[0] == read[0] or "%" in read[0]


def test_a_hostile_path_is_judged_in_no_time() -> None:
    for path in ("/" + "a" * 4000 + "\x7f", "/." * 2000, "/" + "%2f" * 1300, "/" + ".a" * 2000 + "\\"):
        with pytest.raises(Ambiguous):
            readings(path)
