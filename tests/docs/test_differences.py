"""Each intended difference names a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.findall(
    r"`(tests/[\w/]+\.py)((?:::\w+)+)`", (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
)


def test_the_ledger_is_read() -> None:
    rows = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8").splitlines()
    entries = [row for row in rows if row.startswith("| ") and not row.startswith("| the peer")]
    assert len(NAMED) == len(entries)


@pytest.mark.parametrize(("file", "path"), NAMED, ids=[path.rpartition("::")[2] for _, path in NAMED])
def test_the_test_exists(file: str, path: str) -> None:
    scope: ast.AST = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    for part in path.strip(":").split("::"):
        named = (ast.FunctionDef, ast.ClassDef)
        found = [n for n in ast.iter_child_nodes(scope) if isinstance(n, named) and n.name == part]
        assert found, f"no {part} in {file}"
        scope = found[0]
