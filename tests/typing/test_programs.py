"""Users' programs on generated code, through both type checkers, without any configuration of theirs.

A line that ends with `# E` must be an error, for mypy and for pyright; no other line may be one.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
NAMES = sorted(path.name for path in PROGRAMS.glob("*.py"))
MARK = re.compile(r"#\s*E\s*$")

Errors = dict[str, dict[int, list[str]]]
"""What a checker says: messages by line, by file."""


def mypy(folder: Path) -> Errors:
    options = ["--strict", "--no-error-summary", "--hide-error-context", "--no-color-output", "--cache-dir"]
    done = run(folder, "mypy", *options, str(folder / ".mypy_cache"), *NAMES)
    errors: Errors = {name: {} for name in NAMES}
    for line in done.splitlines():
        found = re.match(r"(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)", line)
        if found:
            errors.setdefault(found["file"], {}).setdefault(int(found["line"]), []).append(found["text"])
        else:
            assert ": note: " in line, f"mypy: {line}"
    return errors


def pyright(folder: Path) -> Errors:
    done = run(folder, "pyright", "--outputjson", "--pythonpath", sys.executable, *NAMES)
    errors: Errors = {name: {} for name in NAMES}
    for item in json.loads(done[done.index("{") :])["generalDiagnostics"]:
        if item["severity"] == "error":
            place = errors.setdefault(Path(item["file"]).name, {})
            place.setdefault(item["range"]["start"]["line"] + 1, []).append(item["message"])
    return errors


CHECKERS: dict[str, Callable[[Path], Errors]] = {"mypy": mypy, "pyright": pyright}


def run(folder: Path, tool: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", tool, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=CHECKERS)
def errors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Errors:
    """One run of a checker over all programs, in a folder of their own."""
    folder = tmp_path_factory.mktemp(request.param)
    for name in NAMES:
        shutil.copy(PROGRAMS / name, folder)
    return CHECKERS[request.param](folder)


def expected(name: str) -> set[int]:
    lines = (PROGRAMS / name).read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if MARK.search(line)}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_errors_stand_where_they_are_marked(errors: Errors, name: str) -> None:
    found = errors[name]
    unexpected = {line: found[line] for line in sorted(found.keys() - expected(name))}
    assert not unexpected, "errors on lines that are right"
    missed = sorted(expected(name) - found.keys())
    lines = (PROGRAMS / name).read_text(encoding="utf-8").splitlines()
    assert not missed, [f"{line}: {lines[line - 1]}" for line in missed]


@pytest.mark.slow
def test_errors_stand_in_the_programs_only(errors: Errors) -> None:
    assert set(errors) == set(NAMES)


def test_the_programs_have_what_it_takes() -> None:
    assert not expected("right.py")
    assert len(expected("wrong.py")) >= 25
