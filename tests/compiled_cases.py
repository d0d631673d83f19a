"""The case folders `cases/<kind>/<name>/`, compiled: each once a run of tests, whatever processes it has.

What a compilation would keep on disk is kept, too: `case_memo` gives it to those who compile the case once more.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from specgen.compile_project import Compiled
from specgen.diagnostics import render_human
from specgen.memo import Kind, Memo
from specgen.project.library import PACKAGE
from specgen.project.store import VARIABLE, Store
from specgen.settings import Config
from specgen.source.model_folders import ModelFolder, folders_from_json
from specgen.source.spaces import Record, records_from_json
from tests.support import KNOWN_OF_LIBRARY, LIBRARY, WithLibrary, compile_sources, library_records

ROOT = Path(__file__).parent / "cases"
LOCK = "gymnasium.lock.json"
MODEL_LOCK = "language_models.lock.json"
FOLDERS = sorted(folder for folder in ROOT.glob("*/*") if folder.is_dir())
GOOD = [folder for folder in FOLDERS if folder.parent.name == "good"]
CONFIG = Config("schemas", "generated", "generated")
_KEPT = Path(os.environ[VARIABLE], "cases")
"""The folder of this run, which its processes share, and which is removed at its end."""


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
    def texts(self) -> dict[str, str]:
        """The schemas by their paths in a project."""
        return {f"schemas/{path}": text for path, text in self.sources.items()}

    @property
    def imports_library(self) -> bool:
        return any(f"{PACKAGE}/" in text for text in self.sources.values())

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
    """Compile a case's schemas, with the standard library if they import it, or take what another process has made."""
    sources = {
        path.relative_to(folder).as_posix(): path.read_bytes().decode("utf-8")
        for path in sorted(folder.rglob("*.yaml"))
    }
    case = Case(folder, sources, Compiled(), "")
    kept = _KEPT / folder.relative_to(ROOT) / "compiled"
    if kept.exists():
        compiled = pickle.loads(kept.read_bytes())
    else:
        memo = case_memo(folder)
        made = compile_case(case, memo)
        compiled = Compiled(dict(made.files), made.diagnostics)
        memo.memo.save()
        beside = kept.with_name(f"compiled.{os.getpid()}")
        beside.write_bytes(pickle.dumps(compiled))
        beside.replace(kept)
    shown = case.texts
    if case.imports_library:
        shown |= {f"{PACKAGE}/{path}": text for path, text in LIBRARY.sources.items()}
    return Case(folder, sources, compiled, render_human(compiled.diagnostics, shown))


class CaseMemo(WithLibrary):
    """What is known of the library, to which it adds, and the store of a case."""

    memo: Store

    def put(self, kind: Kind, key: str, value: Any) -> None:
        KNOWN_OF_LIBRARY.put(kind, key, value)
        super().put(kind, key, value)


def case_memo(folder: Path) -> CaseMemo:
    """The store of a case, which holds what its compilation in this run has found out, if there was one."""
    kept = _KEPT / folder.relative_to(ROOT)
    kept.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(kept))
        # One key for all processes, also where a test has a folder of its own for it.
        patch.setenv("XDG_STATE_HOME", str(_KEPT))
        return CaseMemo(Store(folder))


def compile_case(case: Case, memo: Memo) -> Compiled:
    """Compile a case with what is known."""
    return compile_sources(
        case.texts,
        CONFIG,
        gymnasium=records_of(case.folder, case.imports_library),
        model_folders=folders_of(case.folder),
        library=LIBRARY if case.imports_library else None,
        memo=memo,
    )


def records_of(folder: Path, imports_library: bool) -> dict[str, Record]:
    lock = folder / LOCK
    records = records_from_json(lock.read_text(encoding="utf-8")) if lock.is_file() else {}
    return {**library_records(), **records} if imports_library else records


def folders_of(folder: Path) -> dict[str, ModelFolder]:
    lock = folder / MODEL_LOCK
    return folders_from_json(lock.read_text(encoding="utf-8")) if lock.is_file() else {}
