"""Whole compilations: every folder `cases/<kind>/<name>/` is an input and exactly what must come out.

A folder holds schema files (`*.yaml`), perhaps a `gymnasium.lock.json`, and either `expected/` with the generated
files or `diagnostics.txt` with what a user reads. The files count as those of `schemas/`; they may import the
standard library (`specgen_std/…`). `pytest tests/test_cases.py --update` rewrites what is expected.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

import pytest
from specgen_runtime.envs import GeneratedEnv, GeneratedGymEnv, GeneratedPythonEnv
from specgen_runtime.testing import check_env

from specgen.diagnostics import render_human
from specgen.pipeline import Compiled
from specgen.project.library import PACKAGE
from specgen.settings import Config
from specgen.source.spaces import Record, records_from_json
from tests.support import LIBRARY, compile_sources, imported, library_records

ROOT = Path(__file__).parent / "cases"
LOCK = "gymnasium.lock.json"
DIAGNOSTICS = "diagnostics.txt"
EXPECTED = "expected"
UPDATE = "if this is what should come out, run: pytest tests/test_cases.py --update"

CASES = sorted(folder for folder in ROOT.glob("*/*") if folder.is_dir())


@dataclass(frozen=True)
class Case:
    """A folder, compiled."""

    folder: Path
    compiled: Compiled
    said: str

    @property
    def is_good(self) -> bool:
        """Whether the folder shows generated files; the others show diagnostics."""
        return self.folder.parent.name == "good"


def compile_case(folder: Path) -> Case:
    texts = {
        f"schemas/{path.relative_to(folder).as_posix()}": path.read_bytes().decode("utf-8")
        for path in sorted(folder.rglob("*.yaml"))
    }
    imports_library = any(f"{PACKAGE}/" in text for text in texts.values())
    compiled = compile_sources(
        texts,
        Config(schemas="schemas", output="generated", package="generated"),
        gymnasium=records_of(folder, imports_library),
        library=LIBRARY if imports_library else None,
    )
    shown = dict(texts)
    if imports_library:
        shown |= {f"{PACKAGE}/{path}": text for path, text in LIBRARY.sources.items()}
    return Case(folder, compiled, render_human(compiled.diagnostics, shown))


def records_of(folder: Path, imports_library: bool) -> dict[str, Record]:
    lock = folder / LOCK
    records = records_from_json(lock.read_text(encoding="utf-8")) if lock.is_file() else {}
    return {**library_records(), **records} if imports_library else records


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_case(folder: Path, pytestconfig: pytest.Config) -> None:
    assert list(folder.rglob("*.yaml")), f"{folder} has no schema file: remove it"
    case = compile_case(folder)
    errors = [item for item in case.compiled.diagnostics if item.severity == "error"]
    assert bool(case.compiled.files) is not bool(errors), (
        "with an error nothing is generated, without one all is"
    )
    if case.is_good:
        assert not errors, case.said
    else:
        assert case.said, "the schema is right: move the case to good/, or make its mistake again"
    if pytestconfig.getoption("--update"):
        rewrite(case)
        return
    assert case.said == text_of(folder / DIAGNOSTICS), UPDATE
    if case.is_good:
        assert dict(case.compiled.files) == expected_of(folder), UPDATE


def test_every_mistake_kind_has_cases() -> None:
    kinds = {folder.parent.name for folder in CASES}
    assert {
        "yaml",
        "schema",
        "imports",
        "specs",
        "expressions",
        "done",
        "chains",
        "gymnasium",
        "security",
    } <= kinds
    assert sum(folder.parent.name != "good" for folder in CASES) >= 25


def test_nothing_lies_beside_the_cases() -> None:
    allowed = {DIAGNOSTICS, LOCK}
    strange = [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not (len(path.relative_to(ROOT).parts) >= 3 and (path.suffix == ".yaml" or path.name in allowed))
        and EXPECTED not in path.relative_to(ROOT).parts[2:3]
    ]
    assert not strange
    assert not [folder for folder in CASES if folder.parent.name != "good" and (folder / EXPECTED).exists()]


@pytest.mark.parametrize(
    "folder", [c for c in CASES if c.parent.name == "good"], ids=lambda folder: folder.name
)
def test_good_cases_run(folder: Path, tmp_path: Path) -> None:
    """The environments of the expected files keep the contract, those behind Gymnasium or a class of the user's are
    only imported; specs are made."""
    files = {path.removeprefix("generated/"): text for path, text in expected_of(folder).items()}
    with imported(files, "generated", tmp_path) as package:
        modules = [importlib.import_module(f"generated.{name}") for name in modules_in(files)]
        found = [
            each
            for module in modules
            for each in vars(module).values()
            if isinstance(each, type) and each.__module__ == module.__name__
        ]
        specs = [getattr(m, name)("cpu") for m in modules for name in m.__all__ if name.endswith("_spec")]
        assert found or specs
        assert all(spec.is_in(spec.rand()) for spec in specs)
        assert package.__all__ is not None
        for each in found:
            if issubclass(each, GeneratedEnv) and not issubclass(each, GeneratedGymEnv | GeneratedPythonEnv):
                check_env(lambda each=each: each(batch_size=(3,)), steps=30)


def modules_in(files: dict[str, str]) -> list[str]:
    return [path.removesuffix(".py").replace("/", ".") for path in files if not path.endswith("__init__.py")]


def rewrite(case: Case) -> None:
    diagnostics = case.folder / DIAGNOSTICS
    if case.said:
        write(diagnostics, case.said)
    else:
        diagnostics.unlink(missing_ok=True)
    if not case.is_good:
        return
    expected = case.folder / EXPECTED
    for path in [*expected.rglob("*.py")] if expected.exists() else []:
        if f"generated/{path.relative_to(expected).as_posix()}" not in case.compiled.files:
            path.unlink()
    for name, text in case.compiled.files.items():
        write(expected / name.removeprefix("generated/"), text)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8") if path.is_file() else ""


def expected_of(folder: Path) -> dict[str, str]:
    expected = folder / EXPECTED
    return {
        f"generated/{path.relative_to(expected).as_posix()}": text_of(path)
        for path in sorted(expected.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
