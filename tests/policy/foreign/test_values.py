from __future__ import annotations

from paddock.policy.foreign import Exported, Imported
from paddock.policy.layering import Statement
from paddock.policy.rules import Source, SourceKind


def test_nothing_lost_means_no_notes() -> None:
    assert Exported(text="").notes == ()
    assert Imported(statement=Statement(source=Source(SourceKind.USER))).notes == ()
