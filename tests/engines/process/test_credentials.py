"""Files are judged by name, near the top of a tree and cheaply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import credentials
from tests.support.scarcity import no_descriptors

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "name",
    [
        *(".npmrc", "npmrc", ".netrc", "_netrc", ".pypirc", ".condarc", "pip.conf", "auth.json", "auth.toml"),
        *("credentials", "credentials.toml", ".credentials.json", "credentials.json", "credentials_db", "token"),
        *("tokens.json", ".env", ".env.local", "id_rsa", "id_ed25519", "server.key", "dev.pfx", "access_token"),
        *("secrets.yaml", ".git-credentials", ".vault-token", "privkey.pem", "server-key.pem", "Credentials"),
    ],
)
def test_a_credential_is_known_by_its_name(name: str) -> None:
    assert credentials.looks_like_one(name)


@pytest.mark.parametrize(
    "name",
    [
        *("node", "python3", "env", "env.fish", "cacert.pem", "README.md", "id_rsa.pub", "keyring", "tokenize.py"),
        *("git-credential-manager", "docker-credential-pass", "secretary", "monkey.pem", "config", "auth"),
    ],
)
def test_a_program_is_not(name: str) -> None:
    assert not credentials.looks_like_one(name)


def test_two_levels_are_searched_and_code_is_not(tmp_path: Path) -> None:
    found = ("npmrc", "etc/npmrc", "credentials/one", "credentials/two", "conf/secrets/key")
    skipped = ("bin/token", "lib/credentials.py", "a/b/npmrc", "node_modules/.env")
    for path in (*found, *skipped):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    assert sorted(credentials.near_the_top(str(tmp_path))) == sorted(str(tmp_path / path) for path in found)


def test_a_directory_of_programs_is_searched_itself(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/.netrc").write_text("x")
    assert list(credentials.near_the_top(str(tmp_path / "bin"))) == [str(tmp_path / "bin/.netrc")]


def test_a_missing_tree_has_none(tmp_path: Path) -> None:
    assert list(credentials.near_the_top(str(tmp_path / "missing"))) == []


def test_without_descriptors_nothing_is_taken_for_harmless(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("x")
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        list(credentials.near_the_top(str(tmp_path)))
    assert list(credentials.near_the_top(str(tmp_path))) == [str(tmp_path / ".netrc")]
