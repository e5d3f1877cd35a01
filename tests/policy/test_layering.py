from __future__ import annotations

import ipaddress

import pytest

from paddock import limits
from paddock.errors import UserError
from paddock.policy.evaluator import Evaluator
from paddock.policy.host import Host, parse_authority
from paddock.policy.layering import Statement, asks, compose
from paddock.policy.rules import Default, Layer, OnDeny, Policy, Source, SourceKind


def said(kind: SourceKind, **words: object) -> Statement:
    return Statement(source=Source(kind, kind.value), **words)  # type: ignore[arg-type]


def flags(**words: object) -> Statement:
    return said(SourceKind.FLAG, **words)


def user(**words: object) -> Statement:
    return said(SourceKind.USER, **words)


def project(**words: object) -> Statement:
    return said(SourceKind.PROJECT, **words)


def organisation(**words: object) -> Statement:
    return said(SourceKind.ORGANISATION, **words)


def allows(policy: Policy, target: str) -> bool:
    return Evaluator(policy).decide(*parse_authority(target)).allowed


def test_nobody_saying_anything_denies() -> None:
    policy = compose()
    assert policy == Policy((Layer("box", Default.DENY, ()),), OnDeny.DENY)
    assert not allows(policy, "example.com:443")


def test_a_flag_beats_the_users_file() -> None:
    policy = compose(
        user=user(default=Default.ALLOW, deny=("a.com",)), flags=flags(default=Default.DENY, allow=("a.com",))
    )
    assert allows(policy, "a.com:443")
    assert not allows(policy, "b.com:443")


def test_the_users_file_beats_a_preset() -> None:
    policy = compose(user=user(deny=("github.com:443",)), flags=flags(presets=("github",)))
    assert not allows(policy, "github.com:443")
    assert allows(policy, "api.github.com:443")


def test_the_organisation_is_a_ceiling() -> None:
    policy = compose(
        organisation=organisation(allow=("*.corp.example",)),
        user=user(allow=("*",)),
        flags=flags(default=Default.ALLOW, allow=("evil.test",), bypass=("x.corp.example",)),
    )
    assert [layer.name for layer in policy.layers] == ["organisation", "box"]
    assert allows(policy, "git.corp.example:22")
    assert not allows(policy, "evil.test:443")
    verdict = Evaluator(policy).decide(*parse_authority("x.corp.example:443"))
    assert verdict.allowed
    assert not verdict.bypass


def test_an_organisation_that_names_no_default_denies() -> None:
    assert not allows(compose(organisation=organisation(deny=("a.com",)), user=user(allow=("*",))), "b.com:443")


@pytest.mark.parametrize(
    ("over", "said_by_user", "said_by_flag", "wanted"),
    [
        (None, None, None, OnDeny.DENY),
        (None, OnDeny.ASK, None, OnDeny.ASK),
        (None, OnDeny.ASK, OnDeny.DENY, OnDeny.DENY),
        (None, OnDeny.DENY, OnDeny.ASK, OnDeny.ASK),
        (OnDeny.DENY, OnDeny.ASK, OnDeny.ASK, OnDeny.DENY),
        (OnDeny.ASK, None, None, OnDeny.DENY),
        (OnDeny.ASK, OnDeny.ASK, None, OnDeny.ASK),
    ],
)
def test_asking_is_decided_by_flag_then_user_under_the_organisation(
    over: OnDeny | None, said_by_user: OnDeny | None, said_by_flag: OnDeny | None, wanted: OnDeny
) -> None:
    above = None if over is None else organisation(on_deny=over)
    policy = compose(organisation=above, user=user(on_deny=said_by_user), flags=flags(on_deny=said_by_flag))
    assert policy.on_deny is wanted


def test_a_project_widens_nothing_until_approved() -> None:
    wanted = project(allow=("db.example:5432",), presets=("python",), bypass=("b.com",))
    policy = compose(user=user(allow=("a.com",)), project=wanted)
    assert not allows(policy, "db.example:5432")
    assert asks(wanted, policy) == (
        "db.example:5432",
        "b.com (bypass)",
        "pypi.org:443",
        "*.pypi.org:443",
        "pythonhosted.org:443",
        "*.pythonhosted.org:443",
    )
    approved = compose(user=user(allow=("a.com",)), project=wanted, approved=True)
    assert allows(approved, "db.example:5432")
    assert allows(approved, "wheels.pythonhosted.org:443")
    assert asks(wanted, approved) == ()


def test_a_project_asks_only_for_what_is_missing() -> None:
    wanted = project(allow=("a.com:443", "b.com"))
    assert asks(wanted, compose(user=user(allow=("a.com",)))) == ("b.com",)
    assert asks(wanted, compose(user=user(default=Default.ALLOW))) == ()
    assert asks(wanted, compose(user=user(allow=("*",)))) == ()
    assert len(asks(wanted, Policy())) == 2


@pytest.mark.parametrize(
    ("said_by_user", "wanted", "target"),
    [
        (user(allow=("*",), deny=("*.bad.com",)), project(allow=("x.bad.com",)), "x.bad.com:443"),
        (user(default=Default.ALLOW, deny=("*.bad.com:443",)), project(allow=("x.bad.com",)), "x.bad.com:443"),
        (user(allow=("*",)), project(allow=("localhost:5432",)), "localhost:5432"),
        (user(default=Default.ALLOW), project(allow=("localhost:5432",)), "localhost:5432"),
        (user(default=Default.OBSERVE), project(allow=("10.0.0.0/8",)), "10.0.0.5:80"),
        (user(allow=("0.0.0.0/0",)), project(allow=("169.254.169.254",)), "169.254.169.254:80"),
        (user(allow=("*",)), project(allow=("::1",)), "[::1]:80"),
    ],
)
def test_whatever_an_approval_opens_is_asked_for(said_by_user: Statement, wanted: Statement, target: str) -> None:
    before = compose(user=said_by_user, project=wanted)
    assert not allows(before, target)
    assert allows(compose(user=said_by_user, project=wanted, approved=True), target)
    assert asks(wanted, before) == wanted.allow


@pytest.mark.parametrize("default", [Default.ALLOW, Default.OBSERVE])
def test_a_project_opens_nothing_that_a_default_leaves_closed(default: Default) -> None:
    """Not the host's own ports, reserved addresses or opaque connections, by whatever else it narrows."""
    wanted = project(
        deny=("z.example",),
        allow=("localhost:5432", "169.254.169.254", "10.0.0.0/8"),
        bypass=("c.example", "93.184.0.0/16"),
    )

    def found(*, approved: bool) -> list[bool]:
        judge = Evaluator(compose(user=user(default=default), project=wanted, approved=approved))
        inside, outside = ipaddress.ip_address("10.1.2.3"), ipaddress.ip_address("93.184.1.1")
        return [
            judge.decide(Host("localhost"), 5432).allowed,
            judge.decide(Host("169.254.169.254"), 80).allowed,
            judge.decide_address(Host("x.example"), 443, inside).allowed,
            judge.decide_address(Host("x.example"), 443, outside).bypass,
            judge.decide(Host("c.example"), 443).bypass,
        ]

    assert found(approved=True) == [True] * 5
    assert found(approved=False) == [False] * 5
    both = compose(user=user(default=default, bypass=("c.example",)), project=wanted)
    assert Evaluator(both).decide(Host("c.example"), 443).bypass, "as the user says himself"


def test_a_bypass_is_asked_for_where_the_host_is_allowed_already() -> None:
    before = compose(user=user(allow=("*.a.com",)), project=project(bypass=("x.a.com",)))
    assert asks(project(bypass=("x.a.com",)), before) == ("x.a.com (bypass)",)
    before = compose(user=user(bypass=("x.a.com",)))
    assert asks(project(bypass=("x.a.com",)), before) == ()


def test_a_user_who_denied_it_is_not_overruled_by_an_approved_project() -> None:
    policy = compose(user=user(deny=("a.com",)), project=project(allow=("a.com",)), approved=True)
    assert not allows(policy, "a.com:443")


def test_a_project_narrows_without_asking() -> None:
    given = user(allow=("*.example.com", "api.example.com:443"), default=Default.ALLOW)
    policy = compose(user=given, project=project(deny=("*.example.com", "api.example.com")))
    assert not allows(policy, "api.example.com:22")
    assert not allows(policy, "www.example.com:443")
    assert allows(policy, "other.test:443")
    closed = compose(user=given, project=project(default=Default.DENY, allow=("api.example.com:443",)))
    assert allows(closed, "api.example.com:443")
    assert not allows(closed, "www.example.com:443")
    assert not allows(closed, "other.test:443")


def test_what_the_user_typed_for_the_box_reopens_what_the_project_closed() -> None:
    closing = project(default=Default.DENY, deny=("a.com:443",))
    policy = compose(flags=flags(allow=("a.com:443", "b.com:443"), presets=("claude",)), project=closing)
    assert allows(policy, "a.com:443")
    assert allows(policy, "b.com:443")
    assert allows(policy, "api.anthropic.com:443")
    assert not allows(policy, "c.com:443")
    opened = compose(flags=flags(default=Default.ALLOW), project=closing)
    assert allows(opened, "c.com:443")
    assert not allows(opened, "a.com:443")


def test_a_statement_makes_its_patterns_canonical_and_single() -> None:
    statement = user(allow=("A.com", "a.com.", "127.0.0.1:80"), deny=("10.0.0.1/32",))
    assert statement.allow == ("a.com", "localhost:80")
    assert statement.deny == ("10.0.0.1",)


@pytest.mark.parametrize(
    "words", [{"allow": ("a..b",)}, {"deny": ("localhost",)}, {"bypass": ("",)}, {"presets": ("no",)}]
)
def test_a_statement_that_cannot_be_is_refused(words: dict[str, object]) -> None:
    with pytest.raises(UserError):
        user(**words)


def test_a_source_has_a_bounded_number_of_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POLICY_PATTERNS_MAX", 3)
    user(allow=("a.com", "b.com"), deny=("c.com",))
    with pytest.raises(UserError) as caught:
        user(allow=("a.com", "b.com"), deny=("c.com",), bypass=("d.com",))
    assert caught.value.code == "policy-size"


def test_the_last_word_about_a_pattern_counts() -> None:
    statement = user(allow=("a.com", "b.com"), deny=("c.com",))
    assert statement.saying("deny", "A.com").deny == ("c.com", "a.com")
    assert statement.saying("deny", "a.com").allow == ("b.com",)
    assert statement.saying("bypass", "a.com").bypass == ("a.com",)
    assert statement.saying("allow", "c.com").allow == ("a.com", "b.com", "c.com")
    assert statement.without("a.com", "c.com") == user(allow=("b.com",))


# -- requests ----------------------------------------------------------------------------------------------------------


def may(policy: Policy, method: str, path: str, host: str = "a.com") -> bool:
    """As the gateway asks: the connection, then the request."""
    evaluator = Evaluator(policy)
    rules = evaluator.requests.at(Host(host), 443)
    return evaluator.decide(Host(host), 443).allowed and (rules is None or rules.decide(method, path).allowed)


def test_allowed_requests_open_their_host_and_denied_ones_do_not() -> None:
    policy = compose(user=user(allow_requests=("GET a.com",), deny_requests=("GET b.com/x",)))
    assert may(policy, "GET", "/")
    assert not may(policy, "POST", "/")
    assert not may(policy, "GET", "/", "b.com")
    assert not may(compose(user=user(deny=("a.com",), allow_requests=("GET a.com",))), "GET", "/")


def test_the_organisations_rules_about_requests_hold_whatever_others_say() -> None:
    above = organisation(default=Default.ALLOW, deny_requests=("DELETE a.com",))
    policy = compose(organisation=above, flags=flags(allow_requests=("* a.com", "DELETE a.com/x")))
    assert may(policy, "POST", "/")
    assert not may(policy, "DELETE", "/x")


def test_a_project_holds_requests_to_less_and_widens_none_until_approved() -> None:
    wanted = project(allow_requests=("GET a.com/docs/**", "POST b.com"))
    said = user(allow=("a.com",), allow_requests=("GET b.com",))
    before = compose(user=said, project=wanted)
    assert may(before, "GET", "/docs/x")
    assert not may(before, "GET", "/x")
    assert not may(before, "POST", "/", "b.com")
    assert not may(before, "GET", "/", "b.com"), "each layer must agree"
    assert asks(wanted, before) == ("POST b.com",)
    after = compose(user=said, project=wanted, approved=True)
    assert may(after, "POST", "/", "b.com")
    assert not may(after, "POST", "/docs/x")
    denied = user(allow=("b.com",), deny_requests=("POST b.com",))
    assert asks(wanted, compose(user=denied, project=wanted)) == ("GET a.com/docs/**", "POST b.com")


def test_what_you_say_of_a_box_reopens_what_a_project_denied() -> None:
    wanted = project(deny_requests=("* a.com/x/**",))
    assert not may(compose(user=user(allow=("a.com",)), project=wanted), "GET", "/x/y")
    reopened = compose(user=user(allow=("a.com",)), flags=flags(allow_requests=("GET a.com/x/y",)), project=wanted)
    assert may(reopened, "GET", "/x/y")


def test_a_host_is_not_bypassed_and_looked_into() -> None:
    with pytest.raises(UserError, match="is bypassed and has rules about requests"):
        user(bypass=("a.com",), deny_requests=("GET a.com/x",))
    with pytest.raises(UserError) as caught:
        user(deny_requests=tuple(f"GET a.com/{number}" for number in range(1001)))
    assert caught.value.code == "policy-size"
