"""The SDK's policies on blocking calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.errors import UserError
from paddock.model import Network, NetworkRule
from tests.support.origin import ANSWER

if TYPE_CHECKING:
    from paddock.client import Paddock
    from tests.support.installation import Installation
    from tests.support.origin import Origin


@pytest.mark.box
def test_a_box_has_the_network_it_was_made_with(paddock: Paddock, installation: Installation, origin: Origin) -> None:
    workspace = str(installation.workspace)
    allowed = Network(rules=(NetworkRule(action="allow", pattern=origin.rule),))
    assert paddock.run(origin.fetch(), workspace=workspace, network=allowed).stdout == ANSWER
    assert not paddock.run(origin.fetch(), workspace=workspace).ok
    with paddock.create("box", workspace=workspace, network=allowed) as box:
        assert box.exec(origin.fetch()).stdout == ANSWER
        assert box.info.network == "rules"
        paddock.policy.remove([origin.rule], "box")
        assert not box.exec(origin.fetch()).ok
        assert paddock.policy.show("box").layers[-1].rules == ()
        (log,) = paddock.policy.logs("box")
        assert log.box == "box"


@pytest.mark.box
def test_what_makes_no_sense_is_refused(paddock: Paddock) -> None:
    for act in (
        lambda: paddock.policy.check("not a host"),
        lambda: paddock.policy.show("nobox"),
        lambda: paddock.policy.answer("nothing", "box"),
        lambda: paddock.policy.suggest("nobox"),
    ):
        with pytest.raises(UserError):
            act()
