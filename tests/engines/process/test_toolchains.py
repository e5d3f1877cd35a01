"""The caller's tools appear in a box, and nothing else of the caller's home does."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from paddock.engines.process import toolchains
from paddock.engines.process.toolchain_table import ROWS, Row
from paddock.engines.process.toolchains import Toolchains
from tests.engines.process.toolchain_cases import CASES, PLACES, Case

CANARY = "CANARY"
PROGRAM = "#!/bin/sh\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the secrets every home has."""
    path = tmp_path / "home"
    for name in (".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".netrc", "notes/diary.txt"):
        secret(path, name)
    return path


def put(home: Path, *paths: str) -> None:
    for path in paths:
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(PROGRAM)
        (home / path).chmod(0o755)


def secret(home: Path, *paths: str) -> None:
    for path in paths:
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(CANARY)


def link(home: Path, path: str, target: str) -> None:
    (home / path).parent.mkdir(parents=True, exist_ok=True)
    (home / path).symlink_to(target.replace("~", str(home)))


def find(home: Path, *entries: str) -> Toolchains:
    return toolchains.find(":".join(str(home / entry) for entry in entries), str(home))


def below(home: Path, paths: tuple[str, ...]) -> list[str]:
    return [path.removeprefix(f"{home}/") for path in paths]


def files_in(tree: str) -> list[str]:
    return [os.path.join(top, name) for top, _, names in os.walk(tree) for name in names]


def visible(found: Toolchains) -> set[str]:
    """The files a box can read: all in the trees but the covered; a link counts by where it leads in the box."""
    shown = {path for tree in found.trees for path in files_in(tree)}
    return {path for path in shown if not os.path.islink(path) and path not in found.covers}


def leaks(found: Toolchains) -> set[str]:
    return {path for path in visible(found) if CANARY in Path(path).read_text()}


def assert_no_leak(home: Path, found: Toolchains) -> None:
    """Oracle: the home does hold canaries, and whoever is shown the whole home reads them."""
    assert leaks(Toolchains(trees=(str(home),)))
    assert leaks(found) == set()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_tool_is_shown_as_installed_and_its_credentials_are_not(home: Path, case: Case) -> None:
    put(home, *case.files)
    secret(home, *case.secrets)
    for path, target in case.links.items():
        link(home, path, target)
    found = find(home, *case.path)
    assert below(home, found.trees) == sorted(case.trees)
    assert below(home, found.covers) == sorted(case.covers)
    assert found.env == {name: str(home / place) for name, place in case.env.items()}
    assert below(home, found.path) == list(case.path)
    assert_no_leak(home, found)


@pytest.mark.parametrize("row", [row for row in ROWS if row.root.startswith("~/")], ids=lambda row: row.root)
def test_every_row_shows_what_it_says_and_hides_what_lies_beside(home: Path, row: Row) -> None:
    root = row.root.removeprefix("~/").replace("*", "1")
    put(home, *(os.path.join(root, place, "program") for place in row.shows))
    secret(home, *(os.path.join(root, place.replace("*", "1")) for place in row.secrets))
    secret(home, os.path.join(root, "credentials"), os.path.join(os.path.dirname(root), "beside.txt"))
    found = find(home, os.path.join(root, row.shows[0]))
    assert below(home, found.trees) == sorted(os.path.normpath(os.path.join(root, place)) for place in row.shows)
    assert len(found.path) == 1
    assert_no_leak(home, found)


@pytest.mark.parametrize(
    "entry",
    [
        *("", ".", "bin", "node_modules/.bin", "~/bin", "/nowhere/bin", "/", "/home", "/proc/self/cwd", "/etc"),
        *("{home}", "{home}/", "{home}/..", "{home}/.ssh", "{home}/.config", "{home}/.config/gh", "{home}/.aws/"),
        *("{home}/bin/../.ssh", "{home}/.local", "{home}/.local/share", "{home}/.cargo", "{home}/.local/share/uv"),
        "{home}/bin/hello",
    ],
)
def test_an_entry_that_is_never_shown(home: Path, entry: str) -> None:
    put(home, "bin/hello", ".cargo/bin/cargo", ".local/bin/x", ".local/share/uv/tools/ruff/bin/ruff")
    found = toolchains.find(entry.format(home=home), str(home))
    assert found == Toolchains()
    assert find(home, "bin").trees == (str(home / "bin"),), "the home itself is usable"


def test_parents_of_the_home_are_never_shown(home: Path) -> None:
    for parent in home.parents:
        assert toolchains.find(str(parent), str(home)).trees == ()


@pytest.mark.parametrize("name", ["token", "etc/npmrc", ".env", "deploy/id_rsa"])
def test_an_unknown_directory_with_a_credential_is_not_shown(home: Path, name: str) -> None:
    put(home, "scripts/run")
    assert below(home, find(home, "scripts").trees) == ["scripts"]
    secret(home, f"scripts/{name}")
    assert find(home, "scripts") == Toolchains()


def test_the_system_is_kept_in_the_callers_order(home: Path) -> None:
    put(home, "bin/hello")
    value = f"/usr/bin:{home}/bin/:/usr/bin:/bin:/usr/nowhere"
    found = toolchains.find(value, str(home))
    assert found.path == ("/usr/bin", f"{home}/bin", "/bin")
    assert found.trees == (f"{home}/bin",)


def test_nested_trees_collapse(home: Path) -> None:
    put(home, "scripts/run", "scripts/more/run", ".pyenv/shims/python", ".pyenv/bin/pyenv")
    assert below(home, find(home, "scripts/more", ".pyenv/bin", "scripts", ".pyenv/shims").trees) == [
        ".pyenv",
        "scripts",
    ]


def test_a_link_at_the_root_of_a_tool_shows_both_names(home: Path, tmp_path: Path) -> None:
    put(tmp_path, "disk/nvm/versions/node/v20/bin/node")
    secret(tmp_path, "disk/nvm/versions/node/v20/etc/npmrc", "disk/other.txt")
    (home / ".nvm").symlink_to(tmp_path / "disk/nvm")
    found = find(home, ".nvm/versions/node/v20/bin")
    names = (f"{tmp_path}/disk/nvm", f"{home}/.nvm")
    assert found.trees == names
    assert found.covers == tuple(f"{name}/versions/node/v20/etc/npmrc" for name in names)
    assert found.path == (f"{home}/.nvm/versions/node/v20/bin",)
    assert_no_leak(tmp_path, found)


@pytest.mark.parametrize("target", ["home/.ssh", "home/.config/other", "home", "."])
def test_a_link_at_the_root_of_a_tool_does_not_open_what_is_never_shown(
    home: Path, tmp_path: Path, target: str
) -> None:
    put(tmp_path, f"{target}/bin/node", "disk/bin/node")
    link(tmp_path, "home/.nvm", str(tmp_path / target))
    assert find(home, ".nvm/bin") == Toolchains()
    link(tmp_path, "home/.n", str(tmp_path / "disk"))
    assert find(home, ".n/bin").path == (f"{home}/.n/bin",)


@pytest.mark.parametrize("writable", ["disk", "disk/nvm"])
def test_a_link_at_the_root_of_a_tool_does_not_open_what_others_could_swap(
    home: Path, tmp_path: Path, writable: str
) -> None:
    put(tmp_path, "disk/nvm/bin/node")
    link(tmp_path, "home/.nvm", str(tmp_path / "disk/nvm"))
    (tmp_path / writable).chmod(0o777)
    assert find(home, ".nvm/bin") == Toolchains()
    (tmp_path / writable).chmod(0o755)
    assert find(home, ".nvm/bin").path == (f"{home}/.nvm/bin",)


@pytest.mark.privileged
def test_a_link_of_another_user_is_not_followed(home: Path, tmp_path: Path) -> None:
    put(tmp_path, "disk/bin/node")
    link(tmp_path, "home/.nvm", str(tmp_path / "disk"))
    assert find(home, ".nvm/bin").path == (f"{home}/.nvm/bin",)
    os.chown(home / ".nvm", 61234, 61234, follow_symlinks=False)
    assert find(home, ".nvm/bin") == Toolchains()


def test_a_home_behind_a_link_shows_both_names(home: Path, tmp_path: Path) -> None:
    put(home, ".cargo/bin/cargo", "scripts/run", ".rustup/x")
    (tmp_path / "alias").symlink_to(home)
    alias = tmp_path / "alias"
    found = toolchains.find(f"{alias}/.cargo/bin:{home}/scripts:{alias}/scripts", str(alias))
    both = [str(top / place) for top in (alias, home) for place in (".cargo/bin", ".rustup", "scripts")]
    assert list(found.trees) == sorted(both)
    assert found.path == (f"{alias}/.cargo/bin", f"{home}/scripts", f"{alias}/scripts")
    assert_no_leak(home, found)


def test_a_link_to_the_system_is_named_by_its_target(home: Path) -> None:
    (home / "tools").symlink_to("/usr/bin")
    found = find(home, "tools")
    assert (found.trees, found.path) == ((), ("/usr/bin",))


@pytest.mark.parametrize("target", [".ssh", "notes", ".", "..", ".config/gh"])
@pytest.mark.parametrize("entry", ["project/.venv/bin", "project/.venv/bin/more", "project/tools"])
def test_a_link_planted_in_a_project_shows_nothing_of_the_home(home: Path, entry: str, target: str) -> None:
    put(home, f"{entry}/program")
    put(home, "notes/more/program")
    assert below(home, find(home, entry).trees) == [entry], "without the link it is shown"
    (home / entry / "program").unlink()
    (home / entry).rmdir()
    link(home, entry, f"~/{target}")
    found = find(home, entry)
    assert found == Toolchains()
    assert_no_leak(home, found)


def test_a_link_planted_above_the_entry_shows_nothing_of_the_home(home: Path) -> None:
    put(home, "other/bin/program", "other/pyvenv.cfg")
    secret(home, "other/bin/thesis.txt")
    link(home, "project/.venv", "~/other")
    assert find(home, "project/.venv/bin") == Toolchains()
    assert below(home, find(home, "other/bin").trees) == ["other"], "under its own name it is shown"


def test_a_link_planted_inside_a_tool_shows_nothing_of_the_home(home: Path) -> None:
    put(home, ".pyenv/shims/python", "go/src/x", "notes/bin/x")
    link(home, ".pyenv/plugins/mine/bin", "~/notes/bin")
    link(home, "go/bin", "~/notes/bin")
    found = find(home, ".pyenv/plugins/mine/bin", "go/bin")
    assert found.path == ()
    assert_no_leak(home, found)


def test_links_among_own_programs_lead_only_to_tools(home: Path) -> None:
    put(home, ".local/bin/own", "src/app/run")
    link(home, ".local/bin/app", "~/src/app/run")
    link(home, ".local/bin/key", "~/.ssh/id_ed25519")
    found = find(home, ".local/bin")
    assert below(home, found.trees) == [".local/bin"]
    assert_no_leak(home, found)


def test_a_covered_link_covers_the_file_it_leads_to(home: Path) -> None:
    put(home, ".nvm/versions/node/v20/bin/node")
    secret(home, ".nvm/hidden")
    link(home, ".nvm/.npmrc", "hidden")
    link(home, ".nvm/npmrc", "~/.netrc")
    found = find(home, ".nvm/versions/node/v20/bin")
    assert below(home, found.covers) == [".nvm/hidden"]
    assert_no_leak(home, found)


def test_a_directory_everyone_can_write_is_not_shown(home: Path) -> None:
    put(home, "bin/hello", ".pyenv/shims/python")
    for place in ("bin", ".pyenv"):
        (home / place).chmod(0o777)
    assert find(home, "bin", ".pyenv/shims") == Toolchains()
    for place in ("bin", ".pyenv"):
        (home / place).chmod(0o755)
    assert below(home, find(home, "bin", ".pyenv/shims").trees) == [".pyenv", "bin"]


@pytest.mark.privileged
def test_what_another_user_owns_is_not_shown(home: Path) -> None:
    put(home, "bin/hello")
    os.chown(home / "bin", 61234, 61234)
    assert find(home, "bin") == Toolchains()
    os.chown(home / "bin", 0, 0)
    assert below(home, find(home, "bin").trees) == ["bin"]


def test_a_virtual_environment_that_is_a_project_shows_only_its_programs(home: Path) -> None:
    put(home, "project/pyvenv.cfg", "project/bin/python", "project/.git/HEAD")
    secret(home, "project/thesis.txt")
    found = find(home, "project/bin")
    assert below(home, found.trees) == ["project/bin"]
    assert_no_leak(home, found)


def test_without_a_home_only_the_system_and_plain_directories_are_shown(tmp_path: Path) -> None:
    put(tmp_path, "tools/run")
    for home in ("", "relative", "."):
        found = toolchains.find(f"/usr/bin:{tmp_path}/tools", home)
        assert (found.trees, found.path) == ((f"{tmp_path}/tools",), ("/usr/bin", f"{tmp_path}/tools"))


def test_a_home_with_odd_characters_is_taken_literally(tmp_path: Path) -> None:
    home = tmp_path / "u [x]*?"
    put(home, ".local/bin/flask", ".local/lib/python3.11/site-packages/flask.py", ".nvm/versions/node/v20/bin/node")
    secret(home, ".nvm/versions/node/v20/etc/npmrc", "y")
    found = find(home, ".local/bin", ".nvm/versions/node/v20/bin")
    assert below(home, found.trees) == [".local/bin", ".local/lib/python3.11", ".nvm"]
    assert_no_leak(home, found)


@pytest.mark.privileged
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_a_place_outside_the_home(
    tmp_path: Path, place: tuple[tuple[str, ...], dict[str, str], str, tuple[str, ...], str]
) -> None:
    files, links, path, trees, shown = place
    put(tmp_path, "home/u/notes/bin/y", *files)
    for name, target in links.items():
        link(tmp_path, name, target)
    found = find_under(tmp_path, path, "/home/u")
    assert (found["trees"], found["path"]) == (list(trees), [shown] if shown else [])


def find_under(root: Path, path: str, home: str) -> dict[str, list[str]]:
    """What `find` says on a machine whose / is `root`."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.chroot(root)
            os.chdir("/")
            found = toolchains.find(path, home)
            os.write(writer, json.dumps({"trees": found.trees, "path": found.path}).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    answer: dict[str, list[str]] = json.loads(text)
    return answer
