"""What was learned of a program is not asked for again, and a run that it would not understand does not begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.cli import probing
from paddock.errors import Unavailable, UserError
from tests.support import contract
from tests.support.tools import ASKED, agent, on_path, publish, put

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = pytest.mark.box
ENGINES = contract.FULL


@pytest.fixture
def bin_dir(own_installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return on_path(own_installation, tmp_path, monkeypatch)


def test_before_a_run_a_program_is_asked_once(own_installation: Installation, bin_dir: Path) -> None:
    home = own_installation
    put(bin_dir, ASKED)
    with home.sdk() as sdk:
        assert probing.ensure(sdk, agent(), ["-p", "--full", "hello"]) == "1.0.0"
        known = (home.state / "probes.json").read_bytes()
        assert probing.ensure(sdk, agent(), ["-p", "--full", "hello"]) == "1.0.0"
        assert (home.state / "probes.json").read_bytes() == known
        assert sdk.ls() == []
        put(bin_dir, ASKED.replace("--full", "--half").replace("1.0.0", "0.8.1"))
        with pytest.raises(UserError, match=r"demo 0\.8\.1 has no --full: 0\.9 and later have it"):
            probing.ensure(sdk, agent(), ["-p", "--full", "hello"])
        assert probing.ensure(sdk, agent(), ["-p", "hello"]) == "0.8.1"
        put(bin_dir, "exit 4")
        with pytest.raises(Unavailable, match="demo does not work in a box: exit code 4"):
            probing.ensure(sdk, agent(), ["-p"])
        (bin_dir / "demo").unlink()
        with pytest.raises(UserError, match="Demo is not installed"):
            probing.ensure(sdk, agent(), ["-p"])
        publish(home.state, body=ASKED)
        assert probing.ensure(sdk, agent(), ["-p", "--full"]) == "1.0.0"
