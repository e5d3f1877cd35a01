"""Images in registries."""

from __future__ import annotations

import pytest

from paddock.errors import UserError
from paddock.model.remote import Remote

SUM = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("word", "whole", "local"),
    [
        ("debian", "docker.io/library/debian:latest", "debian:latest"),
        ("debian:12", "docker.io/library/debian:12", "debian:12"),
        ("team/tool:v1", "docker.io/team/tool:v1", "team/tool:v1"),
        ("example.com/team/tool", "example.com/team/tool:latest", "example.com/team/tool:latest"),
        ("example.com:5000/tool:v1", "example.com:5000/tool:v1", "example.com:5000/tool:v1"),
        ("localhost/tool:v1", "localhost/tool:v1", "tool:v1"),
        (f"debian@{SUM}", f"docker.io/library/debian@{SUM}", f"debian:sha256-{'a' * 16}"),
        (f"example.com/a:v1@{SUM}", f"example.com/a:v1@{SUM}", f"example.com/a:sha256-{'a' * 16}"),
    ],
)
def test_an_image_is_read_as_everywhere(word: str, whole: str, local: str) -> None:
    found = Remote.parse(word)
    assert (str(found), str(found.local)) == (whole, local)
    assert Remote.parse(str(found)) == found


@pytest.mark.parametrize(
    "word",
    [
        *(
            "",
            "/",
            "a/",
            "A",
            "a b",
            "example.com/",
            "example.com/A",
            "-x.com/a",
            "--flag",
            "a:b:c",
            "docker://a",
            "a\n",
        ),
        *("a@sha256:0", f"a@{SUM}@{SUM}", "a@md5:0", "exa mple.com/a", "example.com:x/a", "..", "../a.b/c"),
    ],
)
def test_what_is_none_is_refused(word: str) -> None:
    with pytest.raises(UserError, match="is no image of a registry"):
        Remote.parse(word)


def test_its_registry_is_known() -> None:
    assert Remote.parse("a").is_usual
    assert not Remote.parse("example.com/a").is_usual
    here = ("localhost/a", "localhost:5000/a", "127.0.0.1:5000/a", "127.1.2.3/a")
    assert all(Remote.parse(word).is_here for word in here)
    assert not any(Remote.parse(word).is_here for word in ("a", "localhost.example.com/a", "10.0.0.1:5000/a"))
    assert Remote.parse(f"example.com/a:v1@{SUM}").address == f"example.com/a@{SUM}"
    assert Remote.parse("example.com/a:v1").address == "example.com/a:v1"
    assert Remote.parse("example.com/a").pattern == "example.com:443"
    assert Remote.parse("localhost:5000/a").pattern == "localhost:5000"
