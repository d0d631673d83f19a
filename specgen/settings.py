"""What a project says about itself, and where its generated modules go."""

from __future__ import annotations

import keyword
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """`[tool.specgen]` of a project.

    Attributes:
        schemas: The folder of schema files. Paths are relative to the project, with forward slashes.
        output: The folder of the generated package.
        package: The name that the generated package is imported by.
        exclude: Patterns of schema files, relative to `schemas`, to leave out.
        gymnasium_modules: Modules to import before Gymnasium is asked for an environment; they
            register environments of their own.

    """

    schemas: str = "schemas"
    output: str = "generated"
    package: str = "generated"
    exclude: tuple[str, ...] = ()
    gymnasium_modules: tuple[str, ...] = ()

    def output_path(self, source: str) -> str:
        """The file generated from a schema file: `schemas/a/b.yaml` gives `<output>/a/b.py`."""
        return posixpath.join(self.output, self.path_in_package(source))

    def path_in_package(self, source: str) -> str:
        """The generated file relative to the output folder: `a/b.py`."""
        return self._inner(source) + ".py"

    def module_name(self, source: str) -> str:
        """The name that the generated module is imported by: `<package>.a.b`."""
        return ".".join([self.package, *self._inner(source).split("/")])

    def bad_name(self, source: str) -> str | None:
        """The first part of a schema's path that cannot be part of a module's name, if any."""
        for part in self._inner(source).split("/"):
            if not part.isidentifier() or keyword.iskeyword(part):
                return part
        return None

    def _inner(self, source: str) -> str:
        return posixpath.splitext(posixpath.relpath(source, self.schemas))[0]


@dataclass(frozen=True)
class Library:
    """Schemas of an installed package: they can be imported and are not generated again.

    Attributes:
        package: its import name, which is also the first part of an import (`specgen_std/envs/cartpole`).
        sources: path below the package, without it (`envs/cartpole.yaml`), to text.
    """

    package: str
    sources: Mapping[str, str]
