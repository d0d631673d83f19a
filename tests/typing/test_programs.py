"""Users' programs on generated code, through both type checkers, without any configuration of theirs.

A line that ends with `# E` must be an error, for mypy and for pyright; no other line may be one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.typing.checkers import CHECKERS, Errors, marked
from tests.typing.projects import errors_of

PROGRAMS = Path(__file__).parent / "programs"
NAMES = sorted(path.name for path in PROGRAMS.glob("*.py"))


def projects() -> dict[str, Callable[[Path], None]]:
    """How to write all programs, as one project."""

    def write(folder: Path) -> None:
        for name in NAMES:
            shutil.copy(PROGRAMS / name, folder)

    return {"all": write}


@pytest.fixture(scope="module", params=CHECKERS)
def errors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Errors:
    """What a checker says of all programs."""
    return errors_of("programs", request.param, tmp_path_factory)["all"]


def expected(name: str) -> set[int]:
    return marked(PROGRAMS / name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_errors_stand_where_they_are_marked(errors: Errors, name: str) -> None:
    found = errors.get(name, {})
    unexpected = {line: found[line] for line in sorted(found.keys() - expected(name))}
    assert not unexpected, "errors on lines that are right"
    missed = sorted(expected(name) - found.keys())
    lines = (PROGRAMS / name).read_text(encoding="utf-8").splitlines()
    assert not missed, [f"{line}: {lines[line - 1]}" for line in missed]


@pytest.mark.slow
def test_errors_stand_in_the_programs_only(errors: Errors) -> None:
    assert set(errors) <= set(NAMES)


def test_the_programs_have_what_it_takes() -> None:
    assert not expected("right.py")
    assert len(expected("wrong.py")) >= 25
