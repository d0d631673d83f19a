"""Building and importing packages of generated code in tests."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from specgen.diagnostics import render_human
from specgen.pipeline import compile_sources
from specgen.project.library import PACKAGE, library_lock, library_schemas
from specgen.settings import Config, Library
from specgen.source.spaces import Record, records_from_json

LIBRARY = Library(PACKAGE, library_schemas())


def generate(
    texts: Mapping[str, str], package: str, gymnasium: Mapping[str, Record] | None = None
) -> dict[str, str]:
    """The generated files of schemas, by their paths below the package; schemas may import the library."""
    sources = {f"schemas/{path}": text for path, text in texts.items()}
    uses_library = any(f"{PACKAGE}/" in text for text in texts.values())
    made = compile_sources(
        sources,
        Config("schemas", package, package),
        gymnasium={**(library_records() if uses_library else {}), **(gymnasium or {})},
        library=LIBRARY if uses_library else None,
    )
    assert not made.diagnostics, render_human(made.diagnostics, sources)
    return {path.removeprefix(f"{package}/"): text for path, text in made.files.items()}


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
