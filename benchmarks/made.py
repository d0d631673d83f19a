"""Chains over Gymnasium that are declared in a benchmark, and made when it runs."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from specgen import compile_project
from specgen.project.gymnasium_lock import record
from specgen.project.library import PACKAGE, library_schemas
from specgen.settings import Config, Library

__all__ = ["made"]


def made(name: str, schema: str, *gym_ids: str) -> ModuleType:
    """The module of a schema that imports the library.

    Args:
        name: its name, which nothing else has.
        schema: its text.
        *gym_ids: Gymnasium's environments that it runs.
    """
    package = f"made_{name}"
    compiled = compile_project.compile_sources(
        {f"schemas/{name}.yaml": schema},
        Config("schemas", package, package),
        gymnasium={gym_id: record(gym_id, {}) for gym_id in gym_ids},
        library=Library(PACKAGE, library_schemas()),
    )
    assert not compiled.diagnostics, compiled.diagnostics
    with tempfile.TemporaryDirectory() as folder:
        for path, text in compiled.files.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        sys.path.insert(0, folder)
        try:
            return importlib.import_module(f"{package}.{name}")
        finally:
            sys.path.remove(folder)
