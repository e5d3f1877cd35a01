"""What the style checks read: the modules below a source root, what each imports and which names it uses."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """`from a.b import c` has the target `a.b.c`, whether c is a module or a name in one."""

    target: str
    line: int
    typing_only: bool = False  # under `if TYPE_CHECKING`
    on_demand: bool = False  # inside a module's __getattr__


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    name: str  # paddock.engines.base
    path: str  # engines/base.py, below the package
    tree: ast.Module

    def imports(self) -> list[Import]:
        is_package = self.path.endswith("__init__.py")
        reader = _ImportReader(self.name if is_package else self.name.rpartition(".")[0])
        reader.visit(self.tree)
        return reader.found

    def uses(self) -> list[tuple[str, int]]:
        """Every name and dotted chain of names that is read, with its line."""
        found = [
            (dotted(node), node.lineno) for node in ast.walk(self.tree) if isinstance(node, (ast.Name, ast.Attribute))
        ]
        return [(name, line) for name, line in found if name]


def modules(src: Path) -> dict[str, Module]:
    """The modules of the package `paddock` below `src`, by dotted name."""
    found = {}
    for file in sorted(src.glob("paddock/**/*.py")):
        parts = file.relative_to(src).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        path = file.relative_to(src / "paddock").as_posix()
        found[name] = Module(name=name, path=path, tree=ast.parse(file.read_text("utf-8"), file))
    return found


def within(target: str, name: str) -> bool:
    """Whether a dotted target is `name` or something in it."""
    return target == name or target.startswith(name + ".")


def dotted(node: ast.expr) -> str:
    """`a.b.c` for a chain of names, otherwise the empty string."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{left}.{attr}" if (left := dotted(value)) else ""
        case _:
            return ""


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """A made-up tree for a check to be tried on."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return root


class _ImportReader(ast.NodeVisitor):
    def __init__(self, package: str) -> None:
        self.found: list[Import] = []
        self._package = package
        self._typing_only = False
        self._on_demand = False

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parents = self._package.split(".")
            base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
        for alias in node.names:
            self._add(f"{base}.{alias.name}", node.lineno)

    def visit_If(self, node: ast.If) -> None:
        if dotted(node.test).rpartition(".")[2] != "TYPE_CHECKING":
            self.generic_visit(node)
            return
        before, self._typing_only = self._typing_only, True
        for child in node.body:
            self.visit(child)
        self._typing_only = before
        for child in node.orelse:
            self.visit(child)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        before, self._on_demand = self._on_demand, self._on_demand or node.name == "__getattr__"
        self.generic_visit(node)
        self._on_demand = before

    def _add(self, target: str, line: int) -> None:
        self.found.append(
            Import(target=target, line=line, typing_only=self._typing_only, on_demand=self._on_demand),
        )
