"""What a project says about itself, and where its generated modules go."""

from __future__ import annotations

import keyword
import posixpath
import unicodedata
from collections.abc import Iterable, Mapping

from specgen.values import dataclass

LONGEST_NAME = 100
"""How many characters a name has at most: classes, variables and files are called after it."""


def identifier_fault(part: str) -> str | None:
    """Why a text can't be a module, or a keyword of a function, in Python; ``None`` for one that can."""
    if len(part) > LONGEST_NAME:
        return f"a name has at most {LONGEST_NAME} characters, this one has {len(part):,}"
    if not part.isidentifier() or not part.isprintable():
        return "names are letters, digits and `_`, and do not start with a digit"
    if unicodedata.normalize("NFKC", part) != part:
        return "Python reads some of its letters as others"
    if keyword.iskeyword(part):
        return "it is a Python keyword"
    if part.startswith("__"):
        return "names that start with `__` are Python's own"
    return None


def package_fault(parts: Iterable[str]) -> str | None:
    """Why the parts of a dotted name can't be a package, or ``None``."""
    return next(filter(None, map(identifier_fault, parts)), None)


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

    def __post_init__(self) -> None:
        """Refuse a package that can't be imported.

        Raises:
            ValueError: a part of `package` is no name in Python.
        """
        if reason := package_fault(self.package.split(".")):
            raise ValueError(f"`{self.package}` is no name of a Python package: {reason}")

    def output_path(self, source: str) -> str:
        """The file generated from a schema file: `schemas/a/b.yaml` gives `<output>/a/b.py`."""
        return posixpath.join(self.output, self.path_in_package(source))

    def path_in_package(self, source: str) -> str:
        """The generated file relative to the output folder: `a/b.py`."""
        return self._inner(source) + ".py"

    def module_name(self, source: str) -> str:
        """The name that the generated module is imported by: `<package>.a.b`."""
        return ".".join([self.package, *self.inner_parts(source)])

    def inner_parts(self, source: str) -> list[str]:
        """The folders and the name of a schema file, below `schemas`: the parts of the module's name."""
        return self._inner(source).split("/")

    def _inner(self, source: str) -> str:
        folder = f"{self.schemas}/"
        below = (
            source[len(folder) :] if source.startswith(folder) else posixpath.relpath(source, self.schemas)
        )
        return posixpath.splitext(below)[0]


@dataclass(frozen=True)
class Library:
    """Schemas of an installed package: they can be imported and are not generated again.

    Attributes:
        package: its import name, which is also the first part of an import (`specgen_std/envs/cartpole`).
        sources: path below the package, without it (`envs/cartpole.yaml`), to text.
    """

    package: str
    sources: Mapping[str, str]
