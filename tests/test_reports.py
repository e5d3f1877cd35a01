"""Reports travel as JSON and come back the same."""

from __future__ import annotations

import pytest

from paddock import codec
from paddock.gateway import trust
from paddock.reports import LayerInfo, NetworkLog, PendingInfo, PolicyInfo, RuleInfo, RunInfo, SourceInfo, VerdictInfo
from paddock.runtime import spares

RULE = RuleInfo(action="allow", pattern="a.example", source="flag", detail="command line")


@pytest.mark.parametrize(
    "value",
    [
        RULE,
        PolicyInfo(
            box="",
            network="rules",
            on_deny="ask",
            layers=(LayerInfo(name="box", default="deny", rules=(RULE,)),),
            sources=(SourceInfo(kind="user", place="/x", state="broken", problem="why"),),
        ),
        VerdictInfo(
            host="a.example",
            port=443,
            allowed=True,
            observed=False,
            bypass=False,
            reason="allowed by it",
            rule=RULE,
            command="",
        ),
        PendingInfo(id="1", box="box", kind="project", asks=("a.example",)),
        NetworkLog(box="box", id="abc", paths=("/x.0", "/x.1")),
        RunInfo(id="00c0ffee", box="b", box_id="1", agent="claude", mode="headless", started="t", exit_code=3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_report_survives_the_wire(value: RuleInfo | PolicyInfo | VerdictInfo | PendingInfo | NetworkLog) -> None:
    assert codec.from_wire(type(value), codec.to_wire(value)) == value


def test_the_authority_lies_where_its_maker_puts_it() -> None:
    assert spares.AUTHORITY == trust.AUTHORITY_FILE
