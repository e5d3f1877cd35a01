from __future__ import annotations

import time
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import UserError
from paddock.policy.files import parse_project_toml
from paddock.policy.positions import Path, is_deep, positions
from tests.support.properties import bounded, patient

TEXT = '''# a remark with = and [ in it
top = 1
"quoted # key" = "a ] string"
list = [
    "one",  # ] not the end
    'two',
    """three
    ] still three""",
    [ "nested" , { deep = "x" } ],
]
[table]
a.b = { c = 1, "d" = [2, 3] }  # inline
date = 2020-01-01T00:00:00Z
[table."other one"]
x = \'\'\'
[not a header]
\'\'\'
[[many]]
y = 1
[[many]]
y = 2
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("quoted # key",), 3),
        (("list",), 4),
        (("list", 0), 5),
        (("list", 1), 6),
        (("list", 2), 7),
        (("list", 3), 9),
        (("list", 3, 0), 9),
        (("list", 3, 1, "deep"), 9),
        (("table",), 11),
        (("table", "a", "b"), 12),
        (("table", "a", "b", "c"), 12),
        (("table", "a", "b", "d", 1), 12),
        (("table", "date"), 13),
        (("table", "other one"), 14),
        (("table", "other one", "x"), 15),
        (("many", 0, "y"), 19),
        (("many", 1, "y"), 21),
    ],
)
def test_a_key_or_element_is_found_on_its_line(path: Path, line: int) -> None:
    tomllib.loads(TEXT)
    assert positions(TEXT)[path].line == line


def test_the_value_of_a_spot_is_the_value() -> None:
    for path in (("top",), ("list", 0), ("list", 2), ("table", "a", "b", "d"), ("table", "other one", "x")):
        spot = positions(TEXT)[path]
        value = tomllib.loads(f"v = {TEXT[spot.value : spot.end]}")["v"]
        wanted: object = tomllib.loads(TEXT)
        for part in path:
            wanted = wanted[part]  # type: ignore[index]
        assert value == wanted


WORDS = st.text(alphabet="ab.# ]'\"\\\n", max_size=5)
VALUES = st.recursive(WORDS | st.integers() | st.booleans(), lambda inner: st.lists(inner, max_size=3), max_leaves=6)


def written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ",\n ".join(map(written, value)) + "]  # ] end\n" if value else "[ # ]\n ]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return str(value)


@bounded
@patient
@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES))
def test_every_value_is_found_where_it_stands(data: dict[str, object]) -> None:
    text = "".join(f"{key} = {written(value)}\n" for key, value in data.items())
    assert tomllib.loads(text) == data
    found = positions(text)
    for path, spot in found.items():
        wanted: object = data
        for part in path:
            wanted = wanted[part]  # type: ignore[index]
        assert tomllib.loads(f"v = {text[spot.value : spot.end]}")["v"] == wanted
    assert {path[0] for path in found} == set(data)


DEEP = ".".join("a" for _ in range(20_000))


@pytest.mark.parametrize(
    "text",
    [
        f"[network]\n{DEEP} = 1\n",
        f"[{DEEP}]\n",
        f"x = {{ {DEEP} = 1 }}\n",
        " . ".join(["a", '"b\\""', "'c'"] * 6000) + " = 1\n",
        f'a = """ # " \n"""\n{DEEP} = 1\n',
        f'{DEEP} = 1\nx = "without an end',
    ],
)
def test_a_key_of_very_many_parts_is_refused_before_it_takes_long(text: str) -> None:
    """tomllib takes time by the square of their number, and a box may have written the file."""
    began = time.process_time()
    with pytest.raises(UserError) as caught:
        parse_project_toml(text, "paddock.toml")
    assert "too deeply nested" in caught.value.message
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    "text",
    [
        'allow = ["a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t"]',
        "# a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t",
        "x = 'a' # it's a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t",
        "",
        '"' * 60_000,
        '"""' + '\\"' * 30_000,
        "a" * 60_000,
        "a." * 15 + "b = 1",
    ],
)
def test_what_is_no_key_may_have_as_many_parts_as_it_likes(text: str) -> None:
    began = time.process_time()
    assert not is_deep(text)
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("hostile", ['"""\'\'"\\', '""\'"\\"', '\'"\\"""', '"\\"""\'\''])
def test_a_text_of_strings_without_an_end_is_looked_at_once(hostile: str) -> None:
    """A project's file of 64 KiB held the daemon for a quarter of a minute."""
    for start in ("", '"""'):
        before_s = time.process_time()
        assert not is_deep(start + hostile * (64 * 1024 // len(hostile)))
        assert time.process_time() - before_s < 2
    assert is_deep('x = """a"""\n' + "a." * 20 + "a = 1"), "the oracle: what follows a string with an end is looked at"
