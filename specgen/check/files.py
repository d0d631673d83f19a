"""The files of a project: each becomes a module, whose name Python must read and whose place no other takes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules.project import MODULE_NAME, SAME_OUTPUT
from specgen.settings import Config, identifier_fault

_IGNORING_CASE = " where upper and lower case are the same"


def check_files(paths: Iterable[str], config: Config, sink: Sink) -> None:
    """Check the paths of schema files.

    Args:
        paths: the files, below `config.schemas`.
        config: where what is generated from them goes.
        sink: takes names that no module can have, and files that would be written over each other, also where
            the file system takes upper and lower case for the same.
    """
    outputs = {path: config.output_path(path) for path in sorted(paths)}
    taken: dict[str, str] = {}
    folders: dict[str, str] = {}
    for output in outputs.values():
        for folder in _parents(output):
            folders.setdefault(folder.casefold(), folder)
    for path, output in outputs.items():
        top = Span(path, 1, 1, 1, 1)
        for part in config.inner_parts(path):
            if part != "__init__" and (reason := identifier_fault(part)) is not None:
                message = f"`{part[:100]}` cannot be part of the name of a Python module: {reason}"
                sink.add(MODULE_NAME.at(top, message, help=f"rename it, say to `{_valid_name(part)}`"))
                break
        place = output.casefold()
        other = next((other for other in _parents(output) if folders[other.casefold()] != other), None)
        if place in taken:
            alike = "" if outputs[taken[place]] == output else _IGNORING_CASE
            message = f"this file and `{taken[place]}` would both be written to `{output}`{alike}"
            sink.add(SAME_OUTPUT.at(top, message, help="rename one of them"))
        elif place.removesuffix(".py") in folders:
            message = f"the folder `{path.rsplit('.', 1)[0]}/` would become a package of the same name"
            sink.add(SAME_OUTPUT.at(top, message, help="rename the file or the folder"))
        elif path.rsplit("/", 1)[-1].rsplit(".", 1)[0] == "__init__":
            sink.add(
                SAME_OUTPUT.at(top, f"`{output}` is written for the package itself", help="rename the file")
            )
        elif other is not None:
            message = (
                f"the folders `{other}/` and `{folders[other.casefold()]}/` would be one{_IGNORING_CASE}"
            )
            sink.add(SAME_OUTPUT.at(top, message, help="rename one of them"))
        taken.setdefault(place, path)


def _valid_name(part: str) -> str:
    """A name of a module that is near a text that can't be one."""
    better = re.sub(r"[^A-Za-z0-9_]", "_", part)[:40].strip("_")
    tries = (better, f"{better}_", f"module_{better}")
    return next(name for name in tries if name != part and identifier_fault(name) is None)


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:i]) for i in range(1, len(parts))]
