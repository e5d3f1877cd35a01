"""Rules go to other programs and come back; what is not understood is an error with its line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock.cli import exchange
from paddock.errors import UserError
from tests.support.origin import ANSWER

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation
    from tests.support.origin import Origin


@pytest.mark.parametrize(
    ("name", "layout", "code"),
    [("x.txt", "", "bad-import"), ("x", "nonsense", "usage"), ("x", "paddock", "bad-policy")],
)
def test_a_file_of_no_known_kind_is_refused(name: str, layout: str, code: str) -> None:
    with pytest.raises(UserError) as caught:
        exchange._parse("{", name, layout)
    assert caught.value.code == code


def test_what_a_file_says_becomes_flags() -> None:
    text = 'default = "allow"\non-deny = "ask"\npresets = ["github"]\nallow = ["A.example"]\nbypass = ["b.example"]\n'
    network = exchange._network(exchange._parse(text, "policy.toml", "").statement)
    assert (network.default, network.on_deny, network.presets) == ("allow", "ask", ("github",))
    assert [(rule.action, rule.pattern, rule.bypass) for rule in network.rules] == [
        ("allow", "a.example", False),
        ("allow", "b.example", True),
    ]


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError) as caught:
        exchange._read(str(tmp_path / name))
    assert str(tmp_path) in caught.value.message


@pytest.mark.box
@pytest.mark.parametrize("layout", ["paddock", "docker"])
def test_what_is_exported_can_be_imported_by_another_box(
    installation: Installation, origin: Origin, layout: str
) -> None:
    words = ["--allow-host", "a.example", "--block-host", "*.b.example", "--allow-host", origin.rule]
    assert installation.cli("create", "from", *words).returncode == 0
    done = installation.cli("policy", "export", "--format", layout, "from")
    assert done.returncode == 0, done.stderr
    file = installation.workspace / ("rules.toml" if layout == "paddock" else "proxy-config.json")
    file.write_bytes(done.stdout)
    assert installation.cli("create", "to").returncode == 0
    assert installation.cli("exec", "to", *origin.fetch()).returncode != 0
    done = installation.cli("policy", "import", "--box", "to", str(file))
    assert done.returncode == 0, done.stderr
    assert b"allow a.example" in done.stdout
    assert installation.cli("policy", "check", "--box", "to", "a.example").returncode == 0
    assert installation.cli("policy", "check", "--box", "to", "x.b.example").returncode == 77
    if layout == "paddock":
        assert installation.cli("exec", "to", *origin.fetch()).stdout == ANSWER


@pytest.mark.box
def test_dockers_file_is_read_and_an_unknown_key_is_named(installation: Installation) -> None:
    assert installation.cli("create", "box").returncode == 0
    good = {"policy": {"default": "deny"}, "network": {"allowedDomains": ["a.example"], "blockedCIDRs": ["10.0.0.0/8"]}}
    file = installation.workspace / "proxy-config.json"
    file.write_text(json.dumps(good))
    assert installation.cli("policy", "import", "--box", "box", str(file)).returncode == 0
    assert installation.cli("policy", "check", "--box", "box", "a.example").returncode == 0
    file.write_text('{\n"policy": {"default": "deny"},\n"network": {"alowedDomains": []}}')
    done = installation.cli("policy", "import", "--box", "box", str(file))
    assert (done.returncode, b"proxy-config.json:3: " in done.stderr) == (2, True)
