"""Keys and signatures, checked with the openssl program; and what happens without the library."""

from __future__ import annotations

import ssl
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from paddock.errors import Unavailable
from paddock.gateway import libcrypto
from tests.style.source import ROOT
from tests.support.programs import program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def fresh() -> Iterator[None]:
    libcrypto.library.cache_clear()
    yield
    libcrypto.library.cache_clear()


def test_a_key_survives_being_written_and_read() -> None:
    key = libcrypto.generate()
    assert libcrypto.load(key.private_der()).private_der() == key.private_der()


def test_every_key_is_another() -> None:
    assert len({libcrypto.generate().private_der() for _ in range(20)}) == 20


def test_openssl_verifies_a_signature(tmp_path: Path) -> None:
    openssl = program("openssl")
    key = libcrypto.generate()
    (tmp_path / "key").write_bytes(key.private_der())
    (tmp_path / "data").write_bytes(b"a" * 1000)
    (tmp_path / "signature").write_bytes(key.sign(b"a" * 1000))

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([openssl, *args], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)

    assert run("ec", "-inform", "DER", "-in", "key", "-pubout", "-out", "public").returncode == 0
    verify = ("dgst", "-sha256", "-verify", "public", "-signature", "signature")
    assert "Verified OK" in run(*verify, "data").stdout
    (tmp_path / "data").write_bytes(b"a" * 999)
    assert run(*verify, "data").returncode != 0


@pytest.mark.parametrize("data", [b"", b"0", b"0\x00", b"x" * 121, bytes(121)])
def test_what_is_no_key_is_refused_and_leaves_no_error_behind(data: bytes) -> None:
    with pytest.raises(Unavailable):
        libcrypto.load(data)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # would raise for an error left in OpenSSL's queue


def test_a_key_does_not_show_itself() -> None:
    assert repr(libcrypto.generate()) == "<Key P-256 ***>"


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("candidates", [[], ["libc.so.6"], ["libnothing-of-this-name.so"]])
def test_without_the_library_it_says_so(monkeypatch: pytest.MonkeyPatch, candidates: list[str]) -> None:
    monkeypatch.setattr(libcrypto, "_candidates", lambda: candidates)
    with pytest.raises(Unavailable) as raised:
        libcrypto.generate()
    assert raised.value.code == "no-libcrypto"


@pytest.mark.parametrize("own", [True, False])
def test_it_is_the_library_python_itself_uses(own: bool) -> None:
    """Whether found through `_ssl` or by its name, the process maps one libcrypto and not two."""
    code = (
        "import sys; sys.path.insert(0, 'src')\n"
        "from paddock.gateway import libcrypto\n"
        f"if not {own}: libcrypto._candidates = lambda: list(libcrypto._names())\n"
        "libcrypto.generate()\n"
        "print({line.split()[-1] for line in open('/proc/self/maps') if 'libcrypto' in line})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    if not own and "no-libcrypto" in done.stderr:
        pytest.skip("this Python has OpenSSL built in")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("libcrypto") <= 1
