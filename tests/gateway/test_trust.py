"""Real programs trust a box's authority through the files we write, and meet its refusal as readable text."""

from __future__ import annotations

import os
import ssl
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.gateway import trust
from paddock.gateway.certificates import Authority, Leaves, from_pem, make_authority, to_pem
from paddock.policy import Host
from tests.support.programs import program
from tests.support.tls import refusing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.box

TEXT = "no rule allows localhost:443\n"
JAVA_PROGRAM = """
import java.net.*;
public class Fetch {
    public static void main(String[] args) throws Exception {
        HttpURLConnection connection = (HttpURLConnection) new URL(args[0]).openConnection();
        System.out.println(connection.getResponseCode());
        System.out.print(new String(connection.getErrorStream().readAllBytes()));
    }
}
"""
GO_PROGRAM = """
package main
import ("fmt"; "io"; "net/http"; "os")
func main() {
    answer, err := http.Get(os.Args[1])
    if err != nil { fmt.Println(err); os.Exit(1) }
    body, _ := io.ReadAll(answer.Body)
    fmt.Println(answer.StatusCode)
    fmt.Print(string(body))
}
"""


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority("box")


@pytest.fixture(scope="module")
def host_bundle(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The host's own bundle where it has one, else three certificates in place of one."""
    found = trust.host_bundle_path()
    if found:
        return found
    path = tmp_path_factory.mktemp("host") / "bundle.pem"
    path.write_bytes(b"".join(make_authority(f"host {n}").certificate_pem for n in range(3)))
    return os.fspath(path)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, authority: Authority, host_bundle: str) -> Path:
    directory = tmp_path_factory.mktemp("net")
    trust.install(os.fspath(directory), authority, host_bundle=host_bundle, java=True)
    return directory


@pytest.fixture(scope="module")
def url(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    leaves = Leaves(authority, os.fspath(tmp_path_factory.mktemp("leaves")))
    with refusing(leaves.context(Host.parse("localhost")), TEXT) as port:
        yield f"https://localhost:{port}/some/path"


def run(*argv: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": os.environ["PATH"], "HOME": os.fspath(cwd), "LC_ALL": "C.UTF-8", **env}
    return subprocess.run(argv, cwd=cwd, env=clean, capture_output=True, text=True, timeout=100, check=False)


def test_the_bundle_holds_the_hosts_certificates_and_one_more(installed: Path, host_bundle: str) -> None:
    before, after = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    before.load_verify_locations(host_bundle)
    after.load_verify_locations(installed / "bundle.pem")
    old, new = before.get_ca_certs(binary_form=True), after.get_ca_certs(binary_form=True)
    assert len(old) > 1
    assert set(old) < set(new)
    assert len(new) == len(old) + 1


def test_only_the_owner_reads_the_key_and_everyone_the_rest(installed: Path) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in installed.iterdir()}
    assert modes == {"authority.pem": 0o600, "bundle.pem": 0o644, "cacerts": 0o644}
    assert b"PRIVATE" not in (installed / "bundle.pem").read_bytes() + (installed / "cacerts").read_bytes()


def test_an_authority_is_read_back(installed: Path, authority: Authority, tmp_path: Path) -> None:
    assert trust.load(os.fspath(installed)) == authority
    with pytest.raises(Unavailable):
        trust.load(os.fspath(tmp_path))


def test_a_start_without_java_writes_no_store(tmp_path: Path, authority: Authority) -> None:
    trust.install(os.fspath(tmp_path), authority, host_bundle=None, java=False)
    assert (tmp_path / "bundle.pem").read_bytes() == authority.certificate_pem
    assert not (tmp_path / "cacerts").exists()


def test_a_later_start_replaces_the_files_and_not_their_content(tmp_path: Path, authority: Authority) -> None:
    """A box that is still there keeps the file it has mounted."""
    trust.install(os.fspath(tmp_path), authority, host_bundle=None, java=False)
    with (tmp_path / "bundle.pem").open("rb") as mounted:
        trust.install(os.fspath(tmp_path), make_authority("next"), host_bundle=None, java=False)
        assert mounted.read() == authority.certificate_pem
    assert (tmp_path / "bundle.pem").read_bytes() != authority.certificate_pem


def test_a_host_bundle_that_changed_is_read_again(tmp_path: Path, authority: Authority) -> None:
    path = tmp_path / "host.pem"

    def installed() -> bytes:
        trust.install(os.fspath(tmp_path), authority, host_bundle=os.fspath(path), java=False)
        return (tmp_path / "bundle.pem").read_bytes()

    path.write_bytes(b"first\n")
    assert installed().endswith(b"first\n")
    path.write_bytes(b"second\n")
    assert installed().endswith(b"second\n")
    path.unlink()
    assert installed() == authority.certificate_pem


def test_a_directory_that_takes_no_file_is_told(tmp_path: Path, authority: Authority) -> None:
    with pytest.raises(Unavailable, match="certificates of a box"):
        trust.install(os.fspath(tmp_path / "missing"), authority, host_bundle=None, java=False)


# -- programs: each must refuse without the bundle, or its success proves nothing --------------------------------------
def test_curl_shows_the_refusal(installed: Path, url: str, tmp_path: Path) -> None:
    argv = (program("curl"), "-sS", "--noproxy", "*", "-w", "%{http_code}", url)
    assert run(*argv, cwd=tmp_path).returncode == 60
    done = run(*argv, cwd=tmp_path, CURL_CA_BUNDLE=os.fspath(installed / "bundle.pem"))
    assert (done.stdout, done.stderr) == (f"{TEXT}403", "")


@pytest.mark.parametrize("version", ["--tlsv1.2", "--tlsv1.3"])
def test_curl_posts_a_large_body_and_still_reads_the_refusal(
    installed: Path, url: str, tmp_path: Path, version: str
) -> None:
    (tmp_path / "body").write_bytes(b"x" * 300_000)
    argv = (program("curl"), "-sS", "--noproxy", "*", version, "--tls-max", version[-3:], "-T", "body", url)
    done = run(*argv, cwd=tmp_path, CURL_CA_BUNDLE=os.fspath(installed / "bundle.pem"))
    assert TEXT in done.stdout, done.stderr


def test_node_fetch_shows_the_refusal(installed: Path, url: str, tmp_path: Path) -> None:
    code = f"fetch('{url}').then(async r => console.log(r.status, await r.text()), e => console.log(e.cause.code))"
    argv = (program("node"), "-e", code)
    assert "UNABLE_TO_VERIFY" in run(*argv, cwd=tmp_path).stdout
    done = run(*argv, cwd=tmp_path, NODE_EXTRA_CA_CERTS=os.fspath(installed / "bundle.pem"))
    assert done.stdout == f"403 {TEXT}\n", done.stderr


def test_python_shows_the_refusal(installed: Path, url: str, tmp_path: Path) -> None:
    code = (
        "import ssl, sys, urllib.request, urllib.error\n"
        "context = ssl.create_default_context()\n"
        "context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN\n"
        "try: urllib.request.urlopen(sys.argv[1], context=context)\n"
        "except urllib.error.HTTPError as error: print(error.code, error.read().decode())\n"
    )
    argv = (program("python3"), "-c", code, url)
    assert "CERTIFICATE_VERIFY_FAILED" in run(*argv, cwd=tmp_path).stderr
    done = run(*argv, cwd=tmp_path, SSL_CERT_FILE=os.fspath(installed / "bundle.pem"))
    assert done.stdout == f"403 {TEXT}\n", done.stderr


def test_git_shows_the_refusal(installed: Path, url: str, tmp_path: Path) -> None:
    argv = (program("git"), "ls-remote", url)
    assert "certificate" in run(*argv, cwd=tmp_path).stderr
    done = run(*argv, cwd=tmp_path, GIT_SSL_CAINFO=os.fspath(installed / "bundle.pem"))
    assert "403" in done.stderr
    assert TEXT.strip() in done.stderr


def test_go_shows_the_refusal(installed: Path, url: str, tmp_path: Path) -> None:
    go = program("go")
    (tmp_path / "fetch.go").write_text(GO_PROGRAM)
    offline = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GO111MODULE": "off", "GOTOOLCHAIN": "local"}
    built = run(go, "build", "-o", "fetch", "fetch.go", cwd=tmp_path, **offline)
    assert built.returncode == 0, built.stderr
    assert "certificate" in run("./fetch", url, cwd=tmp_path).stdout
    done = run("./fetch", url, cwd=tmp_path, SSL_CERT_FILE=os.fspath(installed / "bundle.pem"))
    assert done.stdout == f"403\n{TEXT}", done.stderr


def test_openssl_shows_the_refusal(installed: Path, url: str, tmp_path: Path) -> None:
    peer = url.split("/")[2]
    argv = (program("openssl"), "s_client", "-verify_return_error", "-servername", "localhost", "-connect", peer)
    done = run(*argv, "-brief", "-CAfile", os.fspath(installed / "bundle.pem"), cwd=tmp_path)
    assert "Verification: OK" in done.stderr


# -- Java --------------------------------------------------------------------------------------------------------------
def test_keytool_lists_every_certificate(
    installed: Path, authority: Authority, tmp_path: Path, host_bundle: str
) -> None:
    argv = (program("keytool"), "-list", "-keystore", os.fspath(installed / "cacerts"), "-storepass", "changeit")
    done = run(*argv, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    with open(host_bundle, "rb") as file:
        host = {der for label, der in from_pem(file.read()) if label == "CERTIFICATE"}
    assert done.stdout.count("trustedCertEntry") == len(host) + 1
    assert run(*argv[:-1], "changed", cwd=tmp_path).returncode != 0


def java_store(certificates: list[bytes]) -> bytes:
    return b"".join(trust._Store(certificates).parts(()))


def test_keytool_gives_the_certificate_back(tmp_path: Path, authority: Authority) -> None:
    keytool = program("keytool")
    (label, own), *_ = from_pem(authority.certificate_pem)
    (tmp_path / "store").write_bytes(java_store([own]))
    argv = (keytool, "-exportcert", "-rfc", "-alias", "paddock-0", "-keystore", "store", "-storepass", "changeit")
    assert from_pem(run(*argv, cwd=tmp_path).stdout.encode()) == [(label, own)]


def test_a_damaged_store_is_refused_by_java(tmp_path: Path, authority: Authority) -> None:
    """The digest over the whole is right, or the store above would not have been read either."""
    keytool = program("keytool")
    data = bytearray(java_store([from_pem(authority.certificate_pem)[0][1]]))
    data[40] ^= 1
    (tmp_path / "store").write_bytes(data)
    argv = (keytool, "-list", "-keystore", "store", "-storepass", "changeit")
    assert run(*argv, cwd=tmp_path).returncode != 0


def test_java_shows_the_refusal(installed: Path, url: str, tmp_path: Path) -> None:
    java = program("java")
    if "jdk.compiler" not in run(java, "--list-modules", cwd=tmp_path).stdout:
        pytest.skip("this Java has no compiler")
    (tmp_path / "Fetch.java").write_text(JAVA_PROGRAM)
    assert "CertPathBuilderException" in run(java, "Fetch.java", url, cwd=tmp_path).stderr
    store = f"-Djavax.net.ssl.trustStore={installed / 'cacerts'}"
    done = run(java, store, "Fetch.java", url, cwd=tmp_path)
    assert done.stdout == f"403\n{TEXT}", done.stderr


def test_an_empty_store_is_a_store() -> None:
    assert java_store([])[:12].hex() == "feedfeed" + "00000002" + "00000000"


def test_a_bundle_of_other_things_makes_no_java_entries(tmp_path: Path, authority: Authority) -> None:
    path = tmp_path / "host.pem"
    path.write_bytes(b"# comment\n" + to_pem("TRUSTED CERTIFICATE", b"x") + authority.certificate_pem * 2)
    trust.install(os.fspath(tmp_path), make_authority("box"), host_bundle=os.fspath(path), java=True)
    assert (tmp_path / "cacerts").read_bytes()[8:12] == b"\x00\x00\x00\x02"
