"""Templates as Jinja compiles them, kept where Python keeps the bytecode of modules.

To compile those of one module takes as long as to compile several schema files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, cast

from jinja2 import BaseLoader, Environment, Template, compiler

_FOLDER = Path(__file__).parent / "templates"


class TemplateLoader(BaseLoader):
    """Loads the templates of generated modules by the names of their files."""

    def load(self, environment: Environment, name: str, globals: Any = None) -> Template:
        """A template, compiled if its bytecode is not kept or is that of another text."""
        code = _TemplateFile(environment, name).get_code(name)
        return environment.template_class.from_code(environment, cast("Any", code), globals or {})


class _TemplateFile(SourceFileLoader):
    """A file that Python takes for a module, and Jinja makes Python of."""

    def __init__(self, environment: Environment, name: str) -> None:
        super().__init__(name, str(_FOLDER / name))
        self._environment = environment

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:  # type: ignore[override]
        """Jinja's code in place of Python's."""
        return self._environment.compile(data.decode(), self.name, path)

    def path_stats(self, path: Any) -> Mapping[str, Any]:
        """What the kept bytecode has to agree with: the file, the release of Jinja, and how it is called here."""
        made_of = (path, compiler.__file__, _CALLER)
        times = tuple([os.stat(file).st_mtime_ns for file in made_of])
        return {**super().path_stats(path), "mtime": hash(times)}


_CALLER = Path(__file__).with_name("render.py")
