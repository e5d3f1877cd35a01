"""Of the host's /etc only allowed names are listed, and of those only what everyone can read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paddock.engines.process import etc_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def put(root: Path, path: str, text: str = "x", mode: int = 0o644) -> Path:
    file = root / path
    for parent in reversed(file.relative_to(root).parents):
        if not (root / parent).exists():
            (root / parent).mkdir()
            (root / parent).chmod(0o755)
    file.write_text(text)
    file.chmod(mode)
    return file


def listed(root: Path) -> dict[str, str]:
    """Each listed name with its link, or the text that would be copied."""
    found = {}
    for entry in etc_sources.survey(str(root)).entries:
        data = None if entry.link else etc_sources.read_public(entry.source)
        found[entry.path] = entry.link or (data.decode() if data is not None else "")
    return found


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory outside the fake /etc to which everyone can walk, unlike pytest's own."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def test_only_allowed_names_are_listed(tmp_path: Path) -> None:
    for path in ("services", "ssl/certs/a.pem", "ssl/openssl.cnf", "java-17-openjdk/security/java.security"):
        put(tmp_path, path, path)
    for path in ("wgetrc", "ssl/other.cnf", "profile.d/proxy.sh", "apt/auth.conf", "uv/uv.toml", "php.ini"):
        put(tmp_path, path, "CANARY")
    found = listed(tmp_path)
    assert sorted(found) == ["java-17-openjdk/security/java.security", "services", "ssl/certs/a.pem", "ssl/openssl.cnf"]
    assert all(text == path for path, text in found.items())


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o660, 0o000])
def test_what_others_cannot_read_is_left_out_even_for_root(tmp_path: Path, mode: int) -> None:
    put(tmp_path, "maven/closed.xml", "CANARY", mode)
    put(tmp_path, "maven/open.xml", "fine", 0o644)
    assert listed(tmp_path) == {"maven/open.xml": "fine"}
    (tmp_path / "maven/closed.xml").chmod(0o644)
    assert listed(tmp_path) == {"maven/open.xml": "fine", "maven/closed.xml": "CANARY"}


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o754, 0o751])
def test_a_directory_others_cannot_read_or_walk_is_left_out(tmp_path: Path, mode: int) -> None:
    put(tmp_path, "maven/conf/a.xml", "CANARY")
    put(tmp_path, "maven/b.xml", "fine")
    (tmp_path / "maven/conf").chmod(mode)
    assert listed(tmp_path) == {"maven/b.xml": "fine"}
    (tmp_path / "maven/conf").chmod(0o755)
    assert listed(tmp_path) == {"maven/b.xml": "fine", "maven/conf/a.xml": "CANARY"}


def test_a_closed_parent_of_an_allowed_name_hides_it(tmp_path: Path) -> None:
    put(tmp_path, "ssl/openssl.cnf", "CANARY")
    (tmp_path / "ssl").chmod(0o700)
    assert listed(tmp_path) == {}
    (tmp_path / "ssl").chmod(0o711)
    assert listed(tmp_path) == {"ssl/openssl.cnf": "CANARY"}


@pytest.mark.parametrize(
    ("tree", "name"),
    [
        ("maven", "settings.xml"),
        ("maven", "settings-security.xml"),
        ("maven", "settings.xml.bak"),
        ("java-17-openjdk", "management/jmxremote.password"),
        ("ssl/certs", "server.key"),
        ("ssl/certs", "private/a.pem"),
        ("pki/tls/certs", "keys.p12"),
        ("python3", "pip.conf"),
        ("perl", ".netrc"),
    ],
)
def test_names_of_secrets_are_left_out_of_allowed_trees(tmp_path: Path, tree: str, name: str) -> None:
    put(tmp_path, f"{tree}/{name}", "CANARY")
    put(tmp_path, f"{tree}/twin", "fine")
    assert listed(tmp_path) == {f"{tree}/twin": "fine"}


def test_a_private_key_is_not_read_whatever_its_name_and_mode(tmp_path: Path) -> None:
    put(tmp_path, "ssl/certs/both.pem", "-----BEGIN CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\n")
    put(tmp_path, "ssl/certs/one.pem", "-----BEGIN CERTIFICATE-----\n")
    assert etc_sources.read_public(str(tmp_path / "ssl/certs/both.pem")) is None
    assert etc_sources.read_public(str(tmp_path / "ssl/certs/one.pem")) == b"-----BEGIN CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("os-release", "../usr/lib/os-release"),
        ("localtime", "/usr/share/zoneinfo/Europe/Berlin"),
        ("ssl/certs/a.pem", "/usr/share/ca-certificates/a.crt"),
        ("ssl/certs/0.0", "a.pem"),
        ("ssl/cert.pem", "../pki/tls/cert.pem"),
        ("alternatives/chrome", "/opt/google/chrome/chrome"),
        ("alternatives/editor", "/nowhere/editor"),
    ],
)
def test_a_link_whose_target_the_box_has_stays_a_link(tmp_path: Path, path: str, target: str) -> None:
    put(tmp_path, "ssl/certs/kept")
    put(tmp_path, "pki/tls/cert.pem")
    put(tmp_path, "alternatives/kept")
    (tmp_path / path).symlink_to(target)
    assert listed(tmp_path)[path] == target


def test_a_link_into_the_host_etc_means_the_box_etc(tmp_path: Path) -> None:
    put(tmp_path, "pki/java/cacerts")
    put(tmp_path, "java/kept")
    (tmp_path / "java/cacerts").symlink_to(tmp_path / "pki/java/cacerts")
    assert listed(tmp_path)["java/cacerts"] == "/etc/pki/java/cacerts"


def test_a_link_out_of_the_list_is_followed_only_to_what_everyone_can_read(tmp_path: Path) -> None:
    put(tmp_path, "elsewhere/closed", "CANARY", 0o600)
    put(tmp_path, "elsewhere/open", "twin", 0o644)
    put(tmp_path, "maven/kept")
    (tmp_path / "maven/closed").symlink_to("../elsewhere/closed")
    (tmp_path / "maven/open").symlink_to("../elsewhere/open")
    assert listed(tmp_path) == {"maven/kept": "x", "maven/open": "twin"}
    (tmp_path / "elsewhere").chmod(0o700)
    assert listed(tmp_path) == {"maven/kept": "x"}


def test_a_link_out_of_etc_needs_an_open_way_there(tmp_path: Path, open_place: Path) -> None:
    put(open_place, "pem/a.pem", "anchor")
    (tmp_path / "ssl").mkdir()
    (tmp_path / "ssl").chmod(0o755)
    (tmp_path / "ssl/certs").symlink_to(open_place / "pem")
    (tmp_path / "magic").symlink_to(open_place / "pem/a.pem")
    assert listed(tmp_path) == {"magic": "anchor", "ssl/certs/a.pem": "anchor"}
    open_place.chmod(0o750)
    assert listed(tmp_path) == {}


def test_links_do_not_lead_to_names_of_secrets_or_to_what_is_no_file(tmp_path: Path) -> None:
    put(tmp_path, "npmrc", "CANARY")
    (tmp_path / "services").symlink_to("npmrc")
    (tmp_path / "protocols").symlink_to("/proc/version")
    (tmp_path / "rpc").symlink_to("/dev/null")
    (tmp_path / "magic").symlink_to("nowhere")
    assert listed(tmp_path) == {}


def test_a_loop_of_links_ends(tmp_path: Path, open_place: Path) -> None:
    put(open_place, "a/file", "x")
    (open_place / "a/again").symlink_to(open_place / "a")
    (tmp_path / "vim").symlink_to(open_place / "a")
    found = listed(tmp_path)
    assert found["vim/file"] == "x"
    assert len(found) < 20


def test_a_large_file_and_a_pipe_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, "magic")
    os.truncate(tmp_path / "magic", (8 << 20) + 1)
    os.mkfifo(tmp_path / "services", 0o644)
    assert listed(tmp_path) == {}
    os.truncate(tmp_path / "magic", 8 << 20)
    assert set(listed(tmp_path)) == {"magic"}
    assert etc_sources.read_public(str(tmp_path / "services")) is None


def test_read_public_looks_again_at_what_it_opened(tmp_path: Path) -> None:
    file = put(tmp_path, "services", "CANARY", 0o600)
    (tmp_path / "link").symlink_to(file)
    assert etc_sources.read_public(str(file)) is None
    file.chmod(0o644)
    assert etc_sources.read_public(str(file)) == b"CANARY"
    assert etc_sources.read_public(str(tmp_path / "link")) is None


def test_php_shows_what_loads_extensions_and_no_pools(tmp_path: Path) -> None:
    put(tmp_path, "php/8.2/mods-available/xml.ini", "extension=xml")
    put(tmp_path, "php/8.2/cli/php.ini", "CANARY")
    put(tmp_path, "php/8.2/fpm/pool.d/www.conf", "CANARY")
    put(tmp_path, "php/8.2/cli/conf.d/kept.ini")
    (tmp_path / "php/8.2/cli/conf.d/20-xml.ini").symlink_to("../../mods-available/xml.ini")
    assert listed(tmp_path) == {
        "php/8.2/cli/conf.d/20-xml.ini": "../../mods-available/xml.ini",
        "php/8.2/cli/conf.d/kept.ini": "x",
        "php/8.2/mods-available/xml.ini": "extension=xml",
    }


def change_text(root: Path) -> None:
    (root / "vim/vimrc").write_text("other")


def change_mode(root: Path) -> None:
    (root / "vim/vimrc").chmod(0o600)


def add_to_a_tree(root: Path) -> None:
    put(root, "vim/new")


def add_at_the_top(root: Path) -> None:
    put(root, "services")


def add_below_a_parent(root: Path) -> None:
    put(root, "ssl/cert.pem")


def remove(root: Path) -> None:
    (root / "vim/vimrc").unlink()


@pytest.mark.parametrize(
    "change", [change_text, change_mode, add_to_a_tree, add_at_the_top, add_below_a_parent, remove]
)
def test_every_change_moves_a_watched_stamp(tmp_path: Path, change: Callable[[Path], None]) -> None:
    put(tmp_path, "vim/vimrc")
    put(tmp_path, "ssl/openssl.cnf")
    watched = etc_sources.survey(str(tmp_path)).watched
    assert {path: etc_sources.stamp(path) for path in watched} == watched
    change(tmp_path)
    assert {path: etc_sources.stamp(path) for path in watched} != watched


def test_a_crowd_of_files_is_watched_by_its_directory(tmp_path: Path) -> None:
    for number in range(200):
        put(tmp_path, f"ssl/certs/{number}.pem")
    survey = etc_sources.survey(str(tmp_path))
    assert len(survey.entries) == 200
    assert len(survey.watched) < 10


def test_the_real_etc_shows_no_secret() -> None:
    paths = {entry.path for entry in etc_sources.survey("/etc").entries}
    assert paths, "this machine has an /etc"
    for entry in paths:
        assert not set(entry.split("/")) & {"shadow", "gshadow", "sudoers", "private", "gitconfig", "npmrc", "pip.conf"}
