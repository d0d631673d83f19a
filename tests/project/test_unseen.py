"""Names that another file declares: the help says what to import, whichever way the file was compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specgen.memo import Kind, Memory
from specgen.project import load_project
from specgen.project.build import Workspace
from specgen.settings import Config
from tests.support import LIBRARY, compile_sources, library_records

CONFIG = Config("schemas", "made", "made")
WALK = """\
envs:
  Walk:
    state: {x: float32}
    action: {action: categorical(2)}
    observation: {observation: "float32[1]"}
    reset: {x: "0"}
    step: {next.x: x + action, reward: next.x}
    observe: {observation: stack(x)}
"""
TABLE = '[tool.specgen]\nschemas = "schemas"\noutput = "made"\npackage = "made"\n'
CHAIN = "chains: {Train: {env: %s, transforms: [StepCounter]}}\n"


def helps(text: str, memo: Memory | None = None, **others: str) -> list[str | None]:
    sources = {"schemas/tasks/main.yaml": "specgen: 1\n" + text}
    sources |= {f"schemas/{name}.yaml": "specgen: 1\n" + text for name, text in others.items()}
    return [item.help for item in compile_sources(sources, CONFIG, memo=memo).diagnostics]


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("Walk", "add `../walk` to `import`, which declares it"),
        ("Wlak", "did you mean 'Walk'? Add `../walk` to `import`, which declares it"),
        ("Swim", "declare it under `envs`, or `import` the file that does"),
    ],
)
def test_a_file_of_the_project(name: str, help: str) -> None:
    found = helps(CHAIN % name, walk=WALK)
    assert found[0] == help


def test_a_name_in_sight_is_nearer() -> None:
    text = WALK.replace("Walk", "Walks") + CHAIN % "Wlaks"
    assert helps(text, walk=WALK)[0] == "did you mean 'Walks'?"


def test_what_is_kept_does_not_hold_what_other_files_declare() -> None:
    memo = Memory()
    before = helps(CHAIN % "Walk", memo)
    after = helps(CHAIN % "Walk", memo, walk=WALK)
    again = helps(CHAIN % "Walk", memo)
    assert before[0] == again[0] == "declare it under `envs`, or `import` the file that does"
    assert after[0] == "add `../walk` to `import`, which declares it"


def test_the_standard_library_is_read_when_a_name_is_not_found(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/train.yaml").write_text("specgen: 1\n" + CHAIN % "CartPole", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(TABLE, encoding="utf-8")
    found = Workspace(load_project(tmp_path)).check().diagnostics
    assert [item.help for item in found] == [
        "add `specgen_std/envs/cartpole` to `import`, which declares it",
    ]


class Read(Memory):
    """A memory that has the paths of the files that were read."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: set[str] = set()

    def put(self, kind: Kind, key: str, value: Any) -> None:
        """Keep it, and the path of an outline."""
        super().put(kind, key, value)
        if kind == "outline":
            self.paths.add(value.path)


@pytest.mark.parametrize(
    ("text", "found", "all_is_read"),
    [
        ("import: [specgen_std/chains/cartpole]\n" + WALK, [], False),
        ("import: [specgen_std/envs/cartpol]\n", ["did you mean 'specgen_std/envs/cartpole'?"], True),
        (
            CHAIN.replace("StepCounter", "") % "CartPole",
            ["add `specgen_std/envs/cartpole` to `import`, which declares it"],
            True,
        ),
    ],
    ids=["what is imported", "a file that is not there", "a name that is not there"],
)
def test_of_the_library_is_read_what_is_needed(text: str, found: list[str], all_is_read: bool) -> None:
    """The imported file with those that it imports; where something is not found, all, one of which may be meant."""
    memo = Read()
    sources = {"schemas/main.yaml": "specgen: 1\n" + text}
    records = library_records()
    made = compile_sources(sources, CONFIG, gymnasium=records, library=LIBRARY, memo=memo)
    assert [item.help for item in made.diagnostics if item.severity == "error"] == found
    library = {f"specgen_std/{path}" for path in LIBRARY.sources}
    read = memo.paths - {"schemas/main.yaml"}
    assert read == library if all_is_read else "specgen_std/envs/cartpole.yaml" in read and len(read) < 8
