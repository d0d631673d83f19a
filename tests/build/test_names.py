"""What generated modules call things, against the names that declarations may not have."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from specgen.check.declarations import PYTHON_NAMES, SECTIONS, SUFFIXES
from specgen.check.losses.names import part_record
from specgen.check.names import refusal
from specgen.check.pipelines.network_names import PART_ATTRIBUTES, PARTS_OF_NAMED
from specgen.diagnostics import Sink
from specgen.expr.builtins.table import CALLABLE
from specgen.header import is_generated
from specgen.imported import NAMES_READ, PYTHON_FUNCTIONS
from specgen.pipeline_module import PIPELINE_FUNCTIONS, PIPELINE_IMPORTS
from specgen.source import Mapping, parse_yaml
from specgen.source.outline import PIPELINE_SUFFIXES
from tests.compiled_cases import GOOD, compiled_case
from tests.support import assert_names_resolve, assert_names_resolve_soon, assert_pending_names_resolve

ROOT = Path(__file__).resolve().parents[2]
GENERATED = [path for path in sorted((ROOT / "generated").rglob("*.py")) if path.name != "__init__.py"]
PIPELINES = [path for path in GENERATED if path.parent.name == "pipelines"]


def test_the_names_that_generated_functions_read_are_known() -> None:
    read: set[str] = set()
    committed = [path.read_text(encoding="utf-8") for path in GENERATED]
    for text in [*committed, *(text for folder in GOOD for text in compiled_case(folder).files.values())]:
        tree = ast.parse(text)
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        read |= {
            node.id
            for function in functions
            for statement in function.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in PYTHON_NAMES
        }
    assert read - CALLABLE <= PYTHON_FUNCTIONS
    assert read | {"float", "int"} >= PYTHON_FUNCTIONS - CALLABLE


@pytest.mark.parametrize("name", sorted(NAMES_READ))
def test_no_declaration_hides_what_generated_code_reads(name: str) -> None:
    assert refusal(name) is not None
    assert refusal(name, foreign=True) is not None


def test_names_resolve_in_what_is_committed() -> None:
    folders = ("generated/specgen_std", "examples/warehouse/warehouse_rl", "tests/typing")
    files = {str(path): path for folder in folders for path in (ROOT / folder).rglob("*.py")}
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    made = {name: text for name, text in texts.items() if is_generated(text)}
    assert len(made) > 20
    assert_names_resolve(made)


@pytest.mark.parametrize("text", ["x = y\n", "import os\n", "def f(a):\n    b = a\n", "__all__ = ['gone']\n"])
def test_a_name_that_does_not_resolve_is_found(text: str) -> None:
    with pytest.raises(AssertionError, match=r"F[48]"):
        assert_names_resolve({"a.py": text})


def test_a_name_that_does_not_resolve_is_found_later_with_its_test() -> None:
    assert_names_resolve_soon({"a.py": "x = y\n", "b.py": "x = 1\n"})
    assert_pending_names_resolve(more_than=1000)
    with pytest.raises(
        AssertionError, match=r"F821(.|\n)*test_a_name_that_does_not_resolve_is_found_later\w*/a\.py"
    ):
        assert_pending_names_resolve()
    assert_pending_names_resolve()


def test_every_test_compiles_where_names_are_resolved() -> None:
    compiling = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(
            r"from specgen\.compile_project import .*compile_sources|compile_project\.compile_sources\(",
            path.read_text("utf-8"),
        )
    }
    assert compiling == {
        "tests/support.py",
        "tests/build/test_internal_errors.py",
        "tests/program/corpus.py",
    }


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.stem)
def test_classes_are_called_after_their_declarations(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("specgen_std")
        for alias in node.names
    }
    methods = {
        f"{name}Methods" for name in declared(path)
    }  # classes written by hand, called after the transform
    assert imported <= NAMES_READ | PIPELINE_IMPORTS.keys() | methods | {"annotations"}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    allowed = {name + suffix for name in declared(path) for suffix in ("", *SUFFIXES, *PIPELINE_SUFFIXES)}
    records = {part_record(name, part) for name, node in classes.items() for part in loss_parts(node)}
    assert classes.keys() <= allowed | records


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_names_of_networks_leave_out_what_modules_of_pipelines_have(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    (parts,) = (
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and "PipelineParts" in map(ast.unparse, node.bases)
    )
    attributes = {
        node.attr
        for node in ast.walk(parts)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    }
    attributes |= {node.name for node in parts.body if isinstance(node, ast.FunctionDef)}
    attributes |= {ast.unparse(node.target) for node in parts.body if isinstance(node, ast.AnnAssign)}
    networks = functions & attributes
    assert functions - networks <= {*PIPELINE_FUNCTIONS}
    others = {name for name in attributes - networks - PART_ATTRIBUTES if not name.startswith("_")}
    assert all(name.endswith(tuple(f"_{part}" for part in PARTS_OF_NAMED)) for name in others), others
    assert networks  # else nothing was looked at


def loss_parts(generated: ast.ClassDef) -> list[str]:
    """The keys of the attribute `parts` of a generated loss."""
    for statement in generated.body:
        if (
            isinstance(statement, ast.AnnAssign)
            and ast.unparse(statement.target) == "parts"
            and statement.value is not None  # a field of the keys of a transform has none
        ):
            assert isinstance(statement.value, ast.Dict)
            return [ast.literal_eval(key) for key in statement.value.keys if key is not None]
    return []


def declared(path: Path) -> list[str]:
    schema = ROOT / "schemas" / path.relative_to(ROOT / "generated" / "specgen_std").with_suffix(".yaml")
    root = parse_yaml(schema.name, schema.read_text(encoding="utf-8"), Sink())
    assert root is not None
    sections = [root.get(section) for section in SECTIONS]
    return [key.text for section in sections if isinstance(section, Mapping) for key, _ in section.entries]
