"""Whether the tests and the case folders that tables name are there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent


def is_there(name: str) -> bool:
    """Whether there is such a test, or case folder.

    Args:
        name: ``"folder/test_file.py::test_name"``, ``"folder/test_file.py::TestClass"`` or
            ``"folder/test_file.py::TestClass::test_name"``, relative to the folder of the tests; a case folder is
            ``"cases/losses/name"``.
    """
    file, *parts = name.split("::")
    if not parts:
        return (TESTS / file).is_dir()
    if not (TESTS / file).is_file():
        return False
    return "::".join(parts) in names_in(file)


@cache
def names_in(file: str) -> frozenset[str]:
    """The functions and classes at the top of a file of tests, and the methods of the latter: ``"TestClass::test_name"``."""
    names = []
    for node in ast.parse((TESTS / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.ClassDef):
            names += [node.name]
            names += [f"{node.name}::{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)]
    return frozenset(names)
