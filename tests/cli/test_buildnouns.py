"""The words of `template build` are read as they are written."""

from __future__ import annotations

import pytest

from paddock.cli import buildnouns, nouns, parser, verbs
from paddock.errors import UserError


def test_it_takes_a_name_a_directory_and_the_network_options_of_run() -> None:
    assert callable(buildnouns.build(nouns.network_options))
    words = ["template", "build", "-t", "a:b", "--preset", "debian", "--build-arg", "K=V", "--locked", "."]
    action, options = parser.parse(words)
    assert action is verbs.template_build
    assert (options.tag, options.directory, options.preset, options.build_arg) == ("a:b", ".", ["debian"], ["K=V"])
    assert (options.locked, options.no_cache, options.file) == (True, False, "")


@pytest.mark.parametrize("words", [["."], ["-t", "x"], ["-t", "x", ".", "more"]])
def test_what_is_missing_or_too_much_is_said(words: list[str]) -> None:
    with pytest.raises(UserError):
        parser.parse(["template", "build", *words])
