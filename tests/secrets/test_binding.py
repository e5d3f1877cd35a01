"""A binding is read whole or refused, and says nothing that it was not told."""

from __future__ import annotations

import json

import pytest

from paddock import codec
from paddock.errors import UserError
from paddock.secrets.binding import Binding, Scope, Words, bind, check_name, default_variable


def test_a_known_service_needs_no_words() -> None:
    binding = bind("github", Words())
    assert "api.github.com" in binding.hosts
    assert binding.headers == ("authorization",)
    assert binding.env == ("GH_TOKEN", "GITHUB_TOKEN")
    assert binding.git is None


def test_what_is_said_replaces_what_is_known_of_the_service() -> None:
    binding = bind("github", Words(hosts=["github.example.com"], headers=["X-Token"], env=["T"]))
    assert (binding.hosts, binding.headers, binding.env) == (("github.example.com",), ("x-token",), ("T",))


def test_a_name_of_ones_own_needs_a_host() -> None:
    with pytest.raises(UserError, match="where 'shop' may go"):
        bind("shop", Words(headers=["x-api-key"]))
    binding = bind("shop", Words(hosts=["api.shop.example"]))
    assert binding == Binding(name="shop", hosts=("api.shop.example",), env=("SHOP_API_KEY",))


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("shop", "SHOP_API_KEY"),
        ("my-shop.v2", "MY_SHOP_V2_API_KEY"),
        ("ci_token", "CI_TOKEN"),
        ("db-password", "DB_PASSWORD"),
    ],
)
def test_the_variable_of_a_name_of_ones_own_follows_from_it(name: str, variable: str) -> None:
    assert default_variable(name) == variable


@pytest.mark.parametrize(
    ("text", "host", "scheme", "port"),
    [
        ("api.example.com", "api.example.com", "https", 443),
        ("API.Example.com.", "api.example.com", "https", 443),
        ("*.example.com", "*.example.com", "https", 443),
        ("api.example.com:8443", "api.example.com", "https", 8443),
        ("https://api.example.com/", "api.example.com", "https", 443),
        ("http://api.example.com", "api.example.com", "http", 80),
        ("http://localhost:8080", "localhost:8080", "http", 8080),
    ],
)
def test_a_host_is_read_with_its_scheme_and_port(text: str, host: str, scheme: str, port: int) -> None:
    binding = bind("x", Words(hosts=[text]))
    assert (binding.hosts, binding.scheme, binding.port) == ((host,), scheme, port)


@pytest.mark.parametrize(
    "host",
    [
        "*",
        "*:443",
        "*.com",
        "10.0.0.0/8",
        "192.0.2.1:8080",
        "2001:db8::1",
        "localhost",
        "gateway.paddock",
        "api.example.com/path",
        "https://api.example.com/path",
        "ftp://api.example.com",
        "user@api.example.com",
        "api.example.com\r\nx: y",
        "",
        "https://",
    ],
)
def test_a_host_that_is_no_plain_host_is_refused(host: str) -> None:
    with pytest.raises(UserError):
        bind("x", Words(hosts=[host]))


@pytest.mark.parametrize(
    "hosts", [["a.example", "b.example:8443"], ["a.example", "http://b.example"], ["http://a.example:443", "b.example"]]
)
def test_one_secret_has_one_scheme_and_one_port(hosts: list[str]) -> None:
    with pytest.raises(UserError, match="one scheme and one port"):
        bind("x", Words(hosts=hosts))


@pytest.mark.parametrize(
    "header",
    ["", "a b", "X-Key: v", "host", "Content-Length", "transfer-encoding", "proxy-authorization", "ü", "a\r\nb"],
)
def test_a_header_that_is_none_or_that_frames_the_request_is_refused(header: str) -> None:
    with pytest.raises(UserError, match="header"):
        bind("x", Words(hosts=["a.example"], headers=[header]))


@pytest.mark.parametrize("variable", ["", "1A", "A=B", "A B", "A\0"])
def test_a_variable_that_is_none_is_refused(variable: str) -> None:
    with pytest.raises(UserError, match="not a variable"):
        bind("x", Words(hosts=["a.example"], env=[variable]))


@pytest.mark.parametrize(
    "name", ["", "A", "1a", "a b", "../a", "a/b", ".a", "a" * 65, "sk-ant-API03-xyzzy", "a\n", "ü"]
)
def test_a_name_that_is_none_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(UserError) as caught:
        check_name(name)
    assert not name.strip() or len(name) < 5 or name not in str(caught.value) + caught.value.hint


# -- repositories ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("repos", "scope"),
    [
        (["me/project"], Scope(repos=("me/project",), write=True)),
        (["me/project:ro"], Scope(repos=("me/project",), write=False)),
        (["me/project.git:ro", "me/project:ro"], Scope(repos=("me/project",), write=False)),
        (["me/a", "you/b.c"], Scope(repos=("me/a", "you/b.c"), write=True)),
    ],
)
def test_git_may_be_held_to_repositories(repos: list[str], scope: Scope) -> None:
    assert bind("github", Words(repos=repos)).git == scope


def test_a_scoped_secret_goes_where_the_scope_can_be_held() -> None:
    """The API of the service would do with the same token what git may not."""
    assert bind("github", Words(repos=["me/project"])).hosts == ("github.com",)
    assert bind("github", Words(repos=["me/project"], hosts=["git.example.com"])).hosts == ("git.example.com",)


@pytest.mark.parametrize(
    "repo",
    [
        "",
        "me",
        "me/",
        "/project",
        "me/../you",
        "me/..",
        "me/.",
        "../x",
        "me/a/b",
        "me/a b",
        "me/*",
        "me/.git",
        "me/a%2f",
    ],
)
def test_a_repository_that_is_none_is_refused(repo: str) -> None:
    with pytest.raises(UserError, match="not a repository"):
        bind("github", Words(repos=[repo]))


def test_reading_and_writing_are_not_mixed_in_one_secret() -> None:
    with pytest.raises(UserError, match="reads its repositories or writes them"):
        bind("github", Words(repos=["me/a", "me/b:ro"]))


@pytest.mark.parametrize("name", ["openai", "shop"])
def test_a_service_without_repositories_has_no_scope_unless_a_host_is_named(name: str) -> None:
    with pytest.raises(UserError, match="not a service with repositories"):
        bind(name, Words(repos=["me/a"]))


def test_a_scope_is_not_held_in_the_clear() -> None:
    with pytest.raises(UserError, match="https only"):
        bind("x", Words(repos=["me/a"], hosts=["http://git.example"]))


# -- the wire ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "binding",
    [
        bind("github", Words(repos=["me/a:ro"])),
        bind("x", Words(hosts=["http://localhost:80"], body=True, query=True, headers=["A", "b"])),
    ],
)
def test_it_comes_back_from_the_wire_as_it_went(binding: Binding) -> None:
    assert codec.from_wire(Binding, json.loads(json.dumps(codec.to_wire(binding)))) == binding


@pytest.mark.parametrize(
    "change",
    [
        {"hosts": ["*"]},
        {"hosts": []},
        {"hosts": ["API.example.com"]},
        {"hosts": ["a.example:1"]},
        {"hosts": ["a.example"] * 33},
        {"scheme": "ftp"},
        {"port": 0},
        {"port": 65536},
        {"headers": ["host"]},
        {"headers": ["X-Api-Key"]},
        {"git": {"repos": ["../x"], "write": True}},
        {"value": "x"},
        {"name": "../x"},
    ],
)
def test_what_a_file_says_is_checked_as_strictly(change: dict[str, object]) -> None:
    data = {"name": "x", "hosts": ["a.example"], **change}
    with pytest.raises(UserError):
        codec.from_wire(Binding, data)
