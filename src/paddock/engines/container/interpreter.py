"""A Python that runs in any root: init's interpreter, with the loader and libraries of the host's beside it.

Made of exactly what init has loaded when it has imported all it needs: its modules, compiled, and what is mapped in its
memory. So it takes nothing from an image, and an image needs none.
"""

from __future__ import annotations

import hashlib
import json
import os
import py_compile
import re
import shutil
import sys
from typing import Final

from paddock import proc
from paddock._version import VERSION
from paddock.engines.process import generations
from paddock.engines.process.warm import package_root
from paddock.errors import Unavailable

_MODULE: Final = "paddock.engines.guest.standalone"
_LOOK: Final = f"""
import sys; sys.path.insert(0, sys.argv[1])
import {_MODULE}, encodings.ascii, encodings.latin_1, encodings.idna, encodings.utf_8
import json, os
files = [m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)]
with open("/proc/self/maps") as maps:
    mapped = sorted({{line.split(None, 5)[5].strip() for line in maps if line.count("/") and ".so" in line}})
print(json.dumps({{"files": files, "mapped": mapped, "stdlib": os.path.dirname(os.__file__)}}))
"""
_LOADER: Final = re.compile(r"ld[-.][^/]*\.so[^/]*|ld-musl[^/]*")
_LOOK_S: Final = 20.0


def argv(place: str) -> tuple[str, ...]:
    """How it is started where `prepare`'s directory is mounted at `place`; init finds its descriptors itself."""
    start = f"import sys; sys.path.insert(0, {place + '/guest'!r}); from {_MODULE} import main; main()"
    loader = (f"{place}/loader", "--library-path", f"{place}/libraries")
    return (*loader, f"{place}/bin/python3", "-I", "-S", "-B", "-c", start)


def prepare(directory: str) -> str:
    """The directory to mount; made at the first call of a boot, and again when the interpreter or Paddock changes."""
    program = os.path.realpath(sys.executable)
    status = os.stat(program)
    source = f"{package_root()}/paddock/engines/guest"
    names = sorted(name for name in os.listdir(source) if name.endswith(".py"))
    stamps = [(name, os.stat(f"{source}/{name}").st_mtime_ns) for name in names]
    known = repr((VERSION, sys.version, program, status.st_mtime_ns, status.st_size, stamps))
    digest = hashlib.sha256(known.encode()).hexdigest()
    return generations.publish(directory, digest, lambda target: _fill(target, program))


def _fill(target: str, program: str) -> None:
    done = proc.run(
        [program, "-I", "-S", "-c", _LOOK, package_root()], env={"LC_ALL": "C.UTF-8"}, timeout_s=_LOOK_S, cwd="/"
    )
    try:
        found = json.loads(done.stdout)
    except ValueError:
        why = done.stderr.decode(errors="replace").strip()[-200:]
        raise Unavailable(f"no interpreter for container boxes can be made: {why}", code="interpreter") from None
    _copy(program, f"{target}/bin/python3")
    roots = {
        found["stdlib"]: f"{target}/lib/python{sys.version_info[0]}.{sys.version_info[1]}",
        f"{package_root()}/paddock": f"{target}/guest/paddock",
    }
    for path in found["files"]:
        root = next((root for root in roots if path.startswith(f"{root}/")), "")
        if root:
            _place(path, roots[root] + path[len(root) :])
    modules = set(found["files"])
    for path in found["mapped"]:
        name = os.path.basename(path)
        if _LOADER.fullmatch(name):
            _copy(path, f"{target}/loader")
        elif path not in modules:
            for known in _names(path):
                _copy(path, f"{target}/libraries/{known}")


def _names(path: str) -> list[str]:
    """A library's own name and those of links to it beside it: one of them is what programs ask for."""
    directory, name = os.path.split(path)
    stem = name.partition(".so")[0]
    beside = [other for other in os.listdir(directory) if other.startswith(f"{stem}.so.")]
    return [name, *(other for other in beside if other != name and os.path.realpath(f"{directory}/{other}") == path)]


def _place(source: str, target: str) -> None:
    if not source.endswith(".py"):
        _copy(source, target)
        return
    _make_way(target)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(source, f"{target}c", os.path.basename(source), doraise=True, invalidation_mode=mode)
    os.chmod(f"{target}c", 0o644)


def _copy(source: str, target: str) -> None:
    _make_way(target)
    shutil.copyfile(source, target)
    os.chmod(target, 0o755)  # noqa: S103  the box's ids are others


def _make_way(target: str) -> None:
    parent = os.path.dirname(target)
    if not os.path.isdir(parent):
        _make_way(parent)
        os.mkdir(parent)
        os.chmod(parent, 0o755)  # noqa: S103
