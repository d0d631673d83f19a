"""Users' classes behind `python:` environments, through both type checkers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.typing.checkers import CHECKERS, Errors, marked
from tests.typing.projects import errors_of

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "warehouse"
WRONG = Path(__file__).parent / "python_env" / "wrong.py"

RIGHT = "class DepotSimulation(DepotProtocol):"
ALONE = "class DepotSimulation:"


WRONG_CLASSES = {
    "another_method": ("def step(self, action: Tensor)", "def go(self, action: Tensor)"),
    "another_constructor": (
        "def __init__(self, setup: DepotSetup)",
        "def __init__(self, setup: DepotSetup, more: int)",
    ),
}
"""What is replaced in a class that is no subclass of its Protocol, by a name for it."""


def projects() -> dict[str, Callable[[Path], None]]:
    """How to write each project: the example with a program full of mistakes, and with a wrong class."""

    def write(folder: Path, name: str) -> None:
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        replace(folder / "depot.py", RIGHT, ALONE)  # a class need not be a subclass of its Protocol
        if name in WRONG_CLASSES:
            replace(folder / "depot.py", *WRONG_CLASSES[name])
        else:
            shutil.copy(WRONG, folder)

    return {name: partial(write, name=name) for name in ("wrong_program", *WRONG_CLASSES)}


@pytest.fixture(scope="module", params=CHECKERS)
def errors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Errors]:
    """What a checker says of each project."""
    return errors_of("python_env", request.param, tmp_path_factory)


@pytest.mark.slow
def test_errors_stand_where_they_are_marked(errors: dict[str, Errors]) -> None:
    found = {file: set(lines) for file, lines in errors["wrong_program"].items()}
    assert found == {"wrong.py": marked(WRONG)}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG_CLASSES)
def test_a_class_that_is_no_subclass_is_checked_in_the_generated_module(
    errors: dict[str, Errors], name: str
) -> None:
    generated = (EXAMPLE / "warehouse_rl" / "warehouse.py").read_text(encoding="utf-8").splitlines()
    made = {number for number, line in enumerate(generated, 1) if line.endswith("] = DepotSimulation")}
    assert len(made) == 2  # of the environment, and of the chain over it
    assert {file: set(lines) for file, lines in errors[name].items()} == {"warehouse_rl/warehouse.py": made}


def test_the_program_has_what_it_takes() -> None:
    assert len(marked(WRONG)) >= 15


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
