from __future__ import annotations

import ipaddress
import random
import re
import socket
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import UserError
from paddock.policy.host import Host, parse_authority, parse_port
from paddock.text import neutralise
from tests.support.hostile_hosts import hostile_hosts
from tests.support.properties import STRINGS, bounded, patient

LABEL = "a" * 63
NAME_253 = ".".join([LABEL, LABEL, LABEL, "b" * 61])


def read(text: str) -> str | None:
    try:
        return Host.parse(text).text
    except UserError as error:
        if error.code != "bad-host":
            raise
        return None


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("example.com", "example.com"),
        ("EXAMPLE.Com", "example.com"),
        ("example.com.", "example.com"),
        ("a", "a"),
        ("my_bucket.example.com", "my_bucket.example.com"),
        ("_service.example.com", "_service.example.com"),
        ("r3---sn-abc.example.com", "r3---sn-abc.example.com"),
        ("1e100.net", "1e100.net"),
        ("0x7f.example", "0x7f.example"),
        ("127.0.0.1.example", "127.0.0.1.example"),
        (LABEL, LABEL),
        (NAME_253, NAME_253),
        (NAME_253 + ".", NAME_253),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("XN--Bcher-KVA.example", "xn--bcher-kva.example"),
        ("xn--strae-oqa.example", "xn--strae-oqa.example"),
        ("xn--e1afmkfd.example", "xn--e1afmkfd.example"),
        ("192.0.2.1", "192.0.2.1"),
        ("0.0.0.0", "0.0.0.0"),
        ("255.255.255.255", "255.255.255.255"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("2001:db8::1.2.3.4", "2001:db8::102:304"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("[::ffff:7f00:1]", "127.0.0.1"),
        ("0:0:0:0:0:FFFF:10.0.0.1", "10.0.0.1"),
        ("::127.0.0.1", "::7f00:1"),
    ],
)
def test_what_is_meant_in_one_way_only_is_made_canonical(text: str, canonical: str) -> None:
    assert Host.parse(text).text == canonical


HOST_01 = [f"exam{chr(code)}ple.com" for code in (*range(0x21), *range(0x7F, 0xA1))]
HOST_01 += ["evil.test\0.example.com", "example.com\0", "\0", " example.com", "example.com\n", "example.com\r\n", "\t"]
HOST_02 = [
    "ⓛocalhost",
    "１２７.0.0.1",
    "exam\u00adple.com",
    "exam\u200dple.com",
    "exam\u200bple.com",
    "example。com",
    "example．com",
    "example｡com",
    "bücher.example",
    "\u0435xample.com",
    "example.com\u202e",
    "\u017f.example",
    "\u212a.example",
    "\u0130.example",
    "exampl\ud800.com",
    "xn--localhost-",
    "xn--.example",
    "xn--a.example",
    "xn--example-.com",
    "xn--99999999999.example",
    "xn--" + "9" * 59,
]
HOST_03 = [
    "127.1",
    "0x7f.1",
    "017700000001",
    "2130706433",
    "0",
    "1.1",
    "0x7f000001",
    "127.0.1",
    "0177.0.0.1",
    "1.2.3.08",
]
HOST_03 += [
    "01.2.3.4",
    "1.2.3.256",
    "1.2.3.4.5",
    "1.2.3.4.",
    "0x",
    "a.0x",
    "a.b.7",
    "a.0xff",
    "0x7F.0X1",
    "٣.1.1.1",
    "1.1.",
]
HOST_04 = [
    "",
    ".",
    "..",
    ".example.com",
    "example..com",
    "example.com..",
    "a" * 64,
    f"x.{'a' * 64}.com",
    NAME_253 + "b",
]
HOST_04 += [
    "-a.com",
    "a-.com",
    "a.-b.com",
    "a.b-",
    "-",
    "a.com-",
    "*.example.com",
    "*",
    "exa*mple.com",
    "a b.com",
    "a,b",
]
HOST_05 = [
    "[::1%lo]",
    "::1%lo",
    "fe80::1%1",
    "[::1",
    "::1]",
    "[[::1]]",
    "[127.0.0.1]",
    "[example.com]",
    ":::",
    ":",
    "[]",
    "[:]",
]
HOST_05 += [
    "1::2::3",
    "12345::",
    "::g",
    "1:2:3:4:5:6:7:8:9",
    "::1/128",
    "[::1]:80",
    "::ffff:127.1",
    "::ffff:0x7f.0.0.1",
    "::01.2.3.4",
]
HOST_06 = [
    "allowed@evil.test",
    "user:pw@evil.test",
    "a\\b.com",
    "a.com#b",
    "a.com?b",
    "a%2ecom",
    "%00",
    "a;b.com",
    "a.com/b",
]
HOST_06 += [
    "http://a.com",
    "//a.com",
    "a.com:443",
    "a.com:",
    "a\tb.com",
    "a.com%",
    "'a.com'",
    '"a.com"',
    "a.com,b.com",
    "$a",
]


@pytest.mark.parametrize("text", [*HOST_01, *HOST_02, *HOST_03, *HOST_04, *HOST_05, *HOST_06], ids=ascii)
def test_what_two_programs_could_read_differently_is_refused(text: str) -> None:
    with pytest.raises(UserError) as caught:
        Host.parse(text)
    assert caught.value.code == "bad-host"
    assert neutralise(caught.value.message) == caught.value.message
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    "letters", ["ⓛocalhost", "exam\u00adple", "ＡＢ", "bÜcher", "a\u200db", "\u0301ab", "ﬁsh", "e\u0301", "xn\u202e"]
)
def test_an_encoded_look_alike_is_refused(letters: str) -> None:
    assert read(f"xn--{letters.encode('punycode').decode()}.example") is None


@pytest.mark.parametrize("letters", ["bücher", "straße", "пример", "例え", "ελλάς", "münchen-ost"])
def test_an_encoded_word_of_another_script_is_accepted(letters: str) -> None:
    label = f"xn--{letters.encode('punycode').decode()}"
    assert read(f"{label}.example") == f"{label}.example"


def test_there_is_one_constructor_and_what_it_made_stays() -> None:
    assert Host("EXAMPLE.com") == Host.parse("example.com.")
    assert hash(Host("::ffff:1.2.3.4")) == hash(Host.of(ipaddress.ip_address("1.2.3.4")))
    assert Host.of(ipaddress.ip_address("::ffff:1.2.3.4")).address == ipaddress.ip_address("1.2.3.4")
    with pytest.raises(AttributeError):
        Host("example.com").text = "evil.test"  # type: ignore[misc]
    assert repr(Host("::1")) == "Host(text='::1', address=IPv6Address('::1'))"
    assert f"{Host('a.b')} {Host('a.b').with_port(1)} {Host('::1').with_port(2)}" == "a.b a.b:1 [::1]:2"


@pytest.mark.parametrize(
    ("text", "default_port", "wanted"),
    [
        ("example.com:443", None, ("example.com", 443)),
        ("EXAMPLE.com.:1", None, ("example.com", 1)),
        ("example.com", 80, ("example.com", 80)),
        ("192.0.2.1:65535", None, ("192.0.2.1", 65535)),
        ("[::1]:80", None, ("::1", 80)),
        ("[2001:DB8::1]", 443, ("2001:db8::1", 443)),
        ("[::ffff:1.2.3.4]:80", None, ("1.2.3.4", 80)),
    ],
)
def test_an_authority_is_a_host_and_a_port(text: str, default_port: int | None, wanted: tuple[str, int]) -> None:
    host, port = parse_authority(text, default_port)
    assert (host.text, port) == wanted


@pytest.mark.parametrize(
    "port",
    ["", "0", "00", "65536", "0443", " 443", "443 ", "443abc", "+443", "-1", "4_3", "４４３", "99999", "1e2", "443\n"],
)
def test_a_port_is_plain_decimal(port: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_port(port)
    assert caught.value.code == "bad-port"
    for head in ("example.com", "[::1]"):
        with pytest.raises(UserError) as caught:
            parse_authority(f"{head}:{port}", 443)
        assert caught.value.code == "bad-port"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("example.com", "bad-port"),
        ("[::1]", "bad-port"),
        ("a:b:443", "bad-port"),
        ("::1", "bad-host"),
        ("::1:80", "bad-host"),
        (":80", "bad-host"),
        ("[::1]80", "bad-host"),
        ("[::1", "bad-host"),
        ("[example.com]:80", "bad-host"),
        ("[127.0.0.1]:80", "bad-host"),
        ("[::1%lo]:80", "bad-host"),
        ("a@b:80", "bad-host"),
        ("[]:80", "bad-host"),
        ("", "bad-host"),
    ],
)
def test_a_broken_authority_is_refused(text: str, code: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_authority(text)
    assert caught.value.code == code


TEXTS = (
    st.text()
    | st.text(alphabet="aA0x1.-_:[]%@nf\0 ", max_size=40)
    | st.from_regex(r"[a-z0-9.:x-]{1,30}", fullmatch=True)
)


@bounded
@patient
@given(TEXTS)
def test_reading_twice_is_reading_once(text: str) -> None:
    canonical = read(text)
    if canonical is not None:
        assert read(canonical) == canonical


@bounded
@patient
@given(TEXTS)
def test_what_is_accepted_is_an_exact_ascii_name_or_an_address(text: str) -> None:
    canonical = read(text)
    if canonical is None:
        return
    assert re.fullmatch(r"[a-z0-9._:-]+", canonical)
    if Host(text).address is None:
        assert canonical == text.lower().removesuffix(".")
        assert all(1 <= len(label) <= 63 for label in canonical.split("."))
    else:
        assert ipaddress.ip_address(canonical) == Host(text).address


def agrees_with_everybody(text: str) -> bool:
    """Whether libc, urllib and the IDNA codec read an accepted text as we do."""
    canonical = read(text)
    if canonical is None:
        return True
    host = Host(text)
    ours = host.address
    if numeric(canonical) != ours:  # what a resolver would take for an address without asking anybody
        return False
    if ours is None:
        if canonical.encode("idna") != canonical.encode("ascii"):
            return False
        if numeric(text) is not None:
            return False
    try:
        theirs = urlsplit(f"http://{text if ours is None else host.with_port(80)}/x")
        name, port = theirs.hostname, theirs.port
    except ValueError:
        return False
    return name is not None and read(name) == canonical and port == (None if ours is None else 80)


def numeric(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = socket.getaddrinfo(text, None, flags=socket.AI_NUMERICHOST)
    except (OSError, ValueError, UnicodeError):
        return None
    return ipaddress.ip_address(found[0][4][0])


@patient
def test_libc_urllib_and_idna_read_what_is_accepted_as_we_do() -> None:
    seed = random.randrange(1 << 32)
    wrong = [text for text in hostile_hosts(STRINGS, seed) if not agrees_with_everybody(text)]
    assert wrong == [], f"seed {seed}"


def test_the_hostile_hosts_are_worth_trying() -> None:
    read_all = [read(text) for text in hostile_hosts(5_000, 1)]
    accepted = [text for text in read_all if text is not None]
    assert 500 < len(accepted) < 4_500
    assert len(set(accepted)) > 300
    assert any(":" in text for text in accepted)


@bounded
@patient
@given(st.ip_addresses())
def test_every_address_is_read_as_itself(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    for text in (str(address), address.exploded, str(address).upper()):
        assert Host(text).address == (mapped or address)
