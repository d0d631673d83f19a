"""The case folders `cases/<kind>/<name>/`, compiled (each once a process)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from specgen.compile_project import Compiled
from specgen.diagnostics import render_human
from specgen.project.library import PACKAGE
from specgen.settings import Config
from specgen.source.model_folders import ModelFolder, folders_from_json
from specgen.source.spaces import Record, records_from_json
from tests.support import LIBRARY, compile_sources, library_records

ROOT = Path(__file__).parent / "cases"
LOCK = "gymnasium.lock.json"
MODEL_LOCK = "language_models.lock.json"
FOLDERS = sorted(folder for folder in ROOT.glob("*/*") if folder.is_dir())
GOOD = [folder for folder in FOLDERS if folder.parent.name == "good"]


@dataclass(frozen=True)
class Case:
    """A folder, compiled."""

    folder: Path
    sources: dict[str, str]
    """The schemas by their paths in the folder."""
    compiled: Compiled
    said: str
    """The diagnostics as a user reads them."""

    @property
    def is_good(self) -> bool:
        """Whether the folder shows generated files; the others show diagnostics."""
        return self.folder.parent.name == "good"

    @property
    def files(self) -> dict[str, str]:
        """The generated files by their paths in the package."""
        return {path.removeprefix("generated/"): text for path, text in self.compiled.files.items()}

    @property
    def modules(self) -> dict[str, str]:
        """The generated modules by name, without those of packages."""
        return {
            f"generated.{path.removesuffix('.py').replace('/', '.')}": text
            for path, text in self.files.items()
            if not path.endswith("__init__.py")
        }


@cache
def compiled_case(folder: Path) -> Case:
    """Compile a case's schemas, with the standard library if they import it."""
    sources = {
        path.relative_to(folder).as_posix(): path.read_bytes().decode("utf-8")
        for path in sorted(folder.rglob("*.yaml"))
    }
    texts = {f"schemas/{path}": text for path, text in sources.items()}
    imports_library = any(f"{PACKAGE}/" in text for text in texts.values())
    compiled = compile_sources(
        texts,
        Config(schemas="schemas", output="generated", package="generated"),
        gymnasium=records_of(folder, imports_library),
        model_folders=folders_of(folder),
        library=LIBRARY if imports_library else None,
    )
    shown = dict(texts)
    if imports_library:
        shown |= {f"{PACKAGE}/{path}": text for path, text in LIBRARY.sources.items()}
    return Case(folder, sources, compiled, render_human(compiled.diagnostics, shown))


def records_of(folder: Path, imports_library: bool) -> dict[str, Record]:
    lock = folder / LOCK
    records = records_from_json(lock.read_text(encoding="utf-8")) if lock.is_file() else {}
    return {**library_records(), **records} if imports_library else records


def folders_of(folder: Path) -> dict[str, ModelFolder]:
    lock = folder / MODEL_LOCK
    return folders_from_json(lock.read_text(encoding="utf-8")) if lock.is_file() else {}
