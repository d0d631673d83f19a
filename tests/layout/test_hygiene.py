"""What every file of the repository has in common."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("specgen", "runtime/specgen_runtime", "generated/specgen_std")
LINES = 400
# Files that are one thing and longer all the same, each with the reason.
LONG = {
    "tests/envs/test_generated.py": "one class, GeneratedEnv, and each promise of it",
    "tests/envs/test_gym.py": "GymEnv, GymWrapper and GeneratedGymEnv share their fixtures",
}
# In two parts, so that this file does not hold what it looks for.
UNFINISHED = re.compile(r"\b(" + "TO" + "DO|FIX" + r"ME|XX" + r"X)\b")


def files(*folders: str, suffix: str = ".py") -> Iterator[Path]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob(f"*{suffix}")):
            if "__pycache__" not in path.parts:
                yield path


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_files_stay_short() -> None:
    long = {
        name(path): count
        for path in files("specgen", "runtime", "tests", "benchmarks", "examples")
        if not {"expected", "warehouse_rl"} & {*path.parts}  # generated, like generated/
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > LINES
    }
    assert {path: count for path, count in long.items() if path not in LONG} == {}
    assert set(LONG) <= set(long), "listed as long, and is not any more"


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


def test_folders_of_modules_are_packages() -> None:
    folders = {path.parent for path in files(*PACKAGES)}
    assert [name(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_modules_say_what_they_are() -> None:
    silent = [
        name(path)
        for path in files(*PACKAGES)
        if ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None
    ]
    assert silent == []


def test_nothing_is_marked_unfinished() -> None:
    folders = ("specgen", "runtime", "generated", "schemas", "tests", "benchmarks", "examples", "docs")
    marked = [
        f"{name(path)}:{number}"
        for suffix in (".py", ".yaml", ".md", ".j2", ".in")
        for path in files(*folders, suffix=suffix)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert marked == []


def test_text_is_tidy() -> None:
    wrong = []
    for suffix in (".yaml", ".md"):
        for path in files("schemas", "docs", suffix=suffix):
            text = path.read_text(encoding="utf-8")
            if not text.endswith("\n") or text.endswith("\n\n") or "\r" in text or "\t" in text:
                wrong.append(name(path))
    assert wrong == []
