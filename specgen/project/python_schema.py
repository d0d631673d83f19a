"""Schema files written in Python: run, and their `schema` taken as plain data."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

from specgen.diagnostics import suggestion
from specgen.project.importing import importing_from


class PythonSchemaError(Exception):
    """A Python schema file failed, or declares nothing; `line` of the file is to blame."""

    def __init__(self, message: str, line: int = 1, help: str | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.help = help


def load_python_schema(root: Path, path: str) -> dict[str, object]:
    """Run a Python schema file and dump its `schema`.

    The file belongs to the project and runs with all rights of the one who builds; schemas of
    strangers should be YAML.

    Args:
        root: The project; importable while the file runs, so that schema files can share helpers.
        path: The file, relative to the project.

    Raises:
        PythonSchemaError: When the file raises, or when `schema` is missing or no `specgen.Module`.

    """
    from specgen.schema import Module

    file = root / path
    # A name of its own for each file: two files called `pendulum.py` must not meet in sys.modules.
    name = "_specgen_schema_" + hashlib.sha256(path.encode()).hexdigest()[:16]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PythonSchemaError("Python cannot load this file")
    module = importlib.util.module_from_spec(spec)
    with importing_from(root):
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PythonSchemaError(_said(error), _line(error, file), _help(error)) from error
        finally:
            sys.modules.pop(name, None)
    schema = getattr(module, "schema", None)
    if schema is None:
        help = "write schema = specgen.Module(...); helper files start with an underscore"
        raise PythonSchemaError("a Python schema file defines `schema`", help=help)
    if not isinstance(schema, Module):
        raise PythonSchemaError(f"`schema` is {_kind(schema)}, not a specgen.Module")
    data: dict[str, object] = schema.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    return data


def _first_mistake(error: BaseException) -> Any:
    """What pydantic says first of a declaration that it refuses; None of other errors."""
    if type(error).__name__ == "ValidationError" and hasattr(error, "errors"):
        return error.errors()[0]
    return None


def _said(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    if (first := _first_mistake(error)) is not None:
        where = ".".join(str(part) for part in first["loc"])
        text = f"{where}: {first['msg']}"
        if first["type"] == "extra_forbidden":
            text = f"unknown field `{where}` in `{getattr(error, 'title', '')}`"
    elif not isinstance(error, SyntaxError):
        text = f"{type(error).__name__}: {text}"
    return f"this file cannot be run: {text.splitlines()[0]}"


def _help(error: BaseException) -> str | None:
    """For a field that a class of declarations does not have: the one that was meant, or those that there are."""
    import specgen

    first = _first_mistake(error)
    if first is None or first["type"] != "extra_forbidden" or len(first["loc"]) != 1:
        return None
    declared = getattr(specgen, str(getattr(error, "title", "")), None)
    if declared is None:
        return None
    fields = list(declared.model_fields)
    return suggestion(str(first["loc"][0]), fields) or f"the fields here are {', '.join(sorted(fields))}"


def _line(error: BaseException, file: Path) -> int:
    if isinstance(error, SyntaxError) and error.lineno and error.filename == str(file):
        return error.lineno
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)
    ]
    return next((line for line in reversed(lines) if line), 1)


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
