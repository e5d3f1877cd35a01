"""What boxes have of the host besides their own directories."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import hostview, toolchains
from paddock.engines.process.hostview import HostView
from paddock.model import Mount
from tests.support.engine import placed

if TYPE_CHECKING:
    from pathlib import Path


def _view(host: Path) -> HostView:
    return HostView(f"{host}/state/view", uid=1000, gid=1000)


def test_the_environment_is_the_boxs_own(host: Path) -> None:
    view = _view(host)
    found = view.environment(placed(host, caller_path="/usr/bin:/nonexistent:relative", caller_home="/nonexistent"))
    assert (found["HOME"], found["USER"], found["PADDOCK_BOX"]) == ("/home/agent", "agent", "one")
    path = found["PATH"].split(":")
    assert path[0] == "/run/paddock/bin"
    assert len(path) == len(set(path))
    assert "/nonexistent" not in path
    assert {"PATH", "HOME", "TMPDIR", "SHELL", "LANG", "TERM"} <= set(found)


def test_the_programs_of_tools_are_first_on_the_path(host: Path) -> None:
    tool = Mount(source="/x", target="/opt/paddock/demo", read_only=True)
    found = _view(host).environment(replace(placed(host, caller_path="/usr/bin"), tools=(tool,)))
    assert found["PATH"].split(":")[:2] == ["/opt/paddock/demo/bin", "/run/paddock/bin"]


def test_commands_are_told_of_the_boxs_authorities_when_it_has_some(host: Path) -> None:
    view = _view(host)
    names = (
        *("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
        *("CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "CODEX_CA_CERTIFICATE", "PIP_CERT"),
    )
    assert not set(names) & set(view.environment(placed(host)))
    (host / "boxes/one/net").mkdir()
    (host / "boxes/one/net/bundle.pem").touch()
    found = view.environment(placed(host))
    assert {found[name] for name in names} == {"/run/paddock/ca-bundle.pem"}


def test_what_all_boxes_share_is_looked_at_again_after_a_moment(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostview, "_VIEW_FRESH_S", 60.0)
    view = _view(host)
    first = view.shared()
    assert all(os.path.isdir(path) for path in first)
    assert first[0].startswith(f"{host}/state/view/etc")
    with monkeypatch.context() as patch:
        patch.setattr("paddock.engines.process.etc.prepare", _never)
        assert view.shared() == first
    shutil.rmtree(first[0])
    assert os.path.isdir(view.shared()[0]), "somebody deleted it"
    monkeypatch.setattr(hostview, "_VIEW_FRESH_S", 0.0)
    monkeypatch.setattr("paddock.engines.process.etc.prepare", _never)
    with pytest.raises(AssertionError):
        view.shared()
    assert repr(view) == f"<HostView {host}/state/view>"


def test_toolchains_are_of_the_caller_and_found_once_in_a_while(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostview, "_TOOLCHAINS_FRESH_S", 60.0)
    view = _view(host)
    first = view.toolchains("/usr/bin", "/nonexistent")
    with monkeypatch.context() as patch:
        patch.setattr(toolchains, "find", _never)
        assert view.toolchains("/usr/bin", "/nonexistent") is first
    assert view.toolchains("/bin", "/nonexistent") is not first
    monkeypatch.setattr(hostview, "_TOOLCHAINS_FRESH_S", 0.0)
    assert view.toolchains("/usr/bin", "/nonexistent") is not first


def _never(*_: object, **_named: object) -> None:
    raise AssertionError("it was looked at a moment ago")
