"""Names of templates."""

from __future__ import annotations

import pytest

from paddock.errors import UserError
from paddock.model.reference import Reference, is_path


@pytest.mark.parametrize(
    ("word", "name", "tag"),
    [
        ("base", "base", "latest"),
        ("my-team:v1", "my-team", "v1"),
        ("a.b/c__d/e:V_1.0-x", "a.b/c__d/e", "V_1.0-x"),
        ("example.com:5000/team", "example.com:5000/team", "latest"),
        ("example.com:5000/team:v1", "example.com:5000/team", "v1"),
        ("docker.io/library/debian:12", "debian", "12"),
        ("docker.io/team/tool", "team/tool", "latest"),
        ("localhost/made:v1", "made", "v1"),
        ("localhost:5000/made:v1", "localhost:5000/made", "v1"),
    ],
)
def test_a_name_has_a_tag_said_or_not(word: str, name: str, tag: str) -> None:
    found = Reference.parse(word)
    assert found == Reference(name=name, tag=tag)
    assert str(found) == f"{name}:{tag}"
    assert Reference.parse(str(found)) == found


@pytest.mark.parametrize(
    "word",
    [
        *("", ":", ":v1", "a:", "A", "a:b:c", "-a", "a-", "a//b", "/a", "a/", "../a", "a b", "a\n", "a:v1\n", "a:é"),
        *("a" * 256, "a:" + "x" * 129, "a@sha256:" + "0" * 64, "localhost/", "docker.io/", "a:-x", "x:99999999/y"),
    ],
)
def test_what_is_no_name_is_refused(word: str) -> None:
    with pytest.raises(UserError, match="is no name of a template") as caught:
        Reference.parse(word)
    assert caught.value.code == "bad-template"


def test_a_place_is_written_as_one() -> None:
    places = ("/a", "./a", "../a", ".", "..", "~/a", "~user/a")
    assert all(map(is_path, places))
    assert not any(map(is_path, ("a", "a/b", "image.tar", ".a", "a:v1", "")))
