"""Names and variables are what every place that they go to takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import limits
from paddock.errors import UserError
from paddock.model import check_env, check_name


@pytest.mark.parametrize("name", ["a", "7", "claude-app", "a.b_c-d", "x" * limits.NAME_CHARS, "lock", "a.locks"])
def test_a_plain_name_is_a_box_name(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * (limits.NAME_CHARS + 1),
        "A",
        "é",
        "a b",
        "a/b",
        "a\0",
        "a\n",
        "-a",
        "a-",
        ".a",
        "a.",
        "_a",
        "a..b",
        "~",
        "a.lock",
    ],
)
def test_anything_else_is_no_box_name(name: str) -> None:
    with pytest.raises(UserError, match="is not a box name") as caught:
        check_name(name)
    assert (caught.value.code, bool(caught.value.hint)) == ("bad-name", True)


@given(st.text(alphabet="abz09_.-/A\n\0é", max_size=70))
def test_a_box_name_is_safe_wherever_it_is_put(name: str) -> None:
    try:
        check_name(name)
    except UserError:
        return
    assert name.isascii()
    assert name == name.lower()
    assert not set(name) & set("/\0\n ~")
    assert ".." not in name
    assert name[0].isalnum()
    assert name[-1].isalnum()


@pytest.mark.parametrize(
    "env", [{}, {"A": ""}, {"_a1": "x=y\n"}, {"A": "é"}, {"A": "\udcff"}, {"A": "v" * (limits.ENV_BYTES - 1)}]
)
def test_an_environment_execve_takes_is_taken(env: dict[str, str]) -> None:
    assert check_env(env) is env


@pytest.mark.parametrize(
    "env",
    [
        {"": "x"},
        {"1A": "x"},
        {"A=B": "x"},
        {"A\n": "x"},
        {"É": "x"},
        {"A": "a\0b"},
        {"A": "\ud800"},
        {"A": "v" * limits.ENV_BYTES},
        {"A": "é" * (limits.ENV_BYTES // 2)},
        {f"A{n}": "" for n in range(limits.ENV_ENTRIES + 1)},
    ],
    ids=lambda env: ascii(env)[:20],
)
def test_an_environment_execve_would_not_take_is_refused(env: dict[str, str]) -> None:
    with pytest.raises(UserError) as caught:
        check_env(env)
    assert caught.value.code == "bad-env"
