"""How a template is run."""

from __future__ import annotations

from paddock import codec
from paddock.model import BoxSpec, ImageRun


def test_a_box_without_a_template_runs_as_root_of_nothing_and_boxes_of_before_are_read() -> None:
    spec = BoxSpec(name="a", agent="shell", workspace="/w")
    assert spec.image == ImageRun()
    wire = codec.to_wire(spec)
    assert isinstance(wire, dict)
    assert codec.from_wire(BoxSpec, wire) == spec
    del wire["image"]
    assert codec.from_wire(BoxSpec, wire) == spec
