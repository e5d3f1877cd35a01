"""What git in a box is told: which hosts it has a placeholder for, and nothing for others."""

from __future__ import annotations

import subprocess

import pytest

from paddock.secrets.binding import Words, bind
from paddock.secrets.githelper import HELPER, VARIABLE, words

GITHUB, SHOP = bind("github", Words()), bind("shop", Words(hosts=["*.git.example:8443"]))


def answered(asked: str, told: str, verb: str = "get") -> list[str]:
    """The helper as git starts it."""
    argv = ["sh", "-c", f"{HELPER.removeprefix('!')} {verb}"]
    env = {"PATH": "/usr/bin:/bin", VARIABLE: told}
    done = subprocess.run(argv, input=asked, env=env, cwd="/", capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("name", "said", "expected"),
    [
        ("github", Words(), "https://github.com=P"),
        ("github", Words(repos=["me/x"]), "https://github.com=P"),
        ("github", Words(hosts=["ghe.corp.example"]), "https://ghe.corp.example=P"),
        ("shop", Words(hosts=["git.example:8443"]), "https://git.example:8443=P"),
        ("shop", Words(hosts=["http://git.example"]), "http://git.example=P"),
        ("shop", Words(hosts=["localhost:3000"]), "https://localhost:3000=P"),
        ("shop", Words(hosts=["git.example"], headers=["X-Key"]), ""),
        ("anthropic", Words(), ""),
        ("npm", Words(), ""),
    ],
)
def test_git_is_told_of_the_hosts_where_repositories_are(name: str, said: Words, expected: str) -> None:
    assert words([(bind(name, said), "P")]) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("protocol=https\nhost=github.com\n", ["username=x-access-token", "password=one"]),
        ("protocol=https\nhost=github.com\nusername=me\n", ["username=me", "password=one"]),
        ("protocol=https\nhost=a.git.example:8443\n", ["username=x-access-token", "password=two"]),
        ("protocol=https\nhost=a.git.example\n", []),
        ("protocol=https\nhost=evilgit.example:8443\n", []),
        ("protocol=http\nhost=github.com\n", []),
        ("protocol=https\nhost=github.com.evil.example\n", []),
        ("protocol=https\nhost=evil-github.com\n", []),
        ("protocol=https\nhost=$(echo github.com)\n", []),
        ("host=github.com\n", []),
        ("", []),
    ],
)
def test_the_helper_answers_for_those_alone(asked: str, expected: list[str]) -> None:
    assert answered(asked, words([(GITHUB, "one"), (SHOP, "two")])) == expected


def test_the_helper_keeps_and_forgets_nothing_and_is_silent_without_secrets() -> None:
    asked = "protocol=https\nhost=github.com\n"
    for verb in ("store", "erase", ""):
        assert answered(asked, words([(GITHUB, "one")]), verb) == []
    assert answered(asked, "") == []
