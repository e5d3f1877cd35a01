"""The SDK's policies: each call is one request, and each answer a value."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from paddock.client import AsyncPaddock
from paddock.model import Network, NetworkRule
from tests.support.origin import ANSWER

if TYPE_CHECKING:
    from tests.support.installation import Installation
    from tests.support.origin import Origin


@pytest.mark.box
def test_rules_are_changed_and_shown_on_an_event_loop(installation: Installation, origin: Origin) -> None:
    async def act() -> None:
        async with AsyncPaddock(home=str(installation.home)) as paddock:
            box = await paddock.create("box", workspace=str(installation.workspace))
            assert not (await box.exec(origin.fetch())).ok
            info = await box.set_network(Network(rules=(NetworkRule(action="allow", pattern=origin.rule),)))
            assert (info.box, info.network) == ("box", "rules")
            assert (await box.exec(origin.fetch())).stdout == ANSWER
            assert (await paddock.policy.check(origin.rule, "box")).allowed
            assert not (await paddock.policy.check(origin.rule)).allowed
            assert await paddock.policy.pending() == []
            await box.remove(force=True)

    asyncio.run(act())
