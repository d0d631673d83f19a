"""Projects that tests write, through a type checker: most of its time goes into what they import."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from tests.typing.checkers import Errors, each_project

OWNERS = {
    "chat_env": "tests.typing.test_chat_env",
    "generated_code": "tests.typing.test_generated_code",
    "init": "tests.cli.test_init",
    "init_template": "tests.cli.test_init_template",
    "programs": "tests.typing.test_programs",
    "python_env": "tests.typing.test_python_env",
}
"""Test modules with projects, which `projects` gives."""


def errors_of(owner: str, checker: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Errors]:
    """What a checker says of each project of a test module.

    Pyright looks at the projects of all of them in one run, that of the first process which asks.

    Args:
        owner: the module, as `OWNERS` calls it.
        checker: `mypy` or `pyright`.
        tmp_path_factory: of this run, whose processes share what pyright says.
    """
    if checker == "mypy":
        return each_project(checker, _written(tmp_path_factory.mktemp(checker), _projects(owner)))
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # of all workers of this run
    known = shared / "pyright.json"
    with FileLock(shared / "pyright.lock"):
        if not known.exists():
            every = {f"{each}-{name}": write for each in OWNERS for name, write in _projects(each).items()}
            found = each_project(checker, _written(tmp_path_factory.mktemp(checker), every))
            known.write_text(json.dumps(found), encoding="utf-8")
    return {
        project.removeprefix(f"{owner}-"): {
            file: {int(line): messages for line, messages in lines.items()} for file, lines in errors.items()
        }
        for project, errors in json.loads(known.read_text(encoding="utf-8")).items()
        if project.startswith(f"{owner}-")
    }


def _projects(owner: str) -> dict[str, Callable[[Path], None]]:
    """How to write each project of a test module."""
    projects: dict[str, Callable[[Path], None]] = importlib.import_module(OWNERS[owner]).projects()
    return projects


def _written(folder: Path, projects: dict[str, Callable[[Path], None]]) -> Path:
    for name, write in projects.items():
        (folder / name).mkdir()
        write(folder / name)
    return folder
