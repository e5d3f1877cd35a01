from __future__ import annotations

import json

import pytest

from paddock.workspace import manifests


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({}, {"name": "x", "version": "1"}, []),
        ({"scripts": {"test": "jest"}}, {"scripts": {"test": "jest"}, "description": "x"}, []),
        ({}, {"scripts": {"postinstall": "evil"}}, ["changes 'scripts'"]),
        ({"scripts": {"a": "b"}}, {}, ["changes 'scripts'"]),
        ({}, {"dependencies": {"left-pad": "^1.0.0"}}, []),
        ({}, {"dependencies": {"x": "git+ssh://git@evil.test/x"}}, ["takes 'x' from 'git+ssh://git@evil.test/x'"]),
        ({}, {"devDependencies": {"x": "evil/repo"}}, ["takes 'x' from 'evil/repo'"]),
        ({}, {"dependencies": {"x": "npm:other@1"}}, ["takes 'x' from 'npm:other@1'"]),
        ({"dependencies": {"x": "file:../x"}}, {"dependencies": {"x": "file:../x"}}, []),
        ({}, {"overrides": {"x": "1"}}, ["changes 'overrides'"]),
    ],
)
def test_of_a_package_json_only_what_is_run_or_fetched_is_told(old: object, new: object, said: list[str]) -> None:
    assert manifests.package_json(json.dumps(old).encode(), json.dumps(new).encode()) == said


@pytest.mark.parametrize("text", ["{", '{"scripts": {}, "scripts": {}}', "[" * 100_000, "\xff"])
def test_what_cannot_be_read_one_way_is_unclear(text: str) -> None:
    with pytest.raises(manifests.Unclear):
        manifests.package_json(None, text.encode("latin-1"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "[project]\nname = 'x'\ndependencies = ['requests>=2']\n", []),
        ("", "[tool.ruff]\nline-length = 100\n", []),
        ("", "[build-system]\nrequires = ['evil']\n", ["changes 'build-system'"]),
        ("", "[tool.hatch.build.hooks.custom]\n", ["changes 'tool.hatch'"]),
        ("", "[project]\ndependencies = ['x @ https://evil.test/x.whl']\n",
         ["takes a package from 'x @ https://evil.test/x.whl'"]),
        ("", "[dependency-groups]\ndev = ['x @ git+https://evil.test/x']\n",
         ["takes a package from 'x @ git+https://evil.test/x'"]),
        ("[build-system]\nrequires = []\n", "[build-system]\nrequires = []\n[project]\nname = 'x'\n", []),
    ],
)  # fmt: skip
def test_of_a_pyproject_only_what_is_run_or_fetched_is_told(old: str, new: str, said: list[str]) -> None:
    assert manifests.pyproject(old.encode(), new.encode()) == said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "[dependencies]\nserde = '1'\n", []),
        ("", "[build-dependencies]\ncc = '1'\n", ["changes 'build-dependencies'"]),
        ("", "[package]\nbuild = 'evil.rs'\n", ["changes 'package.build'"]),
        ("", "[dependencies]\nx = { git = 'https://evil.test' }\n", ["takes 'x' from elsewhere than crates.io"]),
        ("", "[patch.crates-io]\nx = { path = '../x' }\n", ["changes 'patch'"]),
    ],
)
def test_of_a_cargo_toml_only_what_is_run_or_fetched_is_told(old: str, new: str, said: list[str]) -> None:
    assert manifests.cargo(old.encode(), new.encode()) == said


def test_of_a_go_mod_replacements_and_tools_are_told() -> None:
    assert manifests.go_mod(b"", b"module x\nrequire y v1\n") == []
    assert manifests.go_mod(b"", b"replace y => ../evil\n") == ["says 'replace y => ../evil'"]


def npm(**more: object) -> dict[str, object]:
    plain = {"version": "1.0.0", "integrity": "sha512-x", "resolved": "https://packages.npmjs.org/a.tgz"}
    return {"packages": {"node_modules/a": {**plain, **more}}}


NPM = npm()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (None, NPM, ""),
        (NPM, NPM, ""),
        (NPM, npm(version="1.0.1", integrity="sha512-y"), ""),
        (NPM, npm(integrity="sha512-y"), "other content under the same version"),
        (NPM, npm(version="2.0.0", integrity=""), "without a digest"),
        (NPM, npm(version="2.0.0", integrity="sha512-z", hasInstallScript=True), "run a program when it is installed"),
        (NPM, npm(version="2.0.0", resolved="https://evil.test/a.tgz"), "https://evil.test"),
        (NPM, npm(version="2.0.0", resolved="http://packages.npmjs.org/a.tgz"), "http://packages.npmjs.org"),
        (NPM, npm(version="2.0.0", resolved="git+ssh://git@github.com/x/y"), "git@github.com"),
        (NPM, npm(version="2.0.0", resolved="file:../evil"), "file:../evil"),
    ],
)
def test_a_poisoned_package_lock_is_told(old: object, new: object, said: str) -> None:
    found = manifests.lockfile(
        "package-lock.json", None if old is None else json.dumps(old).encode(), json.dumps(new).encode()
    )
    assert bool(found) == bool(said)
    assert said in "".join(found)


@pytest.mark.parametrize(
    ("name", "old", "new", "is_told"),
    [
        (
            "yarn.lock",
            b'resolved "https://yarnpkg.com/a"',
            b'resolved "https://yarnpkg.com/b"',
            False,
        ),
        ("yarn.lock", b'resolved "https://yarnpkg.com/a"', b'resolved "https://evil.test/a"', True),
        ("yarn.lock", b"", b'resolved "https://packages.yarnpkg.com/a"', False),
        ("yarn.lock", b"", b'resolved "https://evil-yarnpkg.com/a"', True),
        ("yarn.lock", b"", b'resolved "https://evil.test\\.yarnpkg.com/a"', True),
        ("yarn.lock", b"", b'resolved "https://evil.test@yarnpkg.com/a"', True),
        ("uv.lock", b"https://pythonhosted.org/a", b"https://pythonhosted.org.evil.test/a", True),
        ("requirements.txt", b"requests==2", b"requests==2\nflask==3", False),
        ("requirements.txt", b"requests==2", b"--index-url https://evil.test/simple\nrequests==2", True),
        ("bun.lockb", None, b"\0\1", True),
        ("cargo.lock", b"", b'source = "git+https://evil.test/x#1"', True),
        ("poetry.lock", b"https://own.example/simple", b"https://own.example/simple\nx", False),
    ],
)
def test_a_new_source_of_packages_is_told(name: str, old: bytes | None, new: bytes, is_told: bool) -> None:
    assert bool(manifests.lockfile(name, old, new)) == is_told


def test_a_long_list_is_cut() -> None:
    new = {"dependencies": {f"x{number}": "a/b" for number in range(100)}}
    said = manifests.package_json(None, json.dumps(new).encode())
    assert said[-1] == "and 95 more"
    assert len(said) == 6


def test_a_key_of_many_parts_is_unclear() -> None:
    """To read this one would take gigabytes of whoever looks at what a box changed."""
    with pytest.raises(manifests.Unclear, match="too many parts"):
        manifests.pyproject(None, b"tool." + b"a." * 20_000 + b"a = 1\n")
    assert manifests.pyproject(None, b"tool.a.a.a = 1\n") == ["changes 'tool.a'"], "the oracle"
