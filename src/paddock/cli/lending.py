"""--secret, and what is said of it: which secrets a box may use, and which are new to one that exists."""

from __future__ import annotations

from paddock.cli.main import tell
from paddock.client import lending
from paddock.client.lending import lend, own_values
from paddock.secrets import stored

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from paddock.agents import Agent
    from paddock.client import Paddock
    from paddock.model import BoxInfo, Lent, SecretUse


def of(paddock: Paddock, options: argparse.Namespace) -> Lent:
    """What --secret says, told to whoever asked."""
    lent = lend(options.secret, paddock.paths)
    tell(lent.said, options)
    return lent


def with_key(paddock: Paddock, options: argparse.Namespace, agent: Agent, lent: Lent, has: Sequence[SecretUse]) -> Lent:
    """What was lent, and a key of the agent's; told as if it had been asked for."""
    lent = lending.with_key(agent, lent, paddock.paths, has)
    tell(lent.said, options)
    return lent


def again(paddock: Paddock, box: BoxInfo, lent: Lent, options: argparse.Namespace) -> None:
    """A box that exists gets what is new, and what your environment has now: another shell may have lent it."""
    given = {**own_values(box.secrets, paddock.paths), **lent.given}
    if given or lent.uses:
        paddock.call("secrets_lend", box=box.id, uses=lent.uses, given=given)
        say_new(box, lent, options)


def say_new(box: BoxInfo, lent: Lent, options: argparse.Namespace) -> None:
    """`box` as it was before."""
    tell((stored.said_new(use, box.name) for use in lent.uses if use not in box.secrets), options)
