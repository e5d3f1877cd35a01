"""What is said of a box's engine and root on the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from paddock.cli import options, parser, templatenouns, verbs
from paddock.errors import UserError
from paddock.model import EngineName

if TYPE_CHECKING:
    from pathlib import Path


def _request(*words: str) -> object:
    return options.request(parser.build("create").parse_args([*words, "shell"]), agent="shell", ephemeral=False)


def test_a_template_makes_a_container_box() -> None:
    one = options.request(
        parser.build("create").parse_args(["-t", "./somewhere", "--runtime", "runc", "shell"]),
        agent="shell",
        ephemeral=False,
    )
    assert (one.engine, one.template, one.runtime) == (EngineName.CONTAINER, os.path.abspath("somewhere"), "runc")


def test_a_name_is_no_place_whatever_lies_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A box may have made a directory of that name in the workspace."""
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path)
    one = options.request(parser.build("create").parse_args(["-t", "base", "shell"]), agent="shell", ephemeral=False)
    assert one.template == "base"


def test_without_one_it_is_a_process_box() -> None:
    one = options.request(parser.build("create").parse_args(["shell"]), agent="shell", ephemeral=False)
    assert (one.engine, one.template, one.runtime) == (EngineName.PROCESS, "", "")


def test_a_runtime_that_is_not_known_is_a_mistake() -> None:
    with pytest.raises(UserError, match="'docker' is not known"):
        _request("--runtime", "docker")


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["ls", "-q"], verbs.template_ls),
        (["inspect", "team:v1", "--json"], verbs.template_inspect),
        (["rm", "a", "b:1"], verbs.template_rm),
        (["load", "-t", "team", "-"], verbs.template_load),
        (["save", "team:v1", "-o", "file"], verbs.template_save),
    ],
)
def test_the_words_of_template_are_read_as_they_are_written(words: list[str], target: object) -> None:
    assert words[0] in templatenouns.VERBS
    action, _ = parser.parse(["template", *words])
    assert action is target


def test_a_template_is_saved_to_a_file_that_is_named() -> None:
    with pytest.raises(UserError, match="-o"):
        parser.parse(["template", "save", "team:v1"])
