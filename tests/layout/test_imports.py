"""Which package may import which: the contracts of pyproject.toml, and what they can't see."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = sorted((ROOT / "generated").rglob("*.py"))
# Generated code stands on these and on Python's own library, and may name other generated modules.
ALLOWED = {"jaxtyping", "specgen_runtime", "specgen_std", "tensordict", "torch", "typing_extensions"}
HEAVY = ("gymnasium", "jaxtyping", "numpy", "specgen_runtime", "specgen_std", "tensordict", "torch")


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True)


def test_import_contracts() -> None:
    found = python(
        "-c",
        "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(cache_dir=None))",
    )
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize(
    "program",
    [
        "import specgen.cli",
        "import specgen, specgen.compile_project, specgen.project",
        "from specgen.cli import main\ntry: main(['check'])\nexcept SystemExit as end: assert not end.code",
    ],
    ids=["the command line", "the library", "specgen check"],
)
def test_the_compiler_runs_without_torch(program: str) -> None:
    """And `specgen check` finds in this repository what its schemas generate."""
    report = f"import sys\nprint('loaded:', *[name for name in {HEAVY!r} if name in sys.modules])"
    found = python("-c", f"{program}\n{report}")
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.splitlines()[-1] == "loaded:"


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_generated_code_imports_only_what_it_stands_on(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            imported.add(node.module.split(".")[0])
    assert imported - sys.stdlib_module_names <= ALLOWED


def test_the_compiler_has_one_kind_of_dataclass() -> None:
    """That of `specgen.values`: Python's own takes as long to declare two hundred classes as an edit may take."""
    found = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "specgen").rglob("*.py"))
        if path.name != "values.py"
        and re.search(
            r"^from dataclasses import .*\b(dataclass|replace)\b",
            path.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    ]
    assert found == []
