"""Pipelines as templates of projects, those of the standard library and one of conversations: `specgen init --template`."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from specgen.project.library import PACKAGE, library_schemas
from specgen.values import dataclass, replace

SCAFFOLD = Path(__file__).resolve().parent.parent / "scaffold"
"""The files that projects begin with."""

_FOLDER = "pipelines"
_IMPORT = re.compile(r"^( *- )(\.[\w./-]*)$", re.MULTILINE)


@dataclass(frozen=True)
class Template:
    """A pipeline that a project can begin with.

    Attributes:
        name: of the template, its schema file and the module that is generated from it.
        doc: what it trains, a sentence.
        text: of the schema file in the project: that of the library, with imports from there.
        pipeline: the name that it declares.
        total: the hyper-parameter that says how long it trains.
        folder: the part of the scaffold that has its other files.
        extra: the extras of specgen that it needs.
    """

    name: str
    doc: str
    text: str
    pipeline: str
    total: str
    folder: str = "pipeline"
    extra: str = "train"


def templates() -> dict[str, Template]:
    """The templates by their names.

    Each is a file of the standard library that declares one pipeline with an environment to collect from; or one of
    conversations, whose questions, reward and model are the project's own.
    """
    found = (
        _template(PurePosixPath(path), text)
        for path, text in library_schemas().items()
        if path.startswith(f"{_FOLDER}/")
    )
    made = {template.name: template for template in found if template is not None}
    for path in sorted((SCAFFOLD / "conversations" / "schemas").glob("*.yaml.in")):
        place = PurePosixPath(path.name.removesuffix(".in"))
        template = _template(place, path.read_text(encoding="utf-8"))
        assert template is not None
        made[template.name] = replace(template, folder="conversations", extra="llm,train")
    return made


def _template(path: PurePosixPath, text: str) -> Template | None:
    declared: dict[str, Any] = yaml.safe_load(text)["pipelines"]
    concrete = {name: one for name, one in declared.items() if not one.get("abstract")}
    if len(concrete) != 1:
        return None
    ((pipeline, fields),) = concrete.items()
    if fields.get("data", {}).keys() & {"recorded", "online_and_recorded"}:
        return None  # a project would have to bring the data
    total = "total_frames" if "frames" in fields.get("stop", {}) else "total_updates"
    return Template(path.stem, fields["doc"], _imported_from_library(path, text), pipeline, total)


def _imported_from_library(path: PurePosixPath, text: str) -> str:
    """A schema of the library as another project writes it: what it imports has its whole path."""

    def whole(found: re.Match[str]) -> str:
        place = posixpath.normpath(f"{PACKAGE}/{path.parent}/{found[2]}")
        return f"{found[1]}{place}"

    return _IMPORT.sub(whole, text)
