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
    """What a checker says of each project of a test module, found out once a run of tests.

    Pyright looks at the projects of all of them in one run, that of the first process which asks.

    Args:
        owner: the module, as `OWNERS` calls it.
        checker: `mypy` or `pyright`.
        tmp_path_factory: of this run, whose processes share what a checker says.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # of all workers of this run
    owners = [owner] if checker == "mypy" else list(OWNERS)
    known = shared / f"{checker}-{'-'.join(owners)}.json"
    with FileLock(shared / f"{checker}.lock"):
        if not known.exists():
            folder = tmp_path_factory.mktemp(checker)
            if checker == "mypy":
                every = {owner: each_project(checker, _written(folder, _projects(owner)))}
            else:
                named = {
                    f"{each}-{name}": write for each in owners for name, write in _projects(each).items()
                }
                found = each_project(checker, _written(folder, named))
                every = {each: {name: found[f"{each}-{name}"] for name in _projects(each)} for each in owners}
            known.write_text(json.dumps(every), encoding="utf-8")
    return {
        project: {
            file: {int(line): messages for line, messages in lines.items()} for file, lines in errors.items()
        }
        for project, errors in json.loads(known.read_text(encoding="utf-8"))[owner].items()
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
