"""Init's interpreter: it runs with nothing of the host around it."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from paddock.engines.container import interpreter

if TYPE_CHECKING:
    from pathlib import Path


def test_it_is_made_once_and_holds_no_source_and_no_link(tmp_path: Path) -> None:
    place = interpreter.prepare(f"{tmp_path}/interpreter")
    assert interpreter.prepare(f"{tmp_path}/interpreter") == place
    files = [os.path.join(directory, name) for directory, _, names in os.walk(place) for name in names]
    assert f"{place}/loader" in files
    assert not [file for file in files if file.endswith(".py") or os.path.islink(file)]
    assert all(os.stat(file).st_mode & 0o444 == 0o444 for file in files)
    assert f"{place}/guest/paddock/engines/guest/init.pyc" in files


def test_it_imports_init_from_itself_alone(tmp_path: Path) -> None:
    place = interpreter.prepare(f"{tmp_path}/interpreter")
    *words, program = interpreter.argv(place)
    look = program.replace(
        "main()", "import sys; print(*(m.__file__ for m in sys.modules.values() if getattr(m, '__file__', 0)))"
    )
    done = subprocess.run([*words, look], capture_output=True, text=True, timeout=20, check=True, env={}, cwd="/")
    loaded = done.stdout.split()
    assert loaded
    assert [path for path in loaded if not path.startswith(f"{place}/")] == []
