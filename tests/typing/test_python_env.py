"""Users' classes behind `python:` environments, through both type checkers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.typing.checkers import CHECKERS, Errors, marked

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "warehouse"
WRONG = Path(__file__).parent / "python_env" / "wrong.py"

RIGHT = "class DepotSimulation(DepotProtocol):"
ALONE = "class DepotSimulation:"


@pytest.fixture(params=CHECKERS)
def checker(request: pytest.FixtureRequest) -> Callable[[Path], Errors]:
    """Mypy, and pyright."""
    return CHECKERS[request.param]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example, in a folder of its own."""
    return Path(
        shutil.copytree(EXAMPLE, tmp_path / "warehouse", ignore=shutil.ignore_patterns("__pycache__"))
    )


@pytest.mark.slow
def test_errors_stand_where_they_are_marked(checker: Callable[[Path], Errors], project: Path) -> None:
    shutil.copy(WRONG, project)
    replace(project / "depot.py", RIGHT, ALONE)  # a class need not be a subclass of its Protocol
    assert {file: set(lines) for file, lines in checker(project).items()} == {"wrong.py": marked(WRONG)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("def step(self, action: Tensor)", "def go(self, action: Tensor)"),
        ("def __init__(self, setup: DepotSetup)", "def __init__(self, setup: DepotSetup, more: int)"),
    ],
)
def test_a_class_that_is_no_subclass_is_checked_in_the_generated_module(
    checker: Callable[[Path], Errors], project: Path, right: str, wrong: str
) -> None:
    replace(project / "depot.py", RIGHT, ALONE)
    replace(project / "depot.py", right, wrong)
    found = checker(project)
    generated = (project / "warehouse_rl" / "warehouse.py").read_text(encoding="utf-8").splitlines()
    made = {number for number, line in enumerate(generated, 1) if line.endswith("] = DepotSimulation")}
    assert len(made) == 2  # of the environment, and of the chain over it
    assert {file: set(lines) for file, lines in found.items()} == {"warehouse_rl/warehouse.py": made}


def test_the_program_has_what_it_takes() -> None:
    assert len(marked(WRONG)) >= 15


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
