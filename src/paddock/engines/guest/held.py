"""Modules that were read from one file: where each name that is opened costs a way out of the box's own kernel, those
of init, one by one, would take longer than all else it does before it is there.

From then on nothing is looked for by name: a module that is not held is none. This one is the first, so that it has
nothing to import but what Python has in itself; not even `__future__`.
"""

import marshal
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from types import ModuleType

    Known = dict[str, tuple[str, bool, bytes]]  # by name: the file it is of, whether it is a package, its code
else:
    Loader = object


class Held(Loader):
    """Finds and loads what is known; a module without code is one of the machine's, and has a file of its own."""

    def __init__(self, known: "Known", place: str) -> None:
        self._known = known
        self._place = place

    def find_spec(self, name: str, _path: "Sequence[str] | None" = None, _target: object = None) -> ModuleSpec | None:
        if name not in self._known:
            return None
        file, is_package, code = self._known[name]
        path = f"{self._place}/{file}"
        if code:
            return ModuleSpec(name, self, origin=path, is_package=is_package)
        return ModuleSpec(name, ExtensionFileLoader(name, path), origin=path)

    def create_module(self, _spec: ModuleSpec) -> None:
        """As any other is made."""

    def exec_module(self, module: "ModuleType") -> None:
        file, _, code = self._known.pop(module.__name__)
        module.__file__ = f"{self._place}/{file}"
        exec(marshal.loads(code), module.__dict__)  # noqa: S102, S302  our own code, from a place that no box writes to


def take(known: "Known", place: str) -> None:
    """In place of the search by names, which is the last of the ways to find a module."""
    sys.meta_path[-1] = Held(known, place)
