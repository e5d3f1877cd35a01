from __future__ import annotations

from paddock.policy.evaluator import Evaluator
from paddock.policy.layering import Statement, compose
from paddock.policy.rules import Source, SourceKind
from paddock.policy.suggest import Refused, suggest

USER = Source(SourceKind.USER, "policy.toml")


def evaluator(**words: object) -> Evaluator:
    return Evaluator(compose(user=Statement(source=USER, **words)))  # type: ignore[arg-type]


def patterns(refused: list[Refused], judge: Evaluator) -> list[tuple[str, int]]:
    return [(one.pattern, one.count) for one in suggest(refused, judge)]


def test_each_target_becomes_its_own_rule_the_most_frequent_first() -> None:
    refused = [
        Refused(host="a.com", port=443),
        Refused(host="b.com", port=443, count=5),
        Refused(host="A.com.", port=443),
        Refused(host="a.com", port=80),
        Refused(host="2600::1", port=80),
    ]
    assert patterns(refused, evaluator()) == [("b.com:443", 5), ("a.com:443", 2), ("[2600::1]:80", 1), ("a.com:80", 1)]


def test_what_is_allowed_by_now_or_is_no_host_is_left_out() -> None:
    refused = [
        Refused(host="a.com", port=443),
        Refused(host="\0", port=443),
        Refused(host="b.com", port=1, address="?"),
    ]
    assert suggest(refused, evaluator(allow=("a.com",))) == ()


def test_a_name_that_leads_to_a_reserved_address_needs_a_rule_for_that() -> None:
    refused = [Refused(host="db.example", port=5432, address="10.0.0.7")]
    assert patterns(refused, evaluator(allow=("db.example",))) == [("10.0.0.7:5432", 1)]
    assert patterns(refused, evaluator()) == [("db.example:5432", 1)]


def test_what_somebody_refused_on_purpose_is_not_suggested() -> None:
    refused = [Refused(host="ads.example", port=443, count=9), Refused(host="x.paddock", port=80)]
    found = suggest(refused, evaluator(deny=("ads.example",)))
    assert [one.pattern for one in found] == ["", ""]
    assert "denied by rule ads.example" in found[0].why
    organisation = Statement(source=Source(SourceKind.ORGANISATION))
    ceiling = Evaluator(compose(organisation=organisation))
    assert patterns([Refused(host="a.com", port=1)], ceiling) == [("", 1)]


def test_the_suggested_rules_allow_all_of_it() -> None:
    refused = [Refused(host=f"h{n}.example", port=443) for n in range(20)]
    found = suggest(refused, evaluator())
    assert suggest(refused, evaluator(allow=tuple(one.pattern for one in found))) == ()
