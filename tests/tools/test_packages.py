"""Package managers are given words of ours, and believed only in what their lists say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from paddock.errors import PaddockError, UserError
from paddock.tools import packages
from tests.support.tools import agent

if TYPE_CHECKING:
    from pathlib import Path

REGISTRY = "https://packages.example/"


def test_npm_runs_no_scripts_and_takes_an_exact_version() -> None:
    argv = packages.order(agent(install='npm = "@x/demo"\nalso = ["other@1.2"]'), "").at(REGISTRY)
    assert argv[:3] == ("npm", "install", "--ignore-scripts")
    assert {"--no-audit", "--no-fund", "--cache=/tmp/npm", f"--registry={REGISTRY}"} < set(argv)
    assert argv[argv.index("--") :] == ("--", "@x/demo@1.0.0", "other@1.2")


def test_a_node_is_put_beside_what_needs_one() -> None:
    asked = packages.order(agent(install='npm = "demo"\nnode = "24.21.0"'), "2.0.0")
    assert asked.at(REGISTRY)[-2:] == ("demo@2.0.0", f"node-linux-{packages.architecture()}@24.21.0")


@pytest.mark.parametrize(("version", "word"), [("", "demo==1.0.0"), ("2.0", "demo==2.0"), ("latest", "demo")])
def test_pip_takes_files_that_need_no_script(version: str, word: str) -> None:
    argv = packages.order(agent(install='pip = "demo"'), version).at("https://pypi.org/simple/")
    assert (argv[:2], argv[3]) == (("python3", "-c"), "install")
    assert {"--only-binary=:all:", "--target=lib", "--index-url=https://pypi.org/simple/"} < set(argv)
    assert argv[-1] == word


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../x",
        "a/b/c",
        "--registry=http://evil",
        "-g",
        "a b",
        "x@1",
        "git+ssh://x",
        "./x",
        "file:x",
        "x\n",
        "@x",
    ],
)
@pytest.mark.parametrize("manager", ["npm", "pip"])
def test_a_name_that_is_no_package_is_refused(name: str, manager: str) -> None:
    with pytest.raises(UserError):
        packages.order(agent(install=f"{manager} = {json.dumps(name)}"), "")


@pytest.mark.parametrize("also", ["--x", "../y@1", "x@../y", "x@--z", "git+https://x"])
def test_the_same_holds_for_what_comes_with_it(also: str) -> None:
    with pytest.raises(UserError):
        packages.order(agent(install=f'npm = "demo"\nalso = ["{also}"]'), "")


@pytest.mark.parametrize("version", ["../x", "npm:evil", "1 2", "--x", "git+https://x", "user/repo", "file:/etc"])
def test_a_version_is_one_word(version: str) -> None:
    with pytest.raises(UserError, match="is not a version"):
        packages.order(agent(), version)


def test_what_cannot_be_installed_says_what_a_person_does() -> None:
    with pytest.raises(UserError, match="cannot install Demo") as caught:
        packages.order(agent(install='otherwise = "run curl of its maker"'), "")
    assert caught.value.hint == "run curl of its maker"
    with pytest.raises(UserError) as caught:
        packages.order(agent(install=""), "")
    assert "on your PATH" in caught.value.hint


def test_a_processor_that_nobody_builds_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_ARCHITECTURES", {})
    assert packages.order(agent(), "").package == "demo"
    for more in ('node = "24.21.0"', 'entry = "demo-{arch}/demo"'):
        with pytest.raises(UserError, match="there is none for "):
            packages.order(agent(install=f'npm = "demo"\n{more}'), "")


def test_what_came_is_read_from_npms_lock_file(tmp_path: Path) -> None:
    asked = packages.order(agent(), "latest")
    packages.prepare(asked, str(tmp_path))
    rows = {"": {}, "node_modules/demo": {"version": "1.4.2", "integrity": "sha512-x"}, "node_modules/y": {"x": 1}}
    (tmp_path / "package-lock.json").write_text(json.dumps({"packages": rows}))
    came = packages.came(asked, str(tmp_path))
    assert (came.version, came.integrity) == ("1.4.2", {"node_modules/demo": "sha512-x"})
    assert json.loads((tmp_path / "package.json").read_text())["private"] is True


def test_what_came_is_read_from_pips_report(tmp_path: Path) -> None:
    asked = packages.order(agent(install='pip = "de_mo"'), "latest")
    row = {"metadata": {"name": "De.Mo", "version": "3.1"}, "download_info": {"archive_info": {"hash": "sha256=abc"}}}
    (tmp_path / "report.json").write_text(json.dumps({"install": [row]}))
    came = packages.came(asked, str(tmp_path))
    assert (came.version, came.integrity) == ("3.1", {"De.Mo==3.1": "sha256=abc"})


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", '{"packages": []}', '{"packages": {"node_modules/demo": 1}}', "[" * 100_000),
        '{"packages": {"node_modules/demo": {"version": 3}}}',
        '{"packages": {"node_modules/demo": {"version": "../../x"}}}',
        '{"packages": {"node_modules/demo": {"version": "1.0\\u001b[2J"}}}',
    ],
)
def test_a_list_that_lies_installs_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "package-lock.json").write_text(text)
    with pytest.raises(PaddockError):
        packages.came(packages.order(agent(), ""), str(tmp_path))


def test_a_list_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "real").write_text('{"packages": {"node_modules/demo": {"version": "1.0"}}}')
    (tmp_path / "package-lock.json").symlink_to("real")
    with pytest.raises(PaddockError):
        packages.came(packages.order(agent(), ""), str(tmp_path))


def test_the_entry_is_said_or_usual() -> None:
    assert packages.entry_of(agent()) == "node_modules/.bin/demo"
    assert packages.entry_of(agent(install='pip = "demo"')) == "lib/bin/demo"
    said = packages.entry_of(agent(install='npm = "demo"\nentry = "node_modules/demo-{arch}/demo"'))
    assert said == f"node_modules/demo-{packages.architecture()}/demo"
