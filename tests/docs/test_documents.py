"""The documentation: its links lead somewhere, and its schemas are accepted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specgen.diagnostics import Sink
from specgen.pipeline import compile_sources
from specgen.project.gymnasium_lock import read_lock
from specgen.project.library import PACKAGE, library_lock, library_schemas
from specgen.settings import Config, Library

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONFIG = Config(schemas="schemas", output="out", package="out")
LIBRARY = Library(PACKAGE, library_schemas())


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path, language: str) -> list[str]:
    found = CODE.findall(path.read_text(encoding="utf-8"))
    return [code for kind, code in found if kind == language]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    broken = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert broken == []


# A block that begins with the language version is a whole file; others are excerpts.
WHOLE = [
    pytest.param(code, id=f"{name(page)}-{index}")
    for page in PAGES
    for index, code in enumerate(blocks(page, "yaml"))
    if code.startswith("specgen: 1\n")
]


@pytest.mark.parametrize("code", WHOLE)
def test_whole_schemas_compile(code: str) -> None:
    lock = library_lock()
    assert lock is not None
    spaces = read_lock(lock, str(lock), Sink())
    made = compile_sources({"schemas/example.yaml": code}, CONFIG, gymnasium=spaces, library=LIBRARY)
    assert [f"{item.code}: {item.message}" for item in made.diagnostics] == []
    assert "out/example.py" in made.files
