"""Compiling schemas, and importing packages of generated code, in tests.

Tests compile through `compile_sources` of this module: it resolves every name in what comes out.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ruff import find_ruff_bin  # type: ignore[import-untyped]

from specgen import compile_project
from specgen.compile_project import Compiled
from specgen.diagnostics import render_human
from specgen.memo import Kind, Memory
from specgen.project.library import PACKAGE, library_lock, library_schemas
from specgen.settings import Config, Library
from specgen.source import PythonSchema
from specgen.source.model_folders import ModelFolder
from specgen.source.spaces import Record, records_from_json

LIBRARY = Library(PACKAGE, library_schemas())


class LibraryMemo(Memory):
    """What is found out about the library's files, and nothing about other files."""

    def __init__(self) -> None:
        super().__init__()
        self._checked: dict[str, Any] = {}

    def put(self, kind: Kind, key: str, value: Any) -> None:
        """Keep what is about the library: its files are checked, and no module is made of them."""
        if kind == "outline" and value.path.startswith(f"{PACKAGE}/"):
            super().put(kind, key, value)
        elif kind == "interface":
            self._checked[key] = value
        elif kind == "result":
            interface = self._checked.pop(key, None)
            if interface is not None and value.digest is None and not value.diagnostics:
                super().put("interface", key, interface)
                super().put("result", key, value)


KNOWN_OF_LIBRARY = LibraryMemo()
"""Half of the time of compiling schemas that import a little of the library is its own. That the result is the same
without is checked case by case (`tests/project/test_cases_from_the_store.py`)."""


class WithLibrary:
    """A memo, beside which everything is known of the library's files."""

    def __init__(self, memo: compile_project.Memo) -> None:
        self.memo = memo

    def get(self, kind: Kind, key: str) -> Any:
        """What is known of the library, or what the memo has."""
        known = KNOWN_OF_LIBRARY.get(kind, key)
        return self.memo.get(kind, key) if known is None else known

    def put(self, kind: Kind, key: str, value: Any) -> None:
        """Keep it in the memo."""
        self.memo.put(kind, key, value)


_SHAPES = re.compile(r'\[Tensor, "[^"]*"\]')
"""What jaxtyping reads as a shape, and a linter as the name of a type."""

_GENERATED: dict[Any, dict[str, str]] = {}
"""What `generate` gave, by what it was given."""

_RESOLVED: set[str] = set()
"""Generated texts whose names are known to resolve."""

_PENDING: dict[str, str] = {}
"""Generated texts that were not looked at yet, with a path for each."""


def compile_sources(
    sources: Mapping[str, str | PythonSchema],
    config: Config,
    *,
    gymnasium: Mapping[str, Record] | None = None,
    model_folders: Mapping[str, ModelFolder] | None = None,
    library: Library | None = None,
    memo: compile_project.Memo | None = None,
) -> Compiled:
    """`specgen.compile_project.compile_sources`; every name in the generated modules stands for something."""
    memo = KNOWN_OF_LIBRARY if memo is None and library is LIBRARY else memo
    made = compile_project.compile_sources(
        sources, config, gymnasium=gymnasium, model_folders=model_folders, library=library, memo=memo
    )
    assert_names_resolve_soon(made.files)
    return made


def assert_names_resolve(files: Mapping[str, str]) -> None:
    """No module reads a name that nothing defines, or defines or imports one that nothing reads (ruff's F rules).

    Args:
        files: the text of each module, by its path.
    """
    new = {path: text for path, text in files.items() if path.endswith(".py") and text not in _RESOLVED}
    if not new:
        return
    with tempfile.TemporaryDirectory() as folder:
        for path, text in new.items():
            file = Path(folder, path.lstrip("/"))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_SHAPES.sub("[Tensor, 0]", text), encoding="utf-8")
        command = [find_ruff_bin(), "check", "--isolated", "--no-cache", "--quiet", "--select", "F", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    _RESOLVED.update(new.values())


def assert_names_resolve_soon(files: Mapping[str, str]) -> None:
    """The same of modules that are looked at together with those of other tests: a process takes longer than they do.

    Args:
        files: the text of each module, by its path.
    """
    test = os.environ.get("PYTEST_CURRENT_TEST", "no test").split("::", 1)[-1].split(" (")[0]
    place = re.sub(r"\W+", "_", test)[:100]
    for path, text in files.items():
        if path.endswith(".py") and text not in _RESOLVED:
            _PENDING.setdefault(text, f"{place}_{len(_PENDING)}/{path.lstrip('/')}")


def assert_pending_names_resolve(more_than: int = 0) -> None:
    """Look at the modules of `assert_names_resolve_soon`, if there are more than so many; paths begin with their test."""
    if len(_PENDING) > more_than:
        texts = {path: text for text, path in _PENDING.items()}
        _PENDING.clear()
        assert_names_resolve(texts)


def compile_texts(
    texts: Mapping[str, str], package: str, gymnasium: Mapping[str, Record] | None = None
) -> tuple[dict[str, str], str, set[str]]:
    """Compile schemas, which may import the library.

    Returns:
        The generated files by their paths below the package, what is said of the schemas, and the codes of that.
    """
    sources = {f"schemas/{path}": text for path, text in texts.items()}
    uses_library = any(f"{PACKAGE}/" in text for text in texts.values())
    made = compile_sources(
        sources,
        Config("schemas", package, package),
        gymnasium={**(library_records() if uses_library else {}), **(gymnasium or {})},
        library=LIBRARY if uses_library else None,
    )
    files = {path.removeprefix(f"{package}/"): text for path, text in made.files.items()}
    return files, render_human(made.diagnostics, sources), {item.code for item in made.diagnostics}


def generate(
    texts: Mapping[str, str], package: str, gymnasium: Mapping[str, Record] | None = None
) -> dict[str, str]:
    """The generated files of schemas, by their paths below the package; schemas may import the library.

    Schemas that were compiled before in this process, for other parameters of the same test say, are not again.
    """
    key = (package, *texts.items())
    if gymnasium is not None or key not in _GENERATED:
        files, said, _ = compile_texts(texts, package, gymnasium)
        assert not said, said
        if gymnasium is not None:
            return files
        _GENERATED[key] = files
    return dict(_GENERATED[key])


def library_records() -> dict[str, Record]:
    """What the library's Gymnasium environments were found to offer."""
    lock = library_lock()
    assert lock is not None
    return records_from_json(lock.read_text(encoding="utf-8"))


@contextmanager
def imported(files: Mapping[str, str], package: str, folder: Path) -> Iterator[ModuleType]:
    """Write a generated package into `folder` and import it; it is forgotten at the end of the block."""
    for path, text in files.items():
        file = folder / package / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module(package)
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == package]:
            del sys.modules[name]


def public_names(cls: type) -> set[str]:
    """The public attributes of a class of modules."""
    names = {name for name in dir(cls) if not name.startswith("_")}
    return names - {"smart_apply"}  # transformers gives it to every module, where it is imported
