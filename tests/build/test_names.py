"""What generated modules call things, against the names that declarations may not have."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from specgen.check.declarations import PYTHONS_OWN, SECTIONS, SUFFIXES
from specgen.check.names import refusal
from specgen.diagnostics import Sink
from specgen.expr.builtins.table import CALLABLE
from specgen.imported import BUILTINS, READ
from specgen.source import Mapping, parse_yaml

ROOT = Path(__file__).resolve().parents[2]
CASES = sorted((ROOT / "tests" / "cases").rglob("expected/**/*.py"))
GENERATED = [path for path in sorted((ROOT / "generated").rglob("*.py")) if path.name != "__init__.py"]


def test_the_names_that_generated_functions_read_are_known() -> None:
    read: set[str] = set()
    for path in [*GENERATED, *CASES]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        read |= {
            node.id
            for function in functions
            for statement in function.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in PYTHONS_OWN
        }
    assert read - CALLABLE <= BUILTINS
    assert read | {"float", "int"} >= BUILTINS - CALLABLE


@pytest.mark.parametrize("name", sorted(READ))
def test_no_declaration_hides_what_generated_code_reads(name: str) -> None:
    assert refusal(name) is not None
    assert refusal(name, foreign=True) is not None


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.stem)
def test_classes_are_called_after_their_declarations(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("specgen_std")
        for alias in node.names
    }
    assert imported <= READ | {"annotations"}
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)} - {"_AcceptedKeys"}
    allowed = {name + suffix for name in declared(path) for suffix in ("", *SUFFIXES)}
    assert classes <= allowed


def declared(path: Path) -> list[str]:
    schema = ROOT / "schemas" / path.relative_to(ROOT / "generated" / "specgen_std").with_suffix(".yaml")
    root = parse_yaml(schema.name, schema.read_text(encoding="utf-8"), Sink())
    assert root is not None
    sections = [root.get(section) for section in SECTIONS]
    return [key.text for section in sections if isinstance(section, Mapping) for key, _ in section.entries]
