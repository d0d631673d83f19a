"""Type checkers on a folder of files, without any configuration of its owner's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARK = re.compile(r"#\s*E\s*$")

CACHE = Path(__file__).parents[2] / ".mypy_cache" / os.environ.get("PYTEST_XDIST_WORKER", "tests")
"""What mypy knows of torch takes it half a minute to find out: one folder for all tests of a process."""

Errors = dict[str, dict[int, list[str]]]
"""What a checker says: messages by line, by file with errors."""


def marked(file: Path) -> set[int]:
    """The lines of a file that end with `# E`."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if MARK.search(line)}


def mypy(folder: Path) -> Errors:
    """What `mypy --strict` says of all files in a folder."""
    options = [
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        "--no-color-output",
        "--config-file=",
    ]
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


CHECKERS: dict[str, Callable[[Path], Errors]] = {"mypy": mypy, "pyright": pyright}


def run(folder: Path, tool: str, *arguments: str) -> str:
    """Run a tool in a folder; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", tool, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout
