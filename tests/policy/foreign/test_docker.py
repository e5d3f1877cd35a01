from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import UserError
from paddock.policy.foreign import read_docker, write_docker
from paddock.policy.layering import Statement, compose
from paddock.policy.rules import Default, Layer, Source, SourceKind
from tests.support.properties import bounded, patient

REAL = """{"policy":{"default":"allow","logBlocked":false,"logAllowed":false},
 "network":{"allowedDomains":[],
  "blockedDomains":["metadata.azure.internal","metadata.google.internal","kube-dns.kube-system.svc.cluster.local"],
  "blockedCIDRs":["10.0.0.0/8","127.0.0.0/8","169.254.0.0/16","172.16.0.0/12","192.168.0.0/16","::1/128","fc00::/7","fe80::/10"],
  "bypassDomains":[],"bypassCIDRs":[]}}
"""


def layer(**words: object) -> Layer:
    return compose(user=Statement(source=Source(SourceKind.USER), **words)).layers[-1]  # type: ignore[arg-type]


def test_a_real_file_is_read() -> None:
    found = read_docker(REAL, "proxy-config.json")
    assert found.statement.default is Default.ALLOW
    assert found.statement.deny[:2] == ("metadata.azure.internal", "metadata.google.internal")
    assert found.statement.deny[-3:] == ("::1", "fc00::/7", "fe80::/10")
    assert found.notes


def test_a_file_that_names_no_default_denies() -> None:
    assert read_docker("{}", "p").statement.default is Default.DENY


def test_a_bypass_does_not_allow_what_the_file_does_not() -> None:
    network = {"allowedDomains": ["*.a.com"], "bypassDomains": ["x.a.com", "b.com"], "bypassCIDRs": ["8.0.0.0/8"]}
    denying = read_docker(json.dumps({"network": network}), "p")
    assert denying.statement.bypass == ("x.a.com",)
    assert len(denying.notes) == 2
    allowing = read_docker(json.dumps({"policy": {"default": "allow"}, "network": network}), "p")
    assert allowing.statement.bypass == ("x.a.com", "b.com", "8.0.0.0/8")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('{\n"polcy": {}}', 2, "unknown key 'polcy'"),
        ('{"policy": {\n"log": true}}', 2, "unknown key 'log'"),
        ('{"network":\n{"allowedDomains": [],\n"allowedDomain": []}}', 3, "unknown key 'allowedDomain'"),
        ('{"policy": {\n"default": "open"}}', 2, "default must be allow or deny"),
        ('{"network": {\n"blockedCIDRs": [\n"a.com"]}}', 3, "'a.com' is not a range"),
        ('{"network": {"allowedDomains":\n["a.com",\n"b..com"]}}', 3, "'b..com' is not a pattern"),
        ('{"network": {\n"allowedDomains": "a.com"}}', 2, "must be a list"),
        ('{"network": {\n"allowedDomains": [1]}}', 2, "must be a list of strings"),
        ('{"policy": {}, "policy": {}}', 1, "appears twice"),
        ('{"network": 1}', 1, "must be an object"),
        ("[]", 1, "must be an object"),
        ("{\n\n", 3, ""),
        ("[" * 100_000, 1, "nested"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(text: str, line: int, said: str) -> None:
    with pytest.raises(UserError) as caught:
        read_docker(text, "proxy-config.json")
    assert caught.value.message.startswith(f"proxy-config.json:{line}: ")
    assert said in caught.value.message


def test_what_is_written_is_read_back() -> None:
    given_layer = layer(
        default=Default.ALLOW,
        allow=("*.a.com:443", "*:80", "localhost:5432"),
        deny=("b.com", "10.0.0.0/8", "1.2.3.4"),
        bypass=("c.com",),
    )
    written = write_docker(given_layer)
    assert written.notes == ()
    again = read_docker(written.text, "p").statement
    assert set(again.allow) == {"*.a.com:443", "*:80", "localhost:5432"}
    assert set(again.deny) == {"b.com", "10.0.0.0/8", "1.2.3.4"}
    assert again.bypass == ("c.com",)
    assert again.default is Default.ALLOW


def test_what_has_no_form_there_is_noted_or_refused_but_never_widened() -> None:
    assert "allow 10.0.0.0/8 is left out" in write_docker(layer(allow=("10.0.0.0/8",))).notes[0]
    assert write_docker(layer(default=Default.OBSERVE)).notes == ("observe is written as allow",)
    with pytest.raises(UserError) as caught:
        write_docker(layer(deny=("10.0.0.0/8:80",)))
    assert caught.value.code == "not-expressible"


@bounded
@patient
@given(st.text() | st.text(alphabet='{}[]":,policyndefault', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read_docker(text, "p")
    except UserError as error:
        if error.code != "bad-import":
            raise
