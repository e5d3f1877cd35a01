"""Init's interpreter: it runs with nothing of the host around it, and obeys nothing of the root that it runs in."""

from __future__ import annotations

import marshal
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from paddock.engines.container import interpreter
from paddock.engines.process.warm import package_root

if TYPE_CHECKING:
    from pathlib import Path

NAMED = re.compile(r'(?:open|openat|access|stat|lstat|newfstatat|readlink|statx)\([^"]*"(/[^"]*)"')
_CALLS = "open,openat,access,stat,lstat,newfstatat,readlink,statx,faccessat,faccessat2,openat2"


def test_it_is_made_once_and_holds_no_source_and_no_link(tmp_path: Path) -> None:
    place = interpreter.prepare(f"{tmp_path}/interpreter")
    assert interpreter.prepare(f"{tmp_path}/interpreter") == place
    files = [os.path.join(directory, name) for directory, _, names in os.walk(place) for name in names]
    assert f"{place}/loader" in files
    assert not [file for file in files if file.endswith(".py") or os.path.islink(file)]
    assert all(os.stat(file).st_mode & 0o444 == 0o444 for file in files)
    with open(f"{place}/modules", "rb") as file:
        held = marshal.load(file)
    assert held["paddock.engines.guest.init"][0] == "guest/paddock/engines/guest/init.py"
    assert not [file for file in files if "/guest/" in file], "what Python does not load of itself is in one file"


def _imports(place: str) -> list[str]:
    """The words that start it, and let it say what it has loaded instead of being init."""
    *words, program = interpreter.argv(place)
    say = "print(*(m.__file__ for m in sys.modules.values() if getattr(m, '__file__', 0)))"
    return [*words, program.replace("main()", say)]


def test_it_imports_init_from_itself_alone(tmp_path: Path) -> None:
    place = interpreter.prepare(f"{tmp_path}/interpreter")
    done = subprocess.run(_imports(place), capture_output=True, text=True, timeout=20, check=True, env={}, cwd="/")
    loaded = done.stdout.split()
    assert loaded
    assert [path for path in loaded if not path.startswith(f"{place}/")] == []


@pytest.mark.box
def test_it_opens_no_file_of_the_root_around_it(tmp_path: Path) -> None:
    """The oracle is the host's own Python: of it the same look finds the loader's files, locales and the time zone."""
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    place = interpreter.prepare(f"{tmp_path}/interpreter")
    env = {"LC_ALL": "C", "TZ": ":/dev/null/"}  # as in the bundle
    assert _outside(_imports(place), place, env) == set()
    found = _outside(["/usr/bin/python3", "-c", "import time"], place, {"LC_ALL": "C.UTF-8"})
    assert {"/etc/ld.so.preload", "/etc/ld.so.cache", "/etc/localtime"} <= found


def _outside(words: list[str], place: str, env: dict[str, str]) -> set[str]:
    """What is neither its own, nor below a device, nor a file of the kernel's."""
    trace = ["strace", "-f", "-e", f"trace={_CALLS}", "-s", "400", "-o", f"{place}.trace"]
    subprocess.run([*trace, *words], capture_output=True, timeout=60, check=True, env=env, cwd="/")
    with open(f"{place}.trace", encoding="utf-8", errors="replace") as file:
        named = set(NAMED.findall(file.read()))
    parents = {place[:end] for end in range(len(place) + 1) if place[end : end + 1] in {"/", ""}}
    return {
        path
        for path in named - parents - {"/"}
        if not path.startswith((f"{place}/", "/dev/", "/proc/self", "/dev/null"))
    }


def test_it_is_made_anew_when_a_file_that_goes_in_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "package"
    shutil.copytree(f"{package_root()}/paddock", copy / "paddock", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(interpreter, "package_root", lambda: str(copy))
    first = interpreter.prepare(f"{tmp_path}/interpreter")
    assert interpreter.prepare(f"{tmp_path}/interpreter") == first
    for name in ("_version.py", "engines/guest/wire.py"):
        before = interpreter.prepare(f"{tmp_path}/interpreter")
        with (copy / "paddock" / name).open("a") as file:
            file.write("\n# changed\n")
        assert interpreter.prepare(f"{tmp_path}/interpreter") != before, name
