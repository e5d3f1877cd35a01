"""What .dockerignore leaves out; the table follows moby's own tests."""

from __future__ import annotations

import time

import pytest

from paddock.errors import UserError
from paddock.images.dockerignore import Dockerignore


@pytest.mark.parametrize(
    ("patterns", "path", "ignored"),
    [
        ("", "a", False),
        ("a", "a", True),
        ("a", "ab", False),
        ("a", "a/b/c", True),
        ("a", "b/a", False),
        ("/a", "a", True),
        ("a/", "a/b", True),
        ("./a", "a", True),
        ("a/../b", "b", True),
        ("# a", "a", False),
        ("  a  ", "a", True),
        ("*", "a", True),
        ("*", "a/b", True),
        ("*.go", "x.go", True),
        ("*.go", "a/x.go", False),
        ("**/*.go", "x.go", True),
        ("**/*.go", "a/b/x.go", True),
        ("**", "a/b", True),
        ("**/", "a", True),
        ("a/**", "a", False),
        ("a/**", "a/b", True),
        ("a/**", "a/b/c", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "a/x/y/c", False),
        ("**/a/**/b/*", "x/a/y/b/z", True),
        ("**/**/a", "x/y/a", True),
        ("**a", "x/a", True),
        ("a**", "abc", True),
        ("a**", "abc/d", True),
        ("a**", "bc", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a[b-d]e", "ace", True),
        ("a[b-d]e", "aae", False),
        ("a[^b-d]e", "aze", True),
        ("a[^b-d]e", "ace", False),
        ("[\\]a]", "]", True),
        ("[-]", "-", True),
        ("[x-]", "-", True),
        ("\\*", "*", True),
        ("\\*", "a", False),
        ("a\\*b", "a*b", True),
        ("a*b*c", "axbxbxc", True),
        ("a*b*c", "axbxbxd", False),
        ("*a", "aaa", True),
        ("a.b", "axb", False),
        ("(a|b)+$^", "(a|b)+$^", True),
        ("*\n!a", "a", False),
        ("*\n!a", "a/b", False),
        ("*\n!a\na/b", "a/b", True),
        ("*\n!*.md", "x.md", False),
        ("a\n!a/b", "a/b/c", False),
        ("a\n!a/b", "a/c", True),
        ("!a", "a", False),
        ("!a\n*", "a", True),
        ("..", "a", False),
        ("ü", "ü", True),
        ("line\r\n", "line", True),
    ],
)
def test_the_last_pattern_that_matches_decides(patterns: str, path: str, ignored: bool) -> None:
    assert Dockerignore(patterns.encode()).ignores(path) == ignored


@pytest.mark.parametrize("patterns", ["!", "a[", "[a", "a[z-a]", "a**b", "a**/b", "a\\"])
def test_a_pattern_that_is_malformed_is_named_with_its_line(patterns: str) -> None:
    with pytest.raises(UserError, match="line 2") as caught:
        Dockerignore(f"fine\n{patterns}".encode())
    assert caught.value.code == "dockerignore"


def test_directories_are_walked_only_where_something_is_taken_back() -> None:
    assert not Dockerignore(b"a").takes_back
    assert Dockerignore(b"a\n!a/b").takes_back


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 100 + "b", "a" * 250),
        ("**/a/" * 100 + "b", "/".join(["a"] * 1000)),
        ("**/*a*" + "/**/*a*" * 50, "x/" * 2000),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    ignore = Dockerignore(pattern.encode())
    begun = time.process_time()
    assert not ignore.ignores(path.rstrip("/"))
    assert time.process_time() - begun < 20


def test_a_file_of_too_many_patterns_is_refused() -> None:
    with pytest.raises(UserError, match="patterns"):
        Dockerignore(b"a\n" * 1001)
    with pytest.raises(UserError, match="bytes"):
        Dockerignore(b"#" * 300_000)
