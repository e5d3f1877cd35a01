"""What is said of a box's engine and root on the command line."""

from __future__ import annotations

import os

import pytest

from paddock.cli import options, parser
from paddock.errors import UserError
from paddock.model import EngineName


def _request(*words: str) -> object:
    return options.request(parser.build("create").parse_args([*words, "shell"]), agent="shell", ephemeral=False)


def test_a_template_makes_a_container_box() -> None:
    one = options.request(
        parser.build("create").parse_args(["-t", "somewhere", "--runtime", "runc", "shell"]),
        agent="shell",
        ephemeral=False,
    )
    assert (one.engine, one.template, one.runtime) == (EngineName.CONTAINER, os.path.abspath("somewhere"), "runc")


def test_without_one_it_is_a_process_box() -> None:
    one = options.request(parser.build("create").parse_args(["shell"]), agent="shell", ephemeral=False)
    assert (one.engine, one.template, one.runtime) == (EngineName.PROCESS, "", "")


def test_a_runtime_that_is_not_known_is_a_mistake() -> None:
    with pytest.raises(UserError, match="'docker' is not known"):
        _request("--runtime", "docker")
