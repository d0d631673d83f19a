"""Type checkers on a folder of files, without any configuration of its owner's."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

MARK = re.compile(r"#\s*E\s*$")

CACHE = Path(__file__).parents[2] / ".mypy_cache" / "tests"
"""What mypy knows of torch takes it half a minute to find out: one folder, which processes use in turn."""
CACHE_OF_TYPECHECK = CACHE.parent / f"{sys.version_info.major}.{sys.version_info.minor}"
"""What `make typecheck` has found out, with which ours begins; it is used where the options are the same."""

Errors = dict[str, dict[int, list[str]]]
"""What a checker says: messages by line, by file with errors."""


def marked(file: Path) -> set[int]:
    """The lines of a file that end with `# E`."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if MARK.search(line)}


def mypy(folder: Path) -> Errors:
    """What `mypy --strict --warn-unreachable` says of all files in a folder."""
    options = [
        "--strict",
        "--warn-unreachable",
        "--no-error-summary",
        "--hide-error-context",
        "--no-color-output",
        "--config-file=",
    ]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        own = CACHE / CACHE_OF_TYPECHECK.name
        if CACHE_OF_TYPECHECK.is_dir() and not own.exists():
            with suppress(shutil.Error):  # it may be at work, and replace a file
                shutil.copytree(CACHE_OF_TYPECHECK, own)
        done = run(folder, "mypy", *options, "--cache-dir", str(CACHE), ".")
    errors: Errors = {}
    for line in done.splitlines():
        found = re.match(r"(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)", line)
        if found:
            errors.setdefault(found["file"], {}).setdefault(int(found["line"]), []).append(found["text"])
        else:
            assert ": note: " in line, f"mypy: {line}"
    return errors


def pyright(folder: Path) -> Errors:
    """What pyright says of all files in a folder."""
    done = run(folder, "pyright", "--outputjson", "--pythonpath", sys.executable, ".")
    errors: Errors = {}
    for item in json.loads(done[done.index("{") :])["generalDiagnostics"]:
        if item["severity"] == "error":
            place = errors.setdefault(Path(item["file"]).relative_to(folder.resolve()).as_posix(), {})
            place.setdefault(item["range"]["start"]["line"] + 1, []).append(item["message"])
    return errors


def strict_pyright(folder: Path, **options: Any) -> Errors:
    """What pyright says in its strict mode, with further options of its configuration file."""
    configuration = {"typeCheckingMode": "strict", **options}
    (folder / "pyrightconfig.json").write_text(json.dumps(configuration), encoding="utf-8")
    return pyright(folder)


def each_project(checker: str, folder: Path) -> dict[str, Errors]:
    """What a checker says of each project in a folder, by the name of its folder.

    It looks at all of them at once, as most of its time goes into what they import.
    """
    projects = sorted(path.name for path in folder.iterdir())
    if checker == "mypy":
        if len(projects) == 1:
            return {projects[0]: mypy(folder / projects[0])}
        return _each_with_mypy(folder, projects)
    configuration = {"executionEnvironments": [{"root": name} for name in projects]}
    (folder / "pyrightconfig.json").write_text(json.dumps(configuration), encoding="utf-8")
    errors: dict[str, Errors] = {name: {} for name in projects}
    for file, lines in pyright(folder).items():
        name, _, path = file.partition("/")
        errors[name][path] = lines
    return errors


def _each_with_mypy(folder: Path, projects: list[str]) -> dict[str, Errors]:
    """Mypy takes modules of one name once: in copies side by side the name of its project is put before each."""
    together = folder / "together"
    for project in projects:
        root = folder / project
        own = {
            path.stem for path in root.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
        }
        named = re.compile(rf"\b({'|'.join(map(re.escape, sorted(own)))})\b")
        for file in root.rglob("*.py"):
            first, *rest = file.relative_to(root).parts
            copy = together.joinpath(f"{project}_{first}", *rest)
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = named.sub(rf"{project}_\1", file.read_text(encoding="utf-8"))
            copy.write_text(text, encoding="utf-8")
    found = mypy(together)
    shutil.rmtree(together)
    return {
        project: {
            file.removeprefix(f"{project}_"): lines
            for file, lines in found.items()
            if file.startswith(f"{project}_")
        }
        for project in projects
    }


CHECKERS: dict[str, Callable[[Path], Errors]] = {"mypy": mypy, "pyright": pyright}


def run(folder: Path, tool: str, *arguments: str) -> str:
    """Run a tool in a folder; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", tool, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout
