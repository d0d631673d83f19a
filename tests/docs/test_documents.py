"""The documentation: its links lead somewhere, and its schemas are accepted."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from specgen.diagnostics import Sink
from specgen.project.gymnasium_lock import read_lock
from specgen.project.library import PACKAGE, library_lock, library_schemas
from specgen.settings import Config, Library
from tests.support import compile_sources

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"(?:\[[^\]]*\]\(|^\[[^\]]+\]: )([^)#\s]+)", re.MULTILINE)
CODE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONFIG = Config(schemas="schemas", output="out", package="out")
LIBRARY = Library(PACKAGE, library_schemas())


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path, language: str) -> list[str]:
    found = CODE.findall(path.read_text(encoding="utf-8"))
    return [code for kind, code in found if kind == language]


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOME = PROJECT["urls"]["Homepage"]
"""Where the project lives: what else names the place must agree."""


def local(page: Path, target: str) -> Path | None:
    """The file in the repository that a link leads to, if it leads there."""
    if target.startswith(HOME):
        return ROOT / target.removeprefix(HOME).removeprefix("/blob/main").removeprefix("/")
    return None if "://" in target else page.parent / target


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    files = {target: local(page, target) for target in targets}
    assert [target for target, file in files.items() if file is not None and not file.exists()] == []
    assert [
        target for target in targets if "/blob/" in target and not target.startswith(f"{HOME}/blob/main/")
    ] == []


def test_links_of_the_readme_work_on_the_page_of_the_package_index() -> None:
    assert PROJECT["readme"] == "README.md"
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = LINK.findall(text)
    assert len(targets) >= 10
    assert [target for target in targets if not target.startswith("https://")] == []
    defined = {*re.findall(r"^\[([^\]]+)\]: ", text, re.MULTILINE)}
    code = r"^```.*?^```$|`[^`]*`|^    .*?$|^\[[^\]]+\]: .*?$"
    prose = re.sub(code, "", text, flags=re.MULTILINE | re.DOTALL)
    used = {last or first for first, last in re.findall(r"\[([^\]]+)\](?:\[([^\]]+)\])?(?!\()", prose)}
    assert used == defined


def test_project_urls_lead_somewhere() -> None:
    places = [url for url in PROJECT["urls"].values() if "/blob/" in url]
    assert places
    assert all(file.is_file() for url in places if (file := local(ROOT, url)) is not None)
    assert all(url.startswith(HOME) for url in PROJECT["urls"].values())


def named_files(page: Path) -> dict[str, str]:
    """The schema files that a page names before it shows them: "`schemas/point.yaml`:"."""
    found = re.findall(
        r"`(schemas/\w+\.yaml)`:\n\n```yaml\n(.*?)^```$",
        page.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    return dict(found)


# A block that begins with the language version is a whole file; others are excerpts.
WHOLE = [
    pytest.param(code, named_files(page), id=f"{name(page)}-{index}")
    for page in PAGES
    for index, code in enumerate(blocks(page, "yaml"))
    if code.startswith("specgen: 1\n")
]


@pytest.mark.parametrize(("code", "others"), WHOLE)
def test_whole_schemas_compile(code: str, others: dict[str, str]) -> None:
    lock = library_lock()
    assert lock is not None
    spaces = read_lock(lock, str(lock), Sink())
    imported = re.search(r"^import: \[(.*)\]$", code, re.MULTILINE)
    wanted = imported[1].split(", ") if imported else []
    sources = {path: text for path, text in others.items() if Path(path).stem in wanted}
    sources["schemas/example.yaml"] = code
    made = compile_sources(sources, CONFIG, gymnasium=spaces, library=LIBRARY)
    assert [f"{item.code}: {item.message}" for item in made.diagnostics] == []
    assert "out/example.py" in made.files
