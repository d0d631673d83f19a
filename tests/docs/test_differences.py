"""Each intended difference names a test that exists; if it names a case, that case is listed as a difference."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.named_tests import is_there

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
ID = re.compile(r"`(?P<file>tests/[\w/]+\.py)(?P<path>(?:::\w+)+)(?:\[(?P<case>[^`]+)\])?`")


class Named(NamedTuple):
    file: str
    path: str
    case: str | None


def last_cells() -> list[str]:
    """The last cell of each row of the tables."""
    rows = [line for line in TEXT.splitlines() if line.startswith("|")]
    cells = [row.strip("| ").split(" | ")[-1].removeprefix("| ") for row in rows]
    return [cell for cell in cells if cell != "test" and set(cell) != {"-", "|"}]


NAMED = [Named(*found.groups()) for cell in last_cells() if (found := ID.fullmatch(cell))]


def test_each_row_names_one_test() -> None:
    assert [cell for cell in last_cells() if not ID.fullmatch(cell)] == []
    assert len(NAMED) == len(ID.findall(TEXT))


@pytest.mark.parametrize("named", NAMED, ids=lambda named: named.case or named.path.rpartition("::")[2])
def test_the_test_exists(named: Named) -> None:
    assert is_there(f"{named.file.removeprefix('tests/')}{named.path}")
    if named.case is not None:
        module = importlib.import_module(named.file.removesuffix(".py").replace("/", "."))
        assert named.case in module.DIFFERENCES
