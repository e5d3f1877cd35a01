"""A placeholder becomes its secret where it is bound to, and is refused everywhere else."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.gateway.heads import parse_request, parse_response
from paddock.gateway.headwriting import write_request
from paddock.gateway.injection import Swapped, body_words, masks, redact, redact_trailers, swap
from paddock.gateway.inspection import Inspection
from paddock.gateway.refusal import Refusal
from paddock.policy import Host
from tests.support.inspecting import API, OTHER, PLACEHOLDER, VALUE, document, get, secret
from tests.support.properties import bounded


def swapped(
    data: bytes, *secrets: dict[str, Any], host: str = API, port: int = 443, scheme: Any = "https"
) -> Swapped | Refusal:
    inspection = Inspection.parse(document(*(secrets or (secret(),))))
    return swap(parse_request(data), inspection.place(Host(host), port, scheme), inspection)


def sent(data: bytes, *secrets: dict[str, Any], **where: Any) -> str:
    found = swapped(data, *secrets, **where)
    assert isinstance(found, Swapped), found
    return write_request(parse_request(data), path=found.path, headers=found.headers).decode("latin-1")


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_a_placeholder_in_a_header_is_swapped() -> None:  # CRED-02
    said = sent(get("/", f"x-api-key: {PLACEHOLDER}", f"Authorization: Bearer {PLACEHOLDER}"))
    assert said == f"GET / HTTP/1.1\r\nHost: {API}\r\nx-api-key: {VALUE}\r\nAuthorization: Bearer {VALUE}\r\n\r\n"


@pytest.mark.parametrize("form", [f"user:{PLACEHOLDER}", f"{PLACEHOLDER}:", f"x-access-token:{PLACEHOLDER}"])
def test_a_placeholder_inside_basic_authorisation_is_swapped(form: str) -> None:
    said = sent(get("/", f"Authorization: {basic(form)}"))
    assert basic(form.replace(PLACEHOLDER, VALUE)) in said
    assert "basic " + base64.b64encode(form.encode()).decode() not in said


def test_only_the_headers_it_is_meant_for_get_the_secret() -> None:
    said = sent(
        get("/", f"X-Api-Key: {PLACEHOLDER}", f"X-Debug: {PLACEHOLDER}", f"Authorization: {basic(PLACEHOLDER)}"),
        secret(headers=["x-api-key"]),
    )
    assert f"X-Api-Key: {VALUE}\r\n" in said
    assert f"X-Debug: {PLACEHOLDER}\r\n" in said
    assert basic(PLACEHOLDER) in said
    assert said.count(VALUE) == 1


def test_a_head_full_of_placeholders_does_not_become_megabytes() -> None:
    long = secret(value="v" * 2000)
    head = [f"X-{number}: {PLACEHOLDER * 15}" for number in range(90)]
    found = swapped(get("/", *head), long)
    assert isinstance(found, Refusal)
    assert (found.status, found.reason.partition(":")[0]) == (431, "secret-too-often")
    assert sent(get("/", *head[:3]), long).count("v" * 2000) == 45, "more than anybody needs"
    assert len(sent(get("/", *head))) < 100_000, "what is no longer than its placeholder grows nowhere"


def test_the_query_is_left_alone_unless_it_was_asked_for() -> None:
    data = get(f"/{PLACEHOLDER}/x?key={PLACEHOLDER}&y=1")
    assert VALUE not in sent(data)
    said = sent(data, secret(query=True, value="a value&with=signs%"))
    assert f"GET /{PLACEHOLDER}/x?key=a%20value%26with%3Dsigns%25&y=1 HTTP/1.1\r\n" in said


@pytest.mark.parametrize(
    ("host", "port", "scheme"), [(OTHER, 443, "https"), (API, 8443, "https"), (API, 80, "http"), (API, 443, "http")]
)
@pytest.mark.parametrize(
    "data",
    [
        get("/", f"X-Api-Key: {PLACEHOLDER}"),
        get("/", f"Authorization: {basic('u:' + PLACEHOLDER)}"),
        get("/", f"Cookie: a={PLACEHOLDER}; b=1"),
        get(f"/{PLACEHOLDER}"),
        get(f"/?k={PLACEHOLDER}"),
        get("/", f"X-Api-Key: {VALUE}"),
        get("/", f"Authorization: {basic('u:' + VALUE)}"),
        get(f"/{VALUE}"),
    ],
)
def test_it_goes_nowhere_else(data: bytes, host: str, port: int, scheme: str) -> None:  # CRED-03 CRED-04
    found = swapped(data, secret(query=True), host=host, port=port, scheme=scheme)
    assert isinstance(found, Refusal)
    assert found.status == 403
    assert found.reason.startswith("secret-misdirected: ")
    assert "'api'" in found.text
    assert "https port 443 of api.test" in found.text
    assert VALUE not in found.reason + found.text
    assert isinstance(swapped(data, secret(query=True)), Swapped), "the same where it is bound to"


def test_a_secret_that_is_named_for_plain_http_goes_there_and_not_into_tls() -> None:
    data = get("/", f"X-Api-Key: {PLACEHOLDER}")
    plain = secret(scheme="http", port=80)
    assert VALUE in sent(data, plain, port=80, scheme="http")
    assert isinstance(swapped(data, plain), Refusal)


def test_another_boxes_placeholder_is_worth_nothing() -> None:  # CRED-12
    other = PLACEHOLDER.replace("0000", "9999")
    assert sent(get("/", f"X-Api-Key: {other}")) == get("/", f"X-Api-Key: {other}").decode()


def test_a_missing_secret_is_a_refusal_that_names_it() -> None:
    found = swapped(get("/", f"X-Api-Key: {PLACEHOLDER}"), secret(missing=True))
    assert isinstance(found, Refusal)
    assert (found.status, found.reason) == (424, "secret-missing: secret 'api' has no value on the host")
    assert "paddock secret set api" in found.text
    assert isinstance(swapped(get("/"), secret(missing=True)), Swapped)


def test_a_value_that_was_replaced_is_refused_everywhere() -> None:  # CRED-10
    before = Inspection.parse(document(secret()))
    now = Inspection.parse(document(secret(value="another-value-altogether"))).after(before)
    for host in (API, OTHER):
        found = swap(parse_request(get("/", f"X-Api-Key: {VALUE}")), now.place(Host(host), 443), now)
        assert isinstance(found, Refusal)
        assert found.reason.startswith("secret-misdirected")
    found = swap(parse_request(get("/", f"X-Api-Key: {PLACEHOLDER}")), now.place(Host(API), 443), now)
    assert isinstance(found, Swapped)
    assert ("X-Api-Key", "another-value-altogether") in found.headers


def test_a_scoped_secret_goes_into_requests_about_its_repositories() -> None:
    scoped = secret(git={"repos": ["me/x"], "write": False}, hosts=["git.test"])
    inside = get("/me/x.git/info/refs?service=git-upload-pack", f"Authorization: {basic('u:' + PLACEHOLDER)}")
    assert basic("u:" + VALUE) in sent(inside, scoped, host="git.test")
    found = swapped(inside.replace(b"/me/x.git", b"/me/y.git"), scoped, host="git.test")
    assert isinstance(found, Refusal)
    assert found.status == 403
    assert found.reason.startswith("secret-out-of-scope")
    assert "me/x (read only)" in found.text
    for header in ("X-HTTP-Method-Override: POST", "X_Http_Method: POST", "X-Original-URL: /me/y"):
        disguised = inside.replace(b"\r\n\r\n", f"\r\n{header}\r\n\r\n".encode())
        assert isinstance(swapped(disguised, scoped, host="git.test"), Refusal), header
    without = get("/me/y.git/info/refs?service=git-upload-pack")
    assert isinstance(swapped(without, scoped, host="git.test"), Swapped), "the request as such is allowed"


def test_an_answer_that_repeats_the_secret_has_the_placeholder() -> None:  # CRED-06
    inspection = Inspection.parse(document(secret()))
    raw = f'HTTP/1.1 200 OK\r\nX-Echo: <{VALUE}>\r\nAlt-Svc: h3=":443"\r\nContent-Length: 0\r\n\r\n'.encode()
    head = parse_response(raw, bodiless=False)
    assert redact(head, inspection).headers == (("X-Echo", f"<{PLACEHOLDER}>"), ("Content-Length", "0"))
    place = inspection.place(Host(API), 443)
    assert masks(place) == {VALUE.encode(): PLACEHOLDER.encode()}
    longer = Inspection.parse(document(secret(value=VALUE + "longer"))).place(Host(API), 443)
    assert masks(longer) == {(VALUE + "longer").encode(): b"*" * (len(VALUE) + 6)}


def test_no_part_of_an_answers_head_repeats_a_secret_not_even_one_that_was_replaced_meanwhile() -> None:  # CRED-06
    before = Inspection.parse(document(secret()))
    after = Inspection.parse(document(secret(value=VALUE[::-1]))).after(before)
    raw = f"HTTP/1.1 200 {VALUE}\r\nX-{VALUE}: a\r\nB: {VALUE}\r\nContent-Length: 0\r\n\r\n".encode()
    head = parse_response(raw, bodiless=False)
    for inspection, shown in ((before, PLACEHOLDER), (after, "***")):
        clean = redact(head, inspection)
        assert (clean.reason, clean.headers) == (shown, (("B", shown), ("Content-Length", "0")))
        assert redact_trailers((("A", VALUE), (VALUE, "a"), ("B", "c")), inspection) == (("A", shown), ("B", "c"))
    assert redact(head, Inspection()) is head


def test_a_value_is_known_also_as_a_url_spells_it() -> None:  # CRED-04 CRED-06
    value, spelled = "live+/0123456789=", "live%2B%2F0123456789%3D"
    known = secret(value=value)
    inspection = Inspection.parse(document(known))
    for word in (value, spelled):
        assert isinstance(swapped(get(f"/?key={word}", host=OTHER), known, host=OTHER), Refusal)
        raw = f"HTTP/1.1 302 Found\r\nLocation: /?key={word}\r\nContent-Length: 0\r\n\r\n".encode()
        head = redact(parse_response(raw, bodiless=False), inspection)
        assert head.headers[0] == ("Location", f"/?key={PLACEHOLDER}")
        assert masks(inspection.place(Host(API), 443))[word.encode()] == b"*" * len(word)
        assert inspection.redacted(f"/{word.lower()}") == "/***"
    assert isinstance(swapped(get("/?key=live%2B%2F", host=OTHER), known, host=OTHER), Swapped), "a part is nothing"


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("text/plain", 'a"b\\c d'),
        ("application/json; charset=utf-8", 'a\\"b\\\\c d'),
        ("application/problem+json", 'a\\"b\\\\c d'),
        ("application/x-www-form-urlencoded", "a%22b%5Cc%20d"),
    ],
)
def test_a_body_gets_the_value_as_it_spells_values(kind: str, written: str) -> None:
    def words(**more: Any) -> dict[bytes, bytes]:
        inspection = Inspection.parse(document(secret(value='a"b\\c d', **more)))
        return body_words(inspection.place(Host(API), 443), kind)

    assert words(body=True) == {PLACEHOLDER.encode(): written.encode()}
    assert words() == {}
    assert words(body=True, missing=True) == {}


PIECES = [
    PLACEHOLDER,
    VALUE,
    "Basic ",
    "x",
    " ",
    "\t",
    "\u00e9",
    "=",
    basic(PLACEHOLDER),
    basic(VALUE),
    PLACEHOLDER[:20],
]


@bounded
@given(
    st.lists(st.tuples(st.sampled_from(["X-Api-Key", "Authorization", "Cookie"]), st.sampled_from(PIECES)), max_size=4),
    st.sampled_from([API, OTHER]),
    st.booleans(),
)
def test_no_request_carries_a_secret_to_another_host_and_none_has_more_lines(
    pairs: list[tuple[str, str]], host: str, query: bool
) -> None:  # CRED-11
    single = dict(pairs)
    data = get(f"/?q={PLACEHOLDER}" if query else "/", *(f"{name}: {value}" for name, value in single.items()))
    found = swapped(data.decode("utf-8").encode("latin-1"), secret(query=True), host=host)
    if isinstance(found, Refusal):
        assert host == OTHER
        return
    head = parse_request(data.decode("utf-8").encode("latin-1"))
    said = write_request(head, path=found.path, headers=found.headers)
    assert said.count(b"\r\n") == len(head.headers) + 2
    if host == OTHER:
        assert VALUE.encode() not in said
        assert not found.names
