"""What is checked and compiled of the standard library and of the test cases, as programs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from specgen.check.file import CheckedFile, Interface, check_file
from specgen.check.model import CheckedEnv
from specgen.check.programs.env import EnvPrograms
from specgen.compile_file import read_file
from specgen.diagnostics import Sink
from specgen.link import Linked, content_of
from specgen.program.hot_cold import Parts, split
from specgen.settings import Config
from tests.support import LIBRARY, library_records


@cache
def library() -> Mapping[str, CheckedFile]:
    """The files of the standard library, checked."""
    sources = {f"schemas/{path}": text for path, text in LIBRARY.sources.items()}
    read = {path: read_file(path, text) for path, text in sources.items()}
    outlines = {path: outline for path, (outline, _) in read.items()}
    contents = {path: content_of(path, text) for path, text in sources.items()}
    sink = Sink()
    linked = Linked(sources, contents, outlines, sources.keys(), Config(), library_records(), sink)
    checked: dict[str, CheckedFile] = {}
    interfaces: dict[str, Interface] = {}
    for path in linked.order:
        job, file = linked.job(path), read[path][1]
        assert file is not None
        checked[path], interfaces[path] = check_file(
            file, job.module, job.visible, interfaces, job.records, sink
        )
    assert not sink.has_errors
    return checked


def environment(name: str) -> CheckedEnv:
    """A checked environment of the library."""
    return next(file.envs[name].value for file in library().values() if name in file.envs)


def parts(name: str) -> Parts:
    """The functions of a native environment of the library."""
    return split(EnvPrograms(environment(name)).component())
