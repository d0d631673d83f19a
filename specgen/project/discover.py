"""Which schema files a project has."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path

from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules.project import PYTHON_SCHEMA, UNREADABLE
from specgen.project.config import Project
from specgen.project.files import Reader
from specgen.source import PythonSchema, decode, shown_path, to_yaml
from specgen.values import dataclass

# Larger than any declaration; a file of this size in the folder of schemas is there by mistake.
_LARGEST = 4 * 1024 * 1024


@dataclass(frozen=True)
class Sources:
    """The schema files of a project, by their paths relative to its root.

    `schemas` is what the compiler takes; `shown` has the texts that diagnostics show lines of.
    """

    schemas: dict[str, str | PythonSchema]
    shown: dict[str, str]


def find_schemas(project: Project) -> list[str]:
    """The paths of the schema files, sorted: `.yaml`, `.yml`, and `.py` without leading underscore.

    Hidden files and folders, and what `exclude` names, are left out.
    """
    config, found = project.config, []
    base = project.root / config.schemas
    for folder, folders, names in os.walk(base):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        inner = Path(folder).relative_to(base).as_posix()
        for name in names:
            path = name if inner == "." else f"{inner}/{name}"
            if _is_schema(name) and not any(fnmatchcase(path, pattern) for pattern in config.exclude):
                found.append(f"{config.schemas}/{path}")
    return sorted(found)


def _is_schema(name: str) -> bool:
    if name.startswith("."):
        return False
    return name.endswith((".yaml", ".yml")) or (name.endswith(".py") and not name.startswith("_"))


def read_sources(project: Project, sink: Sink, reader: Reader[bytes] | None = None) -> Sources:
    """Read all schema files; Python ones are run, and what they declare is taken as data.

    A file that cannot be read is a diagnostic in `sink` and is left out. `reader` knows what earlier runs have read.
    """
    sources = Sources({}, {})
    reader = reader or Reader(bytes)
    known = set(sys.modules)
    for path in find_schemas(project):
        text = _read(project.root / path, path, sink, reader)
        if text is None:
            continue
        sources.shown[path] = text
        if not path.endswith(".py"):
            sources.schemas[path] = text
        elif (schema := _run(project, path, text, sink)) is not None:
            sources.schemas[path] = schema
            sources.shown[shown_path(path)] = schema.text
    _forget_helpers(project.root, sys.modules.keys() - known)
    return sources


def _forget_helpers(root: Path, modules: Collection[str]) -> None:
    """Let the modules of the project that schema files have imported be imported anew by the next run."""
    for name in modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(root) and "site-packages" not in Path(file).parts:
            del sys.modules[name]
    if modules:
        importlib.invalidate_caches()


def _read(file: Path, path: str, sink: Sink, reader: Reader[bytes]) -> str | None:
    top = Span(path, 1, 1, 1, 1)
    try:
        if not file.is_file():
            sink.add(UNREADABLE.at(top, f"`{path}` is no file"))
            return None
        if file.stat().st_size > _LARGEST:
            sink.add(UNREADABLE.at(top, f"`{path}` is larger than {_LARGEST // 2**20} MiB"))
            return None
        data = reader.read(str(file))
    except OSError as error:
        sink.add(UNREADABLE.at(top, f"`{path}` cannot be read: {error.strerror}"))
        return None
    return decode(path, data, sink)


def _run(project: Project, path: str, text: str, sink: Sink) -> PythonSchema | None:
    # Pydantic is only loaded for projects that declare in Python.
    from specgen.project.python_schema import PythonSchemaError, load_python_schema

    try:
        data = load_python_schema(project.root, path)
        to_yaml(data)
    except PythonSchemaError as error:
        lines = text.split("\n")
        line = min(max(error.line, 1), len(lines))
        end = len(lines[line - 1].rstrip()) + 1
        sink.add(PYTHON_SCHEMA.at(Span(path, line, 1, line, max(end, 2)), str(error), help=error.help))
        return None
    except TypeError as error:
        sink.add(PYTHON_SCHEMA.at(Span(path, 1, 1, 1, 2), f"`schema` holds what no schema can: {error}"))
        return None
    return PythonSchema(data)
