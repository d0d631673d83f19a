"""How many modules import each other in a circle: each of them can only be understood with all the others.

An import inside a function counts, as it runs; one for type checkers alone does not. Neither does that of a package
folder which comes with the import of a module in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def modules(folder: Path) -> dict[str, Path]:
    """The modules of a package by their dotted names."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(node: ast.AST, known: dict[str, Path]) -> Iterator[str]:
    """The modules among the known ones that a piece of code imports when it runs."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=other):
            for child in other:
                yield from imports(child, known)
        case ast.Import(names=names):
            yield from (alias.name for alias in names if alias.name in known)
        case ast.ImportFrom(level=0, module=str(module), names=names):
            for alias in names:
                name = f"{module}.{alias.name}"
                if name in known or module in known:
                    yield name if name in known else module
        case ast.ImportFrom():
            raise AssertionError(f"imports are absolute, found one with dots in line {node.lineno}")
        case ast.expr():
            pass  # most nodes are; none of them imports
        case _:
            for child in ast.iter_child_nodes(node):
                yield from imports(child, known)


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The largest sets of modules of which each reaches each other, the largest first."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = [start]
        while left:
            for name in graph[left.pop()] - seen:
                seen.add(name)
                left.append(name)
        return seen

    below = {name: reached(name) for name in graph}
    found = {frozenset({other for other in below[name] if name in below[other]}) for name in graph}
    return sorted((set(circle) for circle in found if circle), key=len, reverse=True)


def circles_of(folder: Path) -> list[set[str]]:
    known = modules(folder)
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in known.items()}
    return circles({name: set(imports(tree, known)) - {name} for name, tree in trees.items()})


@pytest.mark.parametrize(("folder", "most"), [("specgen", 0), ("runtime/specgen_runtime", 12)])
def test_modules_do_not_import_each_other(folder: str, most: int) -> None:
    largest = max(circles_of(ROOT / folder), key=len, default=set())
    assert len(largest) <= most, sorted(largest)


def test_the_walk_sees_circles(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    texts = {
        "__init__": "from pack.a import x",
        "a": "def f():\n    from pack import b",
        "b": "import pack.a\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack.c import z",
        "c": "from pack.b import y",
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    assert circles_of(package) == [{"pack.a", "pack.b"}]
