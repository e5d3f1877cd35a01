from __future__ import annotations

import pytest

from paddock import limits
from paddock.errors import UserError
from paddock.policy.foreign import read
from paddock.policy.rules import Default


def test_the_name_of_a_file_tells_whose_it_is() -> None:
    assert read('{"policy": {"default": "allow"}}', "x/proxy-config.json").statement.default is Default.ALLOW
    pytest.importorskip("yaml")
    for path in ("policy.yaml", "user.policy.yml"):
        assert read("services: [claude]", path).statement.presets == ("claude",)


def test_any_other_file_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        read("", "policy.txt")
    assert caught.value.code == "bad-import"


def test_a_file_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POLICY_FILE_BYTES", 10)
    with pytest.raises(UserError) as caught:
        read(" " * 11, "a.json")
    assert caught.value.code == "policy-size"
