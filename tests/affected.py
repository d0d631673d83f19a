"""Which tests a change can break, by what imports what: the nearest first.

A test file can break if it reaches a changed file over imports. A name that a package only passes on leads to the
module that defines it, imports for type checkers lead nowhere, and the texts of programs inside tests count as imports
of theirs. Files that are not Python belong to the modules beside them, or to the tests that name their folder.
What fits no rule can break every test.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath

from tests.import_facts import MODULE_IN_TEXT, Facts, KnownFacts, Statement

SOURCES = {
    ".": ("specgen", "tests", "benchmarks", "examples"),
    "runtime": ("specgen_runtime",),
    "generated": ("specgen_std",),
}
"""The packages, by the folder that they are imported from."""

READ_BY_NAME = (
    "docs",
    "examples",
    "schemas",
    "benchmarks",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
)
"""Folders and files whose readers are the tests that name them."""

ALWAYS = "tests/layout/"
"""Tests of all files as files."""

OF_ALL_TESTS = "tests/conftest.py"
"""What it names in texts it looks up among the modules that a test has imported itself: no test depends on more by it."""

IMPORTING = {
    ("tests.support", "imported"): ("specgen_runtime.envs", "specgen_runtime.objectives"),
    ("tests.python_processes", "run_python"): ("specgen_runtime",),
}
"""What the programs import that these functions run."""


class Imports:
    """What the Python files of a checkout import from each other.

    Args:
        root: the checkout.
        gone: files that are not there any more.
    """

    def __init__(self, root: Path, gone: Collection[str] = ()) -> None:
        self.root = root
        self.modules = {name: path for path in (*_python_files(root), *gone) if (name := module_name(path))}
        self._known = KnownFacts(root)
        self._facts_by_path: dict[str, Facts] = {}

    @cached_property
    def imported(self) -> Mapping[str, set[str]]:
        """The files that each file imports, by path; a package's own file only if something of it is meant itself."""
        found = {path: {*self._imported_by(path)} - {path} for path in self.modules.values()}
        self._known.save()
        return found

    @cached_property
    def passed_through(self) -> Mapping[str, set[str]]:
        """The packages' own files that run before what is imported from inside."""
        found: dict[str, set[str]] = {}
        for path, targets in self.imported.items():
            folders = {folder for target in targets for folder in PurePosixPath(target).parents}
            inits = {f"{folder}/__init__.py" for folder in folders}
            found[path] = (inits & {*self.modules.values()}) - {path}
        return found

    def distances(self, changed: Collection[str]) -> dict[str, int]:
        """How many imports lie between a file and the nearest changed one, for all files that reach one."""
        importers: dict[str, set[str]] = {}
        for path, targets in self.imported.items():
            for target in targets:
                importers.setdefault(target, set()).add(path)
        found = dict.fromkeys(changed, 0)
        for path, inits in self.passed_through.items():
            if inits & {*changed}:
                found.setdefault(path, 1)
        edge = sorted(found, key=lambda path: found[path])
        for path in edge:  # grows while it is walked
            for importer in importers.get(path, ()):
                if found.get(importer, found[path] + 2) > found[path] + 1:
                    found[importer] = found[path] + 1
                    edge.append(importer)
        return found

    def folders_named_by(self, path: str) -> set[str]:
        """The parts of all texts in a module that could be paths."""
        texts = () if path == OF_ALL_TESTS else self._facts(path).texts
        return {part for text in texts for part in text.split("/")}

    def _facts(self, path: str) -> Facts:
        if path not in self._facts_by_path:
            file = self.root / path
            raw = file.read_bytes() if file.is_file() else b""
            self._facts_by_path[path] = self._known.get(raw, path.endswith("/__init__.py"))
        return self._facts_by_path[path]

    def _imported_by(self, path: str) -> Iterator[str]:
        for statement in self._facts(path).imports:
            if statement.module is None:
                for name, _ in statement.names:
                    for imported in self._file(name):
                        whole = imported.endswith("/__init__.py")  # anything in it can be looked up
                        yield from (
                            self._in_folder[str(PurePosixPath(imported).parent)] if whole else (imported,)
                        )
            else:
                module = _absolute(statement, path)
                for name, _ in statement.names:
                    yield from self._definers(module, name)
                    for generated in IMPORTING.get((module, name), ()):
                        yield from self._file(generated)
        if path.startswith("tests/"):
            if path != OF_ALL_TESTS:
                yield from self._named_by(path)
            for folder in PurePosixPath(path).parents:
                yield from self._file(".".join((*folder.parts, "conftest")))

    def _named_by(self, path: str) -> Iterator[str]:
        """The modules in the texts of a test: in programs and commands, and in folders that it reads."""
        folder = PurePosixPath(path).parent
        facts = self._facts(path)
        for name in facts.modules:
            yield from self._file(name)
        for text in facts.texts:
            if text == "specgen":  # `python -m specgen`
                yield from self._file("specgen.__main__")
            if text in ("docs", "README.md"):  # tests run the programs in them
                for name in self._in_documents:
                    yield from self._file(name)
            if re.fullmatch(r"\w+", text):
                yield from self._in_folder.get(text if text in READ_BY_NAME else f"{folder}/{text}", ())

    @cached_property
    def _in_documents(self) -> set[str]:
        """The modules that the documents name."""
        files = [self.root / "README.md", *sorted((self.root / "docs").rglob("*.md"))]
        texts = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
        return {name for text in texts for name in MODULE_IN_TEXT.findall(text)}

    @cached_property
    def _in_folder(self) -> Mapping[str, set[str]]:
        """The modules below each folder."""
        found: dict[str, set[str]] = {}
        for path in self.modules.values():
            for folder in PurePosixPath(path).parents:
                found.setdefault(str(folder), set()).add(path)
        return found

    def _file(self, module: str) -> Iterator[str]:
        """The file of a module, or of the module that a dotted name is from."""
        while module and module not in self.modules:
            module = module.rpartition(".")[0]
        if module in self.modules:
            yield self.modules[module]

    def _definers(self, module: str, name: str) -> Iterator[str]:
        """The file that defines a name which is imported from a module."""
        if f"{module}.{name}" in self.modules:
            yield self.modules[f"{module}.{name}"]
            return
        path = self.modules.get(module)
        if path is not None and path.endswith("__init__.py"):
            for statement in self._facts(path).names:
                for original, called in statement.names:
                    if called == name:
                        yield from self._definers(_absolute(statement, path), original)
                        return
        yield from self._file(module)


def affected_tests(root: Path, changed: Collection[str]) -> list[tuple[str, int]]:
    """The test files that a change can break with their distance from it, nearest first.

    Args:
        root: the checkout.
        changed: paths below it, also of files that are gone.
    """
    gone = {path for path in changed if path.endswith(".py") and not (root / path).exists()}
    imports = Imports(root, gone)
    known = {*imports.modules.values()}
    tests = sorted(
        path for path in known if re.fullmatch(r"tests/(.+/)?test_\w+\.py", path) and path not in gone
    )
    beginnings: dict[str, int] = {}
    for path in changed:
        owners = {path} if path in known else readers_of(path, imports)
        if owners is None or path == OF_ALL_TESTS:
            return [(test, 0) for test in tests]
        beginnings |= dict.fromkeys(owners, 0)
    distances = imports.distances(beginnings)
    found = {test: distances[test] for test in tests if test in distances}
    found |= {test: 0 for test in tests if test.startswith(ALWAYS)}
    return sorted(found.items(), key=lambda item: (item[1], item[0]))


def readers_of(path: str, imports: Imports) -> set[str] | None:
    """The Python files that read another file; None if there is no telling.

    One of `READ_BY_NAME` is read by the tests that name it; one in a folder beside packages, as `runtime/schemas`, by those
    that name both. Another is read by the modules beside it, or beside the
    folder that it is in; if that is a folder of tests, then by those that name the folder, wherever they are.
    """
    modules = {*imports.modules.values()}
    top = PurePosixPath(path).parts[0]
    if top in READ_BY_NAME:
        named = {
            test for test in modules if test.startswith("tests/") and top in imports.folders_named_by(test)
        }
        return named | {each for each in modules if top == "schemas" and each == "specgen/project/library.py"}
    if top in SOURCES and len(parts := PurePosixPath(path).parts) > 2 and parts[1] not in SOURCES[top]:
        named = {
            test
            for test in modules
            if test.startswith("tests/") and {*parts[:2]} <= imports.folders_named_by(test)
        }
        return named or None
    for folder in PurePosixPath(path).parents:
        beside = {module for module in modules if PurePosixPath(module).parent == folder}
        if beside and str(folder) != ".":
            name = PurePosixPath(path).relative_to(folder).parts[0]
            return {
                test for test in modules if top == "tests" and name in imports.folders_named_by(test)
            } or beside
    return None


def module_name(path: str) -> str | None:
    """The dotted name of a Python file; None if it is in none of `SOURCES`."""
    for folder, packages in SOURCES.items():
        inside = PurePosixPath(path).parts if folder == "." else PurePosixPath(path).parts[1:]
        if inside and inside[0] in packages and (folder == "." or path.startswith(f"{folder}/")):
            return ".".join(inside).removesuffix(".py").removesuffix(".__init__")
    return None


def _python_files(root: Path) -> Iterator[str]:
    for folder, packages in SOURCES.items():
        for package in packages:
            for file in sorted((root / folder / package).rglob("*.py")):
                path = file.relative_to(root).as_posix()
                if not path.startswith("tests/cases/"):
                    yield path


def _absolute(statement: Statement, path: str) -> str:
    """The module that names are imported from."""
    if not statement.level:
        return statement.module or ""
    package = (module_name(path) or "").split(".")
    kept = len(package) - statement.level + path.endswith("__init__.py")
    return ".".join([*package[:kept], *filter(None, [statement.module])])
