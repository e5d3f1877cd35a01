"""Certificates that strict clients accept for exactly the names they are for, made fast and kept within bounds."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import limits
from paddock.errors import Unavailable
from paddock.gateway import certificates, libcrypto
from paddock.gateway.certificates import Authority, Leaves, from_pem, make_authority, to_pem
from paddock.policy import Host
from tests.style.source import ROOT
from tests.support.programs import program

if TYPE_CHECKING:
    from pathlib import Path

LONG = ".".join(["a" * 60] * 4)
HOSTS = ("example.com", "xn--bcher-kva.example", "192.0.2.1", "2001:db8::1", LONG)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority("claude-project")


def strict_client(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN  # as Python 3.13 by default
    context.load_verify_locations(cadata=authority.certificate_pem.decode())
    return context


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """Client and server talk through memory until both are content, or one of them raises."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=name)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [near, far]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
        if not waiting:
            return near
    raise AssertionError


@pytest.mark.parametrize("text", HOSTS)
def test_a_strict_client_accepts_a_leaf_for_its_name(authority: Authority, tmp_path: Path, text: str) -> None:
    server = Leaves(authority, os.fspath(tmp_path)).context(Host.parse(text))
    assert shake_hands(strict_client(authority), server, text).version() == "TLSv1.3"


@pytest.mark.parametrize("name", ["example.org", "www.example.com", "192.0.2.2"])
def test_a_leaf_is_for_its_name_only(authority: Authority, tmp_path: Path, name: str) -> None:
    server = Leaves(authority, os.fspath(tmp_path)).context(Host.parse("example.com"))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(strict_client(authority), server, name)


def test_another_box_does_not_trust_the_authority(authority: Authority, tmp_path: Path) -> None:
    server = Leaves(authority, os.fspath(tmp_path)).context(Host.parse("example.com"))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(strict_client(make_authority("claude-project")), server, "example.com")


@pytest.mark.parametrize(("version", "offered"), [("TLSv1_2", "TLSv1.2"), ("TLSv1_3", "TLSv1.3")])
def test_both_versions_of_tls_are_spoken(authority: Authority, tmp_path: Path, version: str, offered: str) -> None:
    client = strict_client(authority)
    client.minimum_version = client.maximum_version = ssl.TLSVersion[version]
    server = Leaves(authority, os.fspath(tmp_path)).context(Host.parse("example.com"))
    assert shake_hands(client, server, "example.com").version() == offered


@pytest.mark.parametrize(
    ("offered", "chosen"), [(["h2", "http/1.1"], "http/1.1"), (["h2"], None), (["http/1.1"], "http/1.1")]
)
def test_only_http_1_is_agreed_on(authority: Authority, tmp_path: Path, offered: list[str], chosen: str | None) -> None:
    client = strict_client(authority)
    client.set_alpn_protocols(offered)
    server = Leaves(authority, os.fspath(tmp_path)).context(Host.parse("example.com"))
    assert shake_hands(client, server, "example.com").selected_alpn_protocol() == chosen


@pytest.mark.parametrize("text", HOSTS)
def test_openssl_verifies_the_chain_strictly(authority: Authority, tmp_path: Path, text: str) -> None:
    openssl = program("openssl")
    host = Host.parse(text)
    (tmp_path / "ca").write_bytes(authority.certificate_pem)
    (tmp_path / "leaf").write_bytes(certificates._Signer(authority).leaf(host))
    named = "-verify_hostname" if host.address is None else "-verify_ip"
    argv = [openssl, "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "ca", named, text, "leaf"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaf: OK\n", "")


def test_the_certificates_say_what_they_are(authority: Authority, tmp_path: Path) -> None:
    openssl = program("openssl")

    def shown(pem: bytes) -> str:
        argv = [openssl, "x509", "-noout", "-text"]
        return subprocess.run(argv, input=pem, capture_output=True, timeout=20, check=True).stdout.decode()

    own = shown(authority.certificate_pem)
    assert "CN = Paddock box claude-project" in own
    assert "CA:TRUE, pathlen:0" in own
    assert "Certificate Sign, CRL Sign" in own
    assert "Name Constraints" not in own
    leaf = shown(certificates._Signer(authority).leaf(Host.parse("example.com")))
    assert "CA:FALSE" in leaf
    assert "TLS Web Server Authentication" in leaf
    assert "DNS:example.com" in leaf
    assert "Authority Key Identifier" in leaf


def test_a_leaf_is_short_lived_and_the_authority_outlives_a_box(authority: Authority, tmp_path: Path) -> None:
    now = datetime.now(UTC)

    def dates(pem: bytes) -> tuple[datetime, datetime]:
        (tmp_path / "pem").write_bytes(pem)
        decoded = ssl._ssl._test_decode_cert(os.fspath(tmp_path / "pem"))  # type: ignore[attr-defined]
        begin, end = (ssl.cert_time_to_seconds(decoded[key]) for key in ("notBefore", "notAfter"))
        return datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(end, UTC)

    begin, end = dates(certificates._Signer(authority).leaf(Host.parse("example.com")))
    assert begin < now
    assert timedelta(days=7) < end - now
    assert end - begin <= timedelta(days=397)
    begin, end = dates(authority.certificate_pem)
    assert begin < now < now + timedelta(days=3600) < end < now + timedelta(days=3700)


def test_no_two_serial_numbers_are_alike(authority: Authority) -> None:
    signer = certificates._Signer(authority)
    leaves = {signer.leaf(Host.parse("example.com")) for _ in range(50)}
    assert len(leaves) == 50


@pytest.mark.parametrize("name", ["", "x" * 200, "bücher", "a/b=c,+"])
def test_any_name_of_a_box_makes_an_authority(tmp_path: Path, name: str) -> None:
    authority = make_authority(name)
    server = Leaves(authority, os.fspath(tmp_path)).context(Host.parse("example.com"))
    shake_hands(strict_client(authority), server, "example.com")


def test_an_authority_costs_a_start_less_than_a_millisecond() -> None:
    make_authority("warm")
    times = []
    for _ in range(100):
        begin = time.perf_counter()
        make_authority("claude-project")
        times.append(time.perf_counter() - begin)
    assert min(times) < 0.001


def test_an_authority_survives_the_way_to_the_gateway(authority: Authority) -> None:
    assert Authority.from_pem(authority.to_pem()) == authority


@pytest.mark.parametrize("cut", ["key", "certificate", "both", "twice"])
def test_half_an_authority_is_refused(authority: Authority, cut: str) -> None:
    data = {
        "key": authority.certificate_pem,
        "certificate": authority.key_pem,
        "both": b"",
        "twice": authority.to_pem() * 2,
    }[cut]
    with pytest.raises(Unavailable):
        Authority.from_pem(data)


def test_the_key_is_not_shown(authority: Authority) -> None:
    assert "PRIVATE" not in repr(authority)
    assert "key_pem" not in repr(authority)


def test_no_key_stays_in_the_directory(authority: Authority, tmp_path: Path) -> None:
    Leaves(authority, os.fspath(tmp_path)).context(Host.parse("example.com"))
    assert list(tmp_path.iterdir()) == []


def test_a_context_is_made_once_and_the_oldest_are_dropped(authority: Authority, tmp_path: Path) -> None:
    leaves = Leaves(authority, os.fspath(tmp_path), limit=2)
    first = leaves.context(Host.parse("a.example"))
    second = leaves.context(Host.parse("b.example"))
    assert leaves.context(Host.parse("a.example")) is first
    leaves.context(Host.parse("c.example"))
    assert leaves.context(Host.parse("a.example")) is first
    assert leaves.context(Host.parse("b.example")) is not second
    assert repr(leaves) == "<Leaves 2 of 2>"


def test_a_context_is_made_anew_after_a_day_and_after_many_uses(authority: Authority, tmp_path: Path) -> None:
    clock = [0.0]
    leaves = Leaves(authority, os.fspath(tmp_path), clock=lambda: clock[0])
    host = Host.parse("example.com")
    first = leaves.context(host)
    clock[0] = limits.LEAF_AGE_S + 1
    second = leaves.context(host)
    assert second is not first
    assert all(leaves.context(host) is second for _ in range(limits.LEAF_USES_MAX - 1))
    assert leaves.context(host) is not second


@pytest.mark.parametrize("directory", ["/nonexistent", "/proc", "/dev/null"])
def test_a_directory_that_takes_no_file_is_told(authority: Authority, directory: str) -> None:
    with pytest.raises(Unavailable):
        Leaves(authority, directory).context(Host.parse("example.com"))


def test_without_the_library_leaves_are_unavailable(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise Unavailable("no library", code="no-libcrypto")

    assert certificates.prepare(os.fspath(tmp_path))
    monkeypatch.setattr(libcrypto, "library", missing)
    leaves = Leaves(authority, os.fspath(tmp_path))
    with pytest.raises(Unavailable):
        leaves.context(Host.parse("example.com"))
    assert not certificates.prepare(os.fspath(tmp_path))


JAILED = """
import encodings.idna  # the client of this test wants it
import os, ssl, sys
sys.path.insert(0, "src")
from paddock.gateway import certificates
from paddock.gateway.refusal import TlsRefusal
from paddock.policy import Host
authority = certificates.make_authority("box")
assert certificates.prepare(sys.argv[1])
os.chroot(sys.argv[1])
os.chdir("/")
assert os.listdir("/") == []
context = certificates.Leaves(authority, "/").context(Host.parse("example.com"))
client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
client.load_verify_locations(cadata=authority.certificate_pem.decode())
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = client.wrap_bio(incoming, outgoing, server_hostname="example.com")
refusal = TlsRefusal(context, "no rule allows it")
for act in (tls.do_handshake, tls.do_handshake, lambda: tls.write(b"GET / HTTP/1.1\\r\\n\\r\\n")):
    try:
        act()
    except ssl.SSLWantReadError:
        pass
    incoming.write(refusal.feed(outgoing.read()))
print(tls.read().decode())
"""


def test_refusals_work_in_a_jail_without_any_file(tmp_path: Path) -> None:
    unshare = program("unshare")
    argv = [unshare, "--user", "--map-root-user", sys.executable, "-c", JAILED, os.fspath(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.endswith("no rule allows it\n"), done.stderr


@given(st.sampled_from(["CERTIFICATE", "EC PRIVATE KEY"]), st.binary(max_size=300), st.binary(max_size=40))
def test_what_is_written_as_pem_is_read(label: str, content: bytes, noise: bytes) -> None:
    assert from_pem(noise.replace(b"-", b"") + b"\n" + to_pem(label, content)) == [(label, content)]


@given(st.binary(max_size=300))
def test_any_bytes_are_read_as_pem_or_passed_over(data: bytes) -> None:
    from_pem(data)
    from_pem(b"-----BEGIN CERTIFICATE-----\n" + data + b"\n-----END CERTIFICATE-----\n")


def test_broken_pem_is_passed_over() -> None:
    good = to_pem("CERTIFICATE", b"x")
    bad = b"-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----\n"
    assert from_pem(bad + good + bad.replace(b"END", b"DNE") + good) == [("CERTIFICATE", b"x")] * 2


def test_reading_pem_takes_time_in_proportion() -> None:
    begin = time.monotonic()
    from_pem(b"-----BEGIN CERTIFICATE-----\n" * 30_000)
    from_pem(b"-----BEGIN CERTIFICATE-----\n" + b"A\n" * 500_000)
    assert time.monotonic() - begin < 5
