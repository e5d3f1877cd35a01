"""The templates that come with Paddock."""

from __future__ import annotations

import pytest

from paddock.errors import UserError
from paddock.images import dockerfile
from paddock.images.instructions import Setting
from paddock.model.reference import Reference
from paddock.runtime import builtins
from paddock.store import TemplateRow


def _row(name: str, source: str) -> TemplateRow:
    return TemplateRow(name=name, tag="latest", chain=("frozen:" + "0" * 32,), config="{}", source=source)


@pytest.mark.parametrize("name", builtins.names())
def test_each_is_a_dockerfile_that_ends_as_the_agent(name: str) -> None:
    parsed = dockerfile.read(builtins.text(name))
    users = [
        item.value for item in parsed.stages[-1].instructions if isinstance(item, Setting) and item.keyword == "USER"
    ]
    assert users[-1] == "agent"
    assert parsed.stages[0].base.image in {"debian:bookworm", "base"}


def test_a_name_is_one_of_them_only_as_it_is() -> None:
    assert builtins.names() == ("base", "docker")
    assert builtins.is_one(Reference.parse("base"))
    assert not builtins.is_one(Reference.parse("base:1"))
    assert not builtins.is_one(Reference.parse("basement"))


def test_another_file_makes_it_another_and_what_a_user_made_is_theirs() -> None:
    current = _row("base", builtins.source("base"))
    older = _row("base", "built-in 0123456789abcdef")
    own = _row("base", "build")
    assert [builtins.is_ours(row) for row in (current, older, own)] == [True, True, False]
    assert [builtins.is_current(row) for row in (current, older, own)] == [True, False, False]


def test_their_names_are_given_to_nothing_that_brings_its_own() -> None:
    for name in ("base", "docker:latest", "docker.io/library/base"):
        with pytest.raises(UserError, match="paddock's own"):
            builtins.refuse(Reference.parse(name))
    builtins.refuse(Reference.parse("base:1"))
    builtins.refuse(Reference.parse("example.com/base"))
