"""What is checked and compiled of the standard library and of the test cases, as programs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from specgen import compile_file, compile_project
from specgen.check.file import CheckedFile, Interface, check_file
from specgen.check.model import CheckedEnv
from specgen.check.programs.env import EnvPrograms
from specgen.compile_file import read_file
from specgen.diagnostics import Sink
from specgen.link import Linked, content_of
from specgen.memo import Memory
from specgen.program import verify as verifier
from specgen.program.hot_cold import Parts, split
from specgen.program.program import Program
from specgen.program.verify import verify
from specgen.program.walk import targets
from specgen.settings import Config
from specgen.source.spaces import records_from_json
from tests.support import LIBRARY, WithLibrary, library_records

CASES = Path(__file__).parents[1] / "cases"


@cache
def library() -> Mapping[str, CheckedFile]:
    """The files of the standard library, checked."""
    sources = {f"schemas/{path}": text for path, text in LIBRARY.sources.items()}
    read = {path: read_file(path, text) for path, text in sources.items()}
    outlines = {path: outline for path, (outline, _) in read.items()}
    contents = {path: content_of(path, text) for path, text in sources.items()}
    sink = Sink()
    linked = Linked(sources, contents, outlines, sources.keys(), Config(), library_records(), {}, sink)
    checked: dict[str, CheckedFile] = {}
    interfaces: dict[str, Interface] = {}
    for path in linked.order:
        job, file = linked.job(path), read[path][1]
        assert file is not None
        checked[path], interfaces[path] = check_file(
            file, job.module, job.visible, interfaces, job.records, job.folders, sink
        )
    assert not sink.has_errors
    return checked


def environment(name: str) -> CheckedEnv:
    """A checked environment of the library."""
    return next(file.envs[name].value for file in library().values() if name in file.envs)


def parts(name: str) -> Parts:
    """The functions of a native environment of the library."""
    return split(EnvPrograms(environment(name)).component())


@cache
def compiled_programs() -> tuple[Program, ...]:
    """The programs that passes take and give while the library and the good cases are planned, each once."""
    found: dict[tuple[object, ...], Program] = {}

    def note(program: Program, **kwargs: bool) -> Program:
        made = tuple(target.path for statement in program.body for target in targets(statement))
        found.setdefault((program.name, made, len(program.inputs)), verify(program, **kwargs))
        return program

    memo = WithLibrary(
        Memory()
    )  # no module is made of what is planned here: nobody else may take it for known
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifier, "verify", note)
        patch.setattr(compile_file, "render_modules", lambda plans: {})
        library_texts = {f"schemas/{path}": text for path, text in LIBRARY.sources.items()}
        config = Config("schemas", "generated", "generated")
        compile_project.compile_sources(library_texts, config, gymnasium=library_records())
        for folder in sorted((CASES / "good").iterdir()):
            texts = {
                f"schemas/{path.relative_to(folder).as_posix()}": path.read_text(encoding="utf-8")
                for path in sorted(folder.rglob("*.yaml"))
            }
            lock = folder / "gymnasium.lock.json"
            records = records_from_json(lock.read_text(encoding="utf-8")) if lock.is_file() else {}
            compile_project.compile_sources(
                texts,
                config,
                gymnasium={**library_records(), **records},
                library=LIBRARY,
                memo=memo,
            )
    return tuple(found.values())
