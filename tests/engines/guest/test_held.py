"""Modules that are held: they are found by their names, once each, and nothing else is looked for."""

from __future__ import annotations

import json
import marshal
import subprocess
import sys
from typing import TYPE_CHECKING

from paddock.engines.guest import held

if TYPE_CHECKING:
    from pathlib import Path


def _code(text: str) -> bytes:
    return marshal.dumps(compile(text, "made.py", "exec", dont_inherit=True))


KNOWN = {
    "herd": ("a/herd/__init__.py", True, _code("from herd import cow\nname = __name__")),
    "herd.cow": ("a/herd/cow.py", False, _code("sound = 'moo'; file = __file__; above = __package__")),
}
TAKE = """
import json, marshal, sys
held = {}
with open(sys.argv[1], "rb") as file: known, code = marshal.load(file)
exec(marshal.loads(code), held)
held["take"](known, "/place")
"""


def _run(tmp_path: Path, program: str) -> subprocess.CompletedProcess[str]:
    """In a Python of its own, which it takes the search from."""
    with open(held.__file__, encoding="utf-8") as file:
        code = _code(file.read())
    (tmp_path / "known").write_bytes(marshal.dumps((KNOWN, code)))
    words = [sys.executable, "-I", "-S", "-c", TAKE + program, str(tmp_path / "known")]
    return subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)


def test_packages_and_their_modules_are_found(tmp_path: Path) -> None:
    done = _run(tmp_path, "import herd; print(json.dumps([herd.name, herd.cow.sound, herd.cow.file, herd.cow.above]))")
    assert json.loads(done.stdout) == ["herd", "moo", "/place/a/herd/cow.py", "herd"], done.stderr


def test_what_is_not_held_is_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "stray.py").write_text("print('obeyed')")
    program = f"sys.path.insert(0, {str(tmp_path)!r}); import stray"
    done = _run(tmp_path, program)
    assert (done.stdout, done.returncode) == ("", 1)
    assert "No module named 'stray'" in done.stderr
    words = [sys.executable, "-I", "-S", "-c", f"import sys; {program}"]
    oracle = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True)
    assert oracle.stdout == "obeyed\n"


def test_code_is_let_go_of_when_it_was_loaded() -> None:
    known = dict(KNOWN)
    found = held.Held(known, "/place").find_spec("herd.cow")
    assert found is not None
    assert found.loader is not None
    module = type(sys)("herd.cow")
    found.loader.exec_module(module)
    assert module.sound == "moo"
    assert list(known) == ["herd"]


def test_a_module_of_the_machine_has_a_file_of_its_own() -> None:
    spec = held.Held({"_cow": ("lib/_cow.so", False, b"")}, "/place").find_spec("_cow")
    assert spec is not None
    assert spec.origin == "/place/lib/_cow.so"
    assert type(spec.loader).__name__ == "ExtensionFileLoader"
    assert held.Held({}, "/place").find_spec("_struct") is None
