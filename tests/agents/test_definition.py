"""A definition is read strictly: what nobody knows is an error that names the file and the key."""

from __future__ import annotations

import pytest

from paddock import agents
from paddock.errors import UserError

HEAD = 'name = "mine"\ntitle = "Mine"\nprogram = "mine"\n'


def test_everything_has_a_default_but_who_it_is() -> None:
    agent = agents.parse(HEAD)
    assert (agent.keys.any, agent.hosts.allow, agent.seed, agent.headless.argv, agent.plain) == ((), (), (), (), False)
    assert (agent.version, agent.help) == ((), ())
    for missing in ("name", "title", "program"):
        with pytest.raises(UserError, match=f"missing key '{missing}'"):
            agents.parse("\n".join(line for line in HEAD.splitlines() if not line.startswith(missing)))


def test_continue_is_a_key_in_each_mode() -> None:
    agent = agents.parse(HEAD + '[words]\ncontinue = ["-c"]\n[headless]\nargv = []\ncontinue = ["resume"]\n')
    assert (agent.words.go_on, agent.headless.go_on, agent.interactive.go_on) == (("-c",), ("resume",), None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('permissions = "all"', "unknown key 'permissions' in my.toml"),
        ('[hosts]\nallowed = ["x"]', "unknown key 'allowed' in my.toml.hosts"),
        ('[hosts]\nallow = "x"', "my.toml.hosts.allow must be a list"),
        ("[env]\nA = 1", "my.toml.env.A must be str"),
        ('[keys]\nlend = "some"', "my.toml.keys.lend must be one of"),
        ("stuck_after_s = 0", "stuck_after_s must be"),
        ("= broken", "my.toml: "),
        ('[[failure]]\nreason = "tired"\nmatch = []', "must be one of"),
    ],
)
def test_a_wrong_key_or_value_is_named(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        agents.parse(HEAD + text, "my.toml")
    assert said in caught.value.message


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a//b", ".", "a/./b", "x\\u0000"])
@pytest.mark.parametrize(
    "table", ['[[seed]]\npath = "{}"', '[state]\npaths = ["{}"]', '[settings]\npaths = ["{}"]', '[mcp]\nfile = "{}"']
)
def test_a_place_outside_of_the_home_is_refused(table: str, path: str) -> None:
    with pytest.raises(UserError, match="is not a place in a home"):
        agents.parse(HEAD + table.format(path))


@pytest.mark.parametrize("name", ["Mine", "a b", "../x", "", "-x", "x" * 40])
def test_a_name_is_safe_everywhere(name: str) -> None:
    with pytest.raises(UserError, match="not a name of an agent"):
        agents.parse(HEAD.replace('name = "mine"', f'name = "{name}"', 1))


@pytest.mark.parametrize("program", ["a b", "../x", "", "bin/x", "$x"])
def test_a_program_is_a_name_or_an_absolute_path(program: str) -> None:
    with pytest.raises(UserError, match="is not a program"):
        agents.parse(HEAD.replace('program = "mine"', f'program = "{program}"'))
    assert agents.parse(HEAD.replace('program = "mine"', 'program = "/opt/my agent/run"')).program


def test_a_huge_or_deep_file_is_refused() -> None:
    for text in ("#" * (300 * 1024), "x = " + "[" * 5000 + "]" * 5000):
        with pytest.raises(UserError):
            agents.parse(HEAD + text)
