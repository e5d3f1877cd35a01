"""The programs that start containers."""

from __future__ import annotations

import pytest

from paddock.engines.container import runtimes
from paddock.errors import Unavailable, UserError


def test_a_runtime_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UserError, match="'docker' is not known") as caught:
        runtimes.find("docker")
    assert "crun" in caught.value.hint


def test_one_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "_PATH", "/nonexistent")
    with pytest.raises(Unavailable, match="crun nor runc is not installed"):
        runtimes.find()
    with pytest.raises(Unavailable, match="runc is not installed") as caught:
        runtimes.find("runc")
    assert caught.value.hint == "install one, as by `apt install runc`"


@pytest.mark.parametrize("name", runtimes.NAMES)
def test_each_is_told_where_its_bundle_lies_and_what_it_passes_on(name: str) -> None:
    argv = runtimes._KNOWN[name].argv(f"/usr/bin/{name}", "/tmp")
    assert argv[:3] == (f"/usr/bin/{name}", "--root", "/tmp/state")
    assert argv[argv.index("--preserve-fds") + 1] == "2"
    assert "--detach" in argv
