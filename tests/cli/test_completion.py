"""Completion, as a shell sees it: the script is sourced and asked, word by word."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.cli import pages
from tests.runtime.test_loading import LAYER, image, put
from tests.support.installation import PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.installation import Installation

pytestmark = pytest.mark.box

ASK = """
source <("$P" completion bash)
paddock() { "$P" "$@"; }
COMP_WORDS=("${@}"); COMP_CWORD=$(($# - 1))
_paddock
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(words: list[str], env: dict[str, str], cwd: Path) -> list[str]:
    argv = ["bash", "--norc", "-c", ASK, "bash", "paddock", *words]
    done = subprocess.run(argv, env={**env, "P": str(PROGRAM)}, cwd=cwd, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([""], list(pages.VERBS)),
        (["re"], ["reset"]),
        (["po"], ["policy", "ports"]),
        (["s"], ["stop", "secret", "save"]),
        (["secret", ""], ["set", "login", "ls", "rm", "check"]),
        (["secret", "set", "--from"], ["--from-command", "--from-env"]),
        (["daemon", "st"], ["start", "stop", "status"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["policy", "a"], ["allow", "approve"]),
        (["network", ""], ["proxy", "log"]),
        (["policy", "allow", "--u"], ["--user"]),
        (["ls", "--"], ["--help", "--json", "--quiet"]),
        (["run", "--env"], ["--env", "--env-file"]),
        (["run", "--", "--"], []),
        (["zzz", "x"], []),
    ],
)
def test_bash_completes_verbs_words_and_options(tmp_path: Path, words: list[str], expected: list[str]) -> None:
    env = {"PATH": "/usr/bin:/bin", "PADDOCK_HOME": str(tmp_path)}
    assert completed(words, env, tmp_path) == expected


def test_bash_completes_the_names_of_secrets(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "PADDOCK_HOME": str(tmp_path)}
    subprocess.run(
        [PROGRAM, "secret", "set", "github"], input=b"0123456789", env=env, stdout=subprocess.DEVNULL, check=True
    )
    assert completed(["secret", "rm", "g"], env, tmp_path) == ["github"]
    for verb in ("run", "create"):
        assert completed([verb, "--secret", ""], env, tmp_path) == ["github"]
        assert completed([verb, "--allow-host", "a", "--secret", "x"], env, tmp_path) == []
    assert completed(["run", "--", "--secret", ""], env, tmp_path) == []


@pytest.mark.box
def test_bash_completes_the_names_of_templates(installation: Installation, tmp_path: Path) -> None:
    path = put(tmp_path, image(LAYER))
    for name in ("team", "test"):
        installation.cli("template", "load", path, "-t", name)
    env = installation.environ
    assert completed(["template", "rm", "te"], env, installation.workspace) == ["team:latest", "test:latest"]
    for verb in ("run", "create"):
        for option in ("-t", "--template"):
            assert completed([verb, option, "tea"], env, installation.workspace) == ["team:latest"]
    assert completed(["run", "--", "-t", "tea"], env, installation.workspace) == []
    assert installation.cli("template", "rm", "team", "test").returncode == 0


@pytest.mark.box
def test_bash_completes_the_names_of_boxes(installation: Installation) -> None:
    for name in ("alpha", "alto", "beta"):
        installation.cli("create", name)
    env = installation.environ
    assert completed(["exec", "al"], env, installation.workspace) == ["alpha", "alto"]
    assert completed(["rm", "-f", "alpha", ""], env, installation.workspace) == ["alpha", "alto", "beta"]
    assert completed(["create", "al"], env, installation.workspace) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_one_its_shell_can_read(shell: str) -> None:
    script = subprocess.run([PROGRAM, "completion", shell], capture_output=True, text=True, check=True).stdout
    assert "@" not in script.replace("$@", "")
    assert all(verb in script for verb in pages.VERBS)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    check = "--no-execute" if shell == "fish" else "-n"
    subprocess.run([shell, check], input=script, text=True, check=True)
