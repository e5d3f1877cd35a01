"""What a box is lent and may spend."""

from __future__ import annotations

import math
from typing import Any

import pytest

from paddock.errors import UserError
from paddock.model import Budget, McpServer, SshUse


@pytest.mark.parametrize("budget", [{"tokens": -1}, {"picodollars": 1 << 62}, {"seconds": math.nan}])
def test_a_budget_is_not_negative_and_not_endless(budget: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        Budget(**budget)
    assert caught.value.code == "bad-budget"


def test_a_key_of_ssh_is_a_fingerprint_for_a_port() -> None:
    key = "SHA256:" + "a" * 43
    assert SshUse(key=key, host="h").port == 22
    for wrong, port, code in (("MD5:x", 22, "bad-ssh-key"), (key, 0, "bad-port")):
        with pytest.raises(UserError) as caught:
            SshUse(key=wrong, host="h", port=port)
        assert caught.value.code == code


@pytest.mark.parametrize(
    "rest",
    [
        {},
        {"command": ("a",), "url": "https://h"},
        {"url": "https://h", "allow": ("x",)},
        {"command": ("a",), "headers": {"a": "b"}},
    ],
)
def test_a_server_is_a_command_or_a_url_and_has_what_goes_with_it(rest: dict[str, Any]) -> None:
    assert McpServer(name="db", command=("a",), workspace="ro").workspace == "ro"
    with pytest.raises(UserError) as caught:
        McpServer(name="db", **rest)
    assert caught.value.code == "bad-mcp"
