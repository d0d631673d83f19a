"""What is checked and compiled of the standard library and of the test cases, as programs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from specgen.check.model import CheckedEnv
from specgen.check.programs.env import EnvPrograms
from specgen.check.project import CheckedFile, check_project
from specgen.diagnostics import Sink
from specgen.pipeline import modules_of, parse_all, sound_imports
from specgen.program.hot_cold import Parts, split
from specgen.schema.load import load
from specgen.settings import Config
from specgen.source import resolve_imports
from tests.support import LIBRARY, library_records


@cache
def library() -> Mapping[str, CheckedFile]:
    """The files of the standard library, checked."""
    sources = {f"schemas/{path}": text for path, text in LIBRARY.sources.items()}
    sink = Sink()
    roots = parse_all(sources, None, sink)
    imports = resolve_imports(roots, sink, ())
    files = {path: file for path in imports.order if (file := load(path, roots[path], sink)) is not None}
    sound = sound_imports(imports, files, roots)
    checked = check_project(files, sound, modules_of(files, Config(), None), library_records(), sink)
    assert not sink.has_errors
    return checked


def environment(name: str) -> CheckedEnv:
    """A checked environment of the library."""
    return next(file.envs[name].value for file in library().values() if name in file.envs)


def parts(name: str) -> Parts:
    """The functions of a native environment of the library."""
    return split(EnvPrograms(environment(name)).component())
