from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass, field, make_dataclass
from typing import Any, Literal, NewType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.codec import from_wire, to_wire
from paddock.errors import UserError
from paddock.model import BoxSpec, BoxState, EngineName, ExecSpec, Limits, Mount, TtySize

Id = NewType("Id", str)


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    text: str
    ident: Id
    number: int
    ratio: float
    flag: bool
    maybe: int | None
    many: tuple[Inner, ...]
    table: dict[str, str]
    level: Level
    word: Literal["yes", "no"]
    inner: Inner
    defaulted: tuple[str, ...] = field(default=("a",))


WIRE: dict[str, object] = {
    "text": "t",
    "ident": "i",
    "number": 7,
    "ratio": 0.5,
    "flag": True,
    "maybe": None,
    "many": [{"n": 1}, {"n": 2}],
    "table": {"k": "v"},
    "level": 2,
    "word": "yes",
    "inner": {"n": 3},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def test_every_annotation_we_use_is_read_and_written() -> None:
    value = from_wire(Everything, WIRE)
    assert value.many == (Inner(n=1), Inner(n=2))
    assert value.level is Level.HIGH
    assert to_wire(value) == WIRE | {"defaulted": ["a"]}


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("text", 7),
        ("text", None),
        ("ident", 7),
        ("number", "7"),
        ("number", 7.0),
        ("number", True),
        ("ratio", "0.5"),
        ("ratio", True),
        pytest.param("ratio", 10**400, id="ratio-huge"),
        ("flag", 1),
        ("flag", None),
        ("maybe", "7"),
        ("many", {"n": 1}),
        ("many", "text"),
        ("many", None),
        ("many", [7]),
        ("table", [["k", "v"]]),
        ("table", {"k": 7}),
        ("table", {7: "v"}),
        ("level", 3),
        ("level", "HIGH"),
        ("level", True),
        ("level", 1.0),
        ("level", []),
        ("word", "maybe"),
        ("word", ["yes"]),
        ("inner", None),
        ("inner", {"n": "3"}),
    ],
)
def test_a_wrong_type_is_refused_by_name(key: str, wrong: object) -> None:
    with pytest.raises(UserError, match=rf"^Everything\.{key}.* must be ") as caught:
        from_wire(Everything, WIRE | {key: wrong})
    assert caught.value.code == "wrong-type"


def test_a_whole_number_is_a_float_too() -> None:
    value = from_wire(Everything, WIRE | {"ratio": 2})
    assert type(value.ratio) is float


@pytest.mark.parametrize("key", sorted(WIRE))
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(UserError, match=f"^missing key '{key}' in Everything$") as caught:
        from_wire(Everything, {k: v for k, v in WIRE.items() if k != key})
    assert caught.value.code == "missing-key"


@pytest.mark.parametrize(
    ("wire", "where"), [({"x": 1}, "Everything"), ({"inner": {"n": 1, "x": 1}}, "Everything.inner")]
)
def test_an_unknown_key_is_named(wire: dict[str, object], where: str) -> None:
    with pytest.raises(UserError, match=rf"^unknown key 'x' in {re.escape(where)}$") as caught:
        from_wire(Everything, WIRE | wire)
    assert caught.value.code == "unknown-key"


def test_the_caller_may_say_where_the_data_is_from() -> None:
    with pytest.raises(UserError, match=r"^paddock\.toml must be an object, not a list$"):
        from_wire(Everything, [], "paddock.toml")


@pytest.mark.parametrize("wrong", ["x" * 10_000, 10**4000, [[[["x" * 10_000]]]], {"x" * 10_000: 1}], ids=type)
def test_an_error_stays_short_whatever_was_sent(wrong: object) -> None:
    for wire in (WIRE | {"flag": wrong}, WIRE | {"x" * 10_000: wrong}, WIRE | {"table": {"k" * 10_000: [wrong]}}):
        with pytest.raises(UserError) as caught:
            from_wire(Everything, wire)
        assert len(caught.value.message) < 300


def test_a_deep_value_is_refused_without_being_walked() -> None:
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UserError, match="must be str, not a list"):
        from_wire(Everything, WIRE | {"text": deep})


@pytest.mark.parametrize("hint", [tuple[int, int], list[int], int | str, dict[str, int] | int | None], ids=str)
def test_an_annotation_the_codec_does_not_know_is_a_mistake_of_ours(hint: Any) -> None:
    cls: type[Any] = make_dataclass("Odd", [("x", hint)])
    with pytest.raises(TypeError, match="cannot read annotation"):
        from_wire(cls, {"x": []})


@given(st.dictionaries(st.sampled_from([*WIRE, "defaulted", "other"]), JSON) | JSON)
def test_any_data_is_a_value_or_a_user_error(data: object) -> None:
    try:
        value = from_wire(Everything, WIRE | data if isinstance(data, dict) else data)
    except UserError:
        return
    assert from_wire(Everything, to_wire(value)) == value


@given(
    st.builds(
        BoxSpec,
        name=st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True),
        agent=st.text(),
        workspace=st.text(),
        mounts=st.lists(st.builds(Mount, source=st.text(), target=st.text(), read_only=st.booleans())).map(tuple),
        env=st.dictionaries(
            st.from_regex(r"[A-Z_]{1,8}", fullmatch=True),
            st.text(st.characters(codec="ascii", exclude_characters="\0")),
        ),
        limits=st.builds(Limits, pids=st.none() | st.integers(1, 1 << 40), cpus=st.none() | st.floats(0.1, 64)),
    )
)
def test_a_box_spec_survives_json(spec: BoxSpec) -> None:
    assert from_wire(BoxSpec, json.loads(json.dumps(to_wire(spec)))) == spec


def test_a_command_survives_json_bytes_that_are_no_text_included() -> None:
    spec = ExecSpec(argv=("cat", "caf\udce9"), tty=TtySize(rows=24, cols=80), timeout_s=1.5)
    assert from_wire(ExecSpec, json.loads(json.dumps(to_wire(spec)))) == spec


def test_enums_travel_by_value() -> None:
    assert to_wire({"engine": EngineName.PROCESS, "states": (BoxState.RUNNING,)}) == {
        "engine": "process",
        "states": ["running"],
    }
