"""Whole compilations: every folder `cases/<kind>/<name>/` is an input and exactly what must come out.

A folder holds schema files (`*.yaml`), perhaps a `gymnasium.lock.json` or a
`language_models.lock.json`, and either `expected/` with the generated
files or `diagnostics.txt` with what a user reads. The files count as those of `schemas/`; they may import the
standard library (`specgen_std/…`). `pytest tests/test_cases.py --update` rewrites what is expected.

A schema that begins with `# shows: name, Class.method, prefix_*` expects those definitions of its module only
(`expected/<module>.excerpt.py`): what a case is about, without what every module repeats. A few cases are whole: an
environment with groups (`agent_groups`), one with a chain (`chain_with_renamed_outputs`), chains over Gymnasium
(`inverses_over_gymnasium`), and small ones; so is the standard library in `generated/`.
"""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from specgen_runtime.envs import GeneratedEnv, GeneratedGymEnv, GeneratedPythonEnv
from specgen_runtime.envs.generated.learning import LearningChain
from specgen_runtime.testing import check_env

from tests.compiled_cases import FOLDERS, GOOD, LOCK, MODEL_LOCK, ROOT, Case, compiled_case
from tests.excerpts import excerpt_of, shown_by
from tests.support import imported

DIAGNOSTICS = "diagnostics.txt"
EXPECTED = "expected"
WHOLE = {"agent_groups", "chain_with_renamed_outputs", "inverses_over_gymnasium"}
"""The cases that show a large module whole."""
LARGE = 300
"""So many lines a module has that is large."""
UPDATE = "if this is what should come out, run: pytest tests/test_cases.py --update"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_case(folder: Path, pytestconfig: pytest.Config) -> None:
    assert list(folder.rglob("*.yaml")), f"{folder} has no schema file: remove it"
    case = compiled_case(folder)
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
        assert shown_files(case) == expected_files(folder), UPDATE


def test_every_mistake_kind_has_cases() -> None:
    kinds = {folder.parent.name for folder in FOLDERS}
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
    assert sum(folder.parent.name != "good" for folder in FOLDERS) >= 25


def test_nothing_lies_beside_the_cases() -> None:
    allowed = {DIAGNOSTICS, LOCK, MODEL_LOCK}
    strange = [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not (len(path.relative_to(ROOT).parts) >= 3 and (path.suffix == ".yaml" or path.name in allowed))
        and EXPECTED not in path.relative_to(ROOT).parts[2:3]
    ]
    assert not strange
    assert not [folder for folder in FOLDERS if folder.parent.name != "good" and (folder / EXPECTED).exists()]


def test_large_modules_are_shown_in_excerpts() -> None:
    """What every module repeats is shown three times; a change of it is read there."""
    modules = [path for folder in GOOD for path in (folder / EXPECTED).rglob("*.py")]
    large = {
        path.relative_to(ROOT / "good").parts[0]
        for path in modules
        if not path.name.endswith(".excerpt.py") and path.read_text(encoding="utf-8").count("\n") > LARGE
    }
    assert large == WHOLE, "begin the schema with `# shows: …`, and run pytest tests/test_cases.py --update"


@pytest.mark.parametrize("folder", GOOD, ids=lambda folder: folder.name)
def test_good_cases_run(folder: Path, tmp_path: Path) -> None:
    """The environments that are generated keep the contract, those behind Gymnasium or a class of the user's are
    only imported, and so are those that need networks; specs are made. Models are not loaded."""
    case = compiled_case(folder)
    with imported(case.files, "generated", tmp_path) as package:
        modules = [importlib.import_module(name) for name in case.modules]
        found = [
            each
            for module in modules
            for each in vars(module).values()
            if isinstance(each, type) and each.__module__ == module.__name__
        ]
        specs = [getattr(m, name)("cpu") for m in modules for name in m.__all__ if name.endswith("_spec")]
        models = [getattr(m, name) for m in modules for name in m.__all__ if name.endswith("_model")]
        assert found or specs or models
        assert all(spec.is_in(spec.rand()) for spec in specs)
        assert package.__all__ is not None
        for each in found:
            given = hasattr(sys.modules[each.__module__], f"{each.__name__}Networks")
            apart = given or issubclass(each, GeneratedGymEnv | GeneratedPythonEnv)
            if issubclass(each, GeneratedEnv) and not apart:
                check_env(partial(environment, each), steps=30)


def environment(each: type[GeneratedEnv[Any, Any]]) -> GeneratedEnv[Any, Any]:
    """An environment of a case; what a chain learns is left as it is, since episodes would not repeat."""
    made = each(batch_size=(3,))
    return made.freeze() if isinstance(made, LearningChain) else made


def test_an_excerpt_names_what_the_module_defines() -> None:
    module = "class A:\n    x: int\n    '''an int'''\n\n    def f(self): ...\n\n\ny = 1\n"
    assert excerpt_of(module, ["A.x"]) == "class A:\n    x: int\n    '''an int'''\n\n    # ...\n\n\n# ...\n"
    assert excerpt_of(module, ["A", "y"]) == module
    with pytest.raises(ValueError, match=r"lists \['A.g'\].*has \['A', 'A.f', 'A.x', 'y'\]"):
        excerpt_of(module, ["A.f", "A.g"])


def shown_files(case: Case) -> dict[str, str]:
    """What is expected of a case, by paths in `expected/`: modules whose schemas ask for it by their excerpts.

    Packages' own files are shown where all modules are whole.
    """
    shows = {path.removesuffix(".yaml"): shown_by(text) for path, text in case.sources.items()}
    shown = {}
    for path, text in case.files.items():
        module = path.removesuffix(".py")
        if shows.get(module):
            shown[f"{module}.excerpt.py"] = excerpt_of(text, shows[module])
        elif module in shows or not any(shows.values()):
            shown[path] = text
    return shown


def expected_files(folder: Path) -> dict[str, str]:
    expected = folder / EXPECTED
    return {
        path.relative_to(expected).as_posix(): text_of(path)
        for path in sorted(expected.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def rewrite(case: Case) -> None:
    diagnostics = case.folder / DIAGNOSTICS
    if case.said:
        write(diagnostics, case.said)
    else:
        diagnostics.unlink(missing_ok=True)
    if not case.is_good:
        return
    expected, shown = case.folder / EXPECTED, shown_files(case)
    for path in expected_files(case.folder):
        if path not in shown:
            (expected / path).unlink()
    for path, text in shown.items():
        write(expected / path, text)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8") if path.is_file() else ""
