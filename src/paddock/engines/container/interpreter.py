"""A Python that runs in any root: init's interpreter, with the loader and libraries of the host's beside it.

Made of exactly what init has loaded when it has imported all it needs: its modules, compiled, and what is mapped in its
memory. So it takes nothing from an image, and an image needs none. Modules that Python loads of itself lie where it
looks for them; all others are in one file (guest/held.py).

# TRUST: the root around it is somebody else's, and whoever was root in the box may have written to it. A loader would
# obey its /etc/ld.so.preload and Python a /lib/python311.zip; libc would read its locales and its time zone. Each of
# them has an end here, and a test looks at every name that is opened.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import py_compile
import re
import shutil
import sys
from dataclasses import dataclass
from typing import Final

from paddock import proc
from paddock._version import VERSION
from paddock.engines.process import generations
from paddock.engines.process.warm import package_root
from paddock.errors import Unavailable

_MODULE: Final = "paddock.engines.guest.standalone"
_ENVOY: Final = "paddock.engines.guest.envoy"
_HELD: Final = "paddock.engines.guest.held"
_MODULES: Final = "modules"
_LANDMARK: Final = "os"  # what Python knows its library by
_LOOK: Final = f"""
import sys; own = {{*sys.modules}}; sys.path.insert(0, sys.argv[1])
import {_MODULE}, {_ENVOY}, {_HELD}, encodings.ascii, encodings.latin_1, encodings.idna, encodings.utf_8
import json, os
found = [m for n, m in sys.modules.items() if getattr(m, "__file__", None) and m.__name__ == n]
modules = [(m.__name__, m.__file__, hasattr(m, "__path__"), m.__name__ in own) for m in found]
with open("/proc/self/maps") as maps:
    mapped = sorted({{line.split(None, 5)[5].strip() for line in maps if line.count("/") and ".so" in line}})
print(json.dumps({{"modules": modules, "mapped": mapped, "stdlib": os.path.dirname(os.__file__)}}))
"""
_LOADER: Final = re.compile(r"ld[-.][^/]*\.so[^/]*|ld-musl[^/]*")
_OBEYED: Final = (b"/etc/ld.so.preload", b"/etc/ld.so.cache", b"/etc/suid-debug")
_LOOK_S: Final = 20.0


def argv(place: str, module: str = _MODULE) -> tuple[str, ...]:
    """How it is started where `prepare`'s directory is mounted at `place`; init finds its descriptors itself."""
    # Without a look for garbage meanwhile: nothing of what is loaded ever is.
    start = (
        f"import gc, marshal, sys; gc.disable(); place = {place!r}; "
        f"known = marshal.loads(open(place + '/{_MODULES}', 'rb').read()); held = {{}}; "
        f"exec(marshal.loads(known[{_HELD!r}][2]), held); held['take'](known, place); "
        f"from {module} import main; gc.freeze(); main()"
    )
    return words(place, start)


def words(place: str, program: str) -> tuple[str, ...]:
    """How it runs a program of Python's."""
    loader = (f"{place}/loader", "--library-path", f"{place}/libraries")
    return (*loader, f"{place}/bin/python3", "-I", "-S", "-B", "-X", "utf8", "-c", program)


def envoy(place: str) -> tuple[str, ...]:
    return argv(place, _ENVOY)


def prepare(directory: str) -> str:
    """The directory to mount; made again when any file that goes into it has changed, under a running daemon too."""
    known = _made.get(directory)
    if known and known.inputs.stamp() == known.stamp and os.path.isdir(known.path):
        return known.path
    inputs = _look(os.path.realpath(sys.executable))
    stamp = inputs.stamp()
    path = generations.publish(directory, stamp, lambda target: _fill(target, inputs))
    _made[directory] = _Made(inputs=inputs, stamp=stamp, path=path)
    return path


@dataclass(frozen=True, slots=True)
class _Module:
    name: str
    file: str
    is_package: bool
    is_own: bool  # Python loads it of itself, before it runs anything


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inputs:
    """The files that it is made of."""

    program: str
    stdlib: str
    modules: tuple[_Module, ...]
    mapped: tuple[str, ...]

    def stamp(self) -> str:
        known: list[object] = [VERSION, sys.version, self]
        for path in (self.program, *(module.file for module in self.modules), *self.mapped):
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue  # then it is another one than with it
            known.append((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
        return hashlib.sha256(repr(known).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    inputs: _Inputs
    stamp: str
    path: str


_made: Final[dict[str, _Made]] = {}


def _look(program: str) -> _Inputs:
    words = [program, "-I", "-S", "-c", _LOOK, package_root()]
    done = proc.run(words, env={"LC_ALL": "C"}, timeout_s=_LOOK_S, cwd="/")
    try:
        found = json.loads(done.stdout)
    except ValueError:
        why = done.stderr.decode(errors="replace").strip()[-200:]
        raise Unavailable(f"no interpreter for container boxes can be made: {why}", code="interpreter") from None
    modules = tuple(_Module(*row) for row in found["modules"])
    return _Inputs(program=program, stdlib=found["stdlib"], modules=modules, mapped=tuple(found["mapped"]))


def _fill(target: str, inputs: _Inputs) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    _copy(inputs.program, f"{target}/bin/python3")
    roots = {inputs.stdlib: f"lib/python{version}", f"{package_root()}/paddock": "guest/paddock"}
    held: dict[str, tuple[str, bool, bytes]] = {}
    for module in inputs.modules:
        root = next((root for root in roots if module.file.startswith(f"{root}/")), "")
        if not root:
            continue
        place = roots[root] + module.file[len(root) :]
        if module.is_own or module.name == _LANDMARK:
            _place(module.file, f"{target}/{place}")
        if not module.is_own:
            # Of Python's own, what explains or checks it is left out: under gVisor each page of it costs a start.
            code = _code(module.file, f"{target}/{place}", optimize=2 if root == inputs.stdlib else 0)
            held[module.name] = place, module.is_package, code
    generations.write(f"{target}/{_MODULES}", marshal.dumps(held))
    # What Python looks for from its own directory upwards, and would find in the root around it.
    _make_way(f"{target}/lib/python{version}/lib-dynload/x")
    generations.write(f"{target}/lib/python{version.replace('.', '')}.zip", b"")
    for path in inputs.mapped:
        name = os.path.basename(path)
        if _LOADER.fullmatch(name):
            _copy(path, f"{target}/loader")
            _blind(f"{target}/loader")
        elif path not in {module.file for module in inputs.modules}:
            for known in _names(path):
                _copy(path, f"{target}/libraries/{known}")


def _code(source: str, target: str, *, optimize: int) -> bytes:
    """Of a module that needs no file; the others get theirs."""
    if not source.endswith(".py"):
        _copy(source, target)
        return b""
    with open(source, "rb") as file:
        name = os.path.basename(source)
        return marshal.dumps(compile(file.read(), name, "exec", dont_inherit=True, optimize=optimize))


def _blind(loader: str) -> None:
    """Names of files that a loader obeys become such as cannot be: below a device."""
    with open(loader, "rb") as file:
        data = file.read()
    for name in _OBEYED:
        data = data.replace(b"\0" + name + b"\0", b"\0" + b"/dev/null/".ljust(len(name), b"x") + b"\0")
    with open(loader, "wb") as file:
        file.write(data)


def _names(path: str) -> list[str]:
    """A library's own name and those of links to it beside it: one of them is what programs ask for."""
    directory, name = os.path.split(path)
    stem = name.partition(".so")[0]
    beside = [other for other in os.listdir(directory) if other.startswith(f"{stem}.so.")]
    return [name, *(other for other in beside if other != name and os.path.realpath(f"{directory}/{other}") == path)]


def _place(source: str, target: str) -> None:
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
