"""A secret that is limited to repositories goes into requests about those, and no more than was allowed of them."""

from __future__ import annotations

import pytest

from paddock.gateway.gitscope import GitScope

READ, WRITE = GitScope(repos=("me/x",)), GitScope(repos=("me/x", "group/sub/y"), write=True)
GIT, API = "github.com", "api.github.com"


@pytest.mark.parametrize(
    ("host", "method", "target"),
    [
        (GIT, "GET", "/me/x.git/info/refs?service=git-upload-pack"),
        (GIT, "GET", "/me/x/info/refs?service=git-upload-pack"),
        (GIT, "POST", "/me/x.git/git-upload-pack"),
        (GIT, "GET", "/me/x/archive/main.tar.gz"),
        ("raw.githubusercontent.com", "GET", "/me/x/main/README.md"),
        (API, "GET", "/repos/me/x"),
        (API, "HEAD", "/repos/me/x/branches/a%2Fb?page=2"),
        ("gitlab.com", "GET", "/api/v4/projects/me%2Fx/issues"),
    ],
)
def test_reading_is_within_both_scopes(host: str, method: str, target: str) -> None:
    assert READ.covers(host, method, target)
    assert WRITE.covers(host, method, target)


@pytest.mark.parametrize(
    ("host", "method", "target"),
    [
        (GIT, "GET", "/me/x.git/info/refs?service=git-receive-pack"),
        (GIT, "GET", "/me/x.git/info/refs"),
        (GIT, "POST", "/me/x.git/git-receive-pack"),
        (GIT, "POST", "/me/x.git/info/lfs/objects/batch"),
        (GIT, "POST", "/me/x/issues"),
        (API, "POST", "/repos/me/x/git/refs"),
        (API, "DELETE", "/repos/me/x"),
        ("gitlab.com", "POST", "/api/v4/projects/me%2Fx/issues"),
    ],
)
def test_writing_is_within_the_scope_that_says_so(host: str, method: str, target: str) -> None:
    assert not READ.covers(host, method, target)
    assert WRITE.covers(host, method, target)


@pytest.mark.parametrize(
    ("host", "method", "target"),
    [
        (GIT, "GET", "/me/xx.git/info/refs?service=git-upload-pack"),
        (GIT, "GET", "/you/x.git/info/refs?service=git-upload-pack"),
        (GIT, "GET", "/me/x.git/../y.git/info/refs?service=git-upload-pack"),
        (GIT, "GET", "/me/x%2f..%2fy/info/refs?service=git-upload-pack"),
        (GIT, "GET", "//me/x/info/refs?service=git-upload-pack"),
        (GIT, "GET", "/repos/me/x"),
        (GIT, "GET", "/"),
        (API, "GET", "/me/x"),
        (API, "GET", "/user"),
        (API, "POST", "/graphql"),
        (API, "GET", "/repos/me/y"),
        (API, "GET", "/repos/me/x%2f..%2fy"),
        ("gitlab.com", "GET", "/api/v4/projects/me/x/issues"),
        ("gitlab.com", "GET", "/api/v4/projects/me%2Fxx"),
    ],
)
def test_everything_else_is_within_none(host: str, method: str, target: str) -> None:
    assert not READ.covers(host, method, target)
    assert not WRITE.covers(host, method, target)


def test_a_repository_may_lie_in_groups() -> None:
    assert WRITE.covers("gitlab.com", "POST", "/group/sub/y.git/git-receive-pack")
    assert not GitScope(repos=()).covers(GIT, "GET", "/me/x")
