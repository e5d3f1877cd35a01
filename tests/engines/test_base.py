"""The seam between the runtime and what isolates a box: who stands on it keeps its word."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError

import pytest

from paddock.engines.base import Engine, Handle, Placement, Probe
from paddock.engines.container.engine import ContainerEngine
from paddock.engines.container.handle import ContainerHandle
from paddock.engines.process.engine import ProcessEngine
from paddock.engines.process.handle import ProcessHandle
from paddock.model import BoxId, BoxSpec


def _verbs(cls: type) -> dict[str, inspect.Signature]:
    found = inspect.getmembers(cls, inspect.isfunction)
    return {name: inspect.signature(verb) for name, verb in found if not name.startswith("_")}


@pytest.mark.parametrize(
    ("seam", "cls"),
    [(Engine, ProcessEngine), (Handle, ProcessHandle), (Engine, ContainerEngine), (Handle, ContainerHandle)],
)
def test_an_engine_has_exactly_the_verbs_of_the_seam(seam: type, cls: type) -> None:
    wanted, found = _verbs(seam), _verbs(cls)
    assert set(found) == set(wanted)
    for name, signature in wanted.items():
        assert list(found[name].parameters) == list(signature.parameters), name


def test_its_values_do_not_change() -> None:
    spec = BoxSpec(name="a", agent="shell", workspace="/")
    with pytest.raises(FrozenInstanceError):
        Probe(name="a", ok=True, detail="b").ok = False  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        Placement(id=BoxId("a"), spec=spec, directory="/d", index=0).index = 1  # type: ignore[misc]
