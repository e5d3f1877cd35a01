"""The daemon's verbs about templates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paddock import codec
from paddock.daemon.answer import Answer, Nothing
from paddock.model import Network, SecretUse
from paddock.model.reference import Reference
from paddock.model.remote import Remote
from paddock.runtime import boxsaving, errands, loading, pulling, saving, space
from paddock.runtime.credentials import values_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from paddock.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class One:
    template: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    path: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    template: str
    path: str  # an empty file


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveBox:
    box: str
    name: str
    path: str = ""  # an empty file, to have it there and not among the templates
    stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    image: str
    network: Network = field(default_factory=Network)
    secret: SecretUse | None = None
    user: str = ""
    given: dict[str, str] = field(default_factory=dict, repr=False)

    def errand(self) -> errands.Errand:
        given = values_of(self.given)
        return errands.Errand(network=self.network, secret=self.secret, user=self.user, given=dict(given))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull(Errand):
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Push(Errand):
    template: str


async def _ls(runtime: Runtime, _args: Nothing) -> Answer:
    return Answer(items=tuple(map(codec.to_wire, await saving.listed(runtime))))


async def _inspect(runtime: Runtime, args: One) -> Answer:
    return Answer(result=codec.to_wire(await saving.inspect(runtime, Reference.parse(args.template))))


async def _rm(runtime: Runtime, args: One) -> Answer:
    reference = Reference.parse(args.template)
    await runtime.catalogue.remove(reference)
    await space.prune(runtime)
    return Answer(result=str(reference))


async def _load(runtime: Runtime, args: Load) -> Answer:
    rows = await loading.load(runtime, args.path, args.name)
    return Answer(items=tuple(codec.to_wire(saving.info(runtime, row)) for row in rows))


async def _save(runtime: Runtime, args: Save) -> Answer:
    return Answer(result=await saving.save(runtime, Reference.parse(args.template), args.path))


async def _pull(runtime: Runtime, args: Pull) -> Answer:
    row = await pulling.pull(runtime, Remote.parse(args.image), args.errand(), args.name)
    return Answer(result=codec.to_wire(saving.info(runtime, row)))


async def _push(runtime: Runtime, args: Push) -> Answer:
    template = Reference.parse(args.template)
    return Answer(result=await pulling.push(runtime, template, Remote.parse(args.image), args.errand()))


async def _save_box(runtime: Runtime, args: SaveBox) -> Answer:
    reference = Reference.parse(args.name)
    row = await boxsaving.save(runtime, runtime.find(args.box), reference, args.path, stop=args.stop)
    return Answer(result=codec.to_wire(saving.info(runtime, row)))


# Any: the dataclass beside each verb.
VERBS: dict[str, tuple[type, Callable[[Runtime, Any], Awaitable[Answer]]]] = {
    "template_ls": (Nothing, _ls),
    "template_inspect": (One, _inspect),
    "template_rm": (One, _rm),
    "template_load": (Load, _load),
    "template_save": (Save, _save),
    "save": (SaveBox, _save_box),
    "template_pull": (Pull, _pull),
    "template_push": (Push, _push),
}
