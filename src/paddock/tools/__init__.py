"""Programs of agents: where a box finds them, the store that holds installed ones, and what each says of itself."""

from __future__ import annotations

from paddock.tools.locating import Located, located, missing, tool_of
from paddock.tools.probes import Probe, Probes, refuse_missing
from paddock.tools.store import ROOT, Record, Store, Tool

__all__ = [
    "ROOT",
    "Located",
    "Probe",
    "Probes",
    "Record",
    "Store",
    "Tool",
    "located",
    "missing",
    "refuse_missing",
    "tool_of",
]
