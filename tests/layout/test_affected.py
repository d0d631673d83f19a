"""Which tests `make quick` runs: all that a change can break, and not all tests for every change."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests import import_facts
from tests.affected import affected_tests

FILES = {
    "specgen/__init__.py": "from specgen.parse import parse\nfrom specgen.show import show\n",
    "specgen/parse.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from specgen.show import show\n",
    "specgen/show.py": "def show():\n    from .deep import pages\n",
    "specgen/deep/__init__.py": "from specgen.deep.pages import *\n",
    "specgen/deep/pages.py": "",
    "specgen/deep/templates/page.j2": "",
    "specgen/__main__.py": "import specgen.show\n",
    "runtime/specgen_runtime/__init__.py": "",
    "runtime/specgen_runtime/envs.py": "",
    "generated/specgen_std/__init__.py": "",
    "generated/specgen_std/chains.py": "from specgen_runtime.envs import Env\n",
    "docs/page.md": "`specgen_std.chains`",
    "tests/conftest.py": 'MODULE, FOLDER = "specgen_runtime.envs", "docs"\n',
    "tests/helpers.py": 'from specgen import show\nFOLDER = "cases"\n',
    "tests/cases/one/main.yaml": "",
    "tests/test_parse.py": 'from specgen import parse\n"""specgen_runtime.envs"""\n',
    "tests/test_show.py": "from tests.helpers import show\n",
    "tests/test_command.py": 'COMMAND = ["-m", "specgen"]\n',
    "tests/test_program.py": 'PROGRAM = """\nfrom specgen_runtime.envs import Env\n"""\n',
    "runtime/schemas/sums.yaml": "",
    "tests/test_sums.py": 'SCHEMA = ROOT / "runtime" / "schemas"\n',
    "tests/test_library.py": "import specgen_std\n",
    "tests/docs/test_page.py": 'PAGE = ROOT / "docs" / "page.md"\n',
    "tests/layout/test_files.py": "",
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small checkout."""
    folder = tmp_path_factory.mktemp("checkout")
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("specgen/parse.py", ["test_parse"]),
        ("specgen/show.py", ["test_command", "test_show"]),
        ("specgen/deep/pages.py", ["test_command", "test_show"]),
        ("specgen/deep/templates/page.j2", ["test_command", "test_show"]),
        ("specgen/__init__.py", ["test_command", "test_parse", "test_show"]),
        ("runtime/specgen_runtime/envs.py", ["docs/test_page", "test_library", "test_program"]),
        ("generated/specgen_std/chains.py", ["docs/test_page", "test_library"]),
        ("runtime/schemas/sums.yaml", ["test_sums"]),
        ("docs/page.md", ["docs/test_page"]),
        ("tests/cases/one/main.yaml", ["test_show"]),
        ("tests/test_parse.py", ["test_parse"]),
        ("tests/test_gone.py", []),
        ("specgen/gone.py", []),
    ],
)
def test_what_a_change_can_break(checkout: Path, changed: str, expected: list[str]) -> None:
    found = {test for test, _ in affected_tests(checkout, [changed])}
    assert found == {f"tests/{name}.py" for name in ["layout/test_files", *expected]}


@pytest.mark.parametrize(
    "changed", ["pyproject.toml", "specgen.cfg", "tests/conftest.py", "new/folder/file.txt"]
)
def test_what_fits_no_rule_can_break_all(checkout: Path, changed: str) -> None:
    tests = {path for path in FILES if "/test_" in path}
    assert {test for test, _ in affected_tests(checkout, ["specgen/parse.py", changed])} == tests


def test_the_nearest_come_first(checkout: Path) -> None:
    found = affected_tests(checkout, ["specgen/deep/pages.py", "tests/test_parse.py"])
    assert found == [
        ("tests/layout/test_files.py", 0),
        ("tests/test_parse.py", 0),
        ("tests/test_command.py", 3),
        ("tests/test_show.py", 3),
    ]


def test_what_is_kept_of_files_is_that_of_their_contents(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second time nothing is parsed that says what it said; a file that says something else is."""
    before = affected_tests(checkout, ["specgen/show.py"])
    parsed: list[str] = []
    read = import_facts.facts_of

    def facts_of(text: str, is_package: bool) -> import_facts.Facts:
        parsed.append(text)
        return read(text, is_package)

    monkeypatch.setattr(import_facts, "facts_of", facts_of)
    assert affected_tests(checkout, ["specgen/show.py"]) == before
    assert parsed == []
    file = checkout / "tests" / "test_parse.py"
    old, new = file.read_text(encoding="utf-8"), "from specgen import parse, show\n"
    for text, reached in ((new, True), (old, False)):
        file.write_text(text, encoding="utf-8")
        found = affected_tests(checkout, ["specgen/show.py"])
        assert (("tests/test_parse.py", 1) in found) == reached
    assert parsed == [new, old]


@pytest.mark.parametrize(
    "kept",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"rules": "RULES"}',
        '{"rules": "RULES", "files": 1}',
        '{"rules": "RULES", "files": {"DIGEST": null}}',
        '{"rules": "RULES", "files": {"DIGEST": [[[0]], [], [], []]}}',
        '{"rules": "of another version", "files": {"DIGEST": [[], [], [], []]}}',
    ],
)
def test_a_cache_of_another_form_is_made_anew(checkout: Path, kept: str) -> None:
    """As an older version, or a run that was killed, may have left it."""
    cache = checkout / ".pytest_cache" / "imports.json"
    before = affected_tests(checkout, ["specgen/show.py"])
    rules = hashlib.sha256(Path(import_facts.__file__).read_bytes()).hexdigest()
    digest = hashlib.sha256((checkout / "tests" / "helpers.py").read_bytes()).hexdigest()
    cache.write_text(kept.replace("RULES", rules).replace("DIGEST", digest), encoding="utf-8")
    assert affected_tests(checkout, ["specgen/show.py"]) == before
    assert json.loads(cache.read_text(encoding="utf-8"))["rules"] == rules


def test_most_changes_leave_most_tests_alone() -> None:
    """Of this repository: what all tests share reaches little, or each change would choose all of them."""
    root = Path(__file__).resolve().parents[2]
    every = len(affected_tests(root, ["pyproject.toml"]))
    for path in (
        "runtime/specgen_runtime/data/replay_buffer.py",
        "specgen/check/pipelines/groups.py",
        "generated/specgen_std/losses/dqn.py",
        "README.md",
    ):
        assert len(affected_tests(root, [path])) < every / 2, path
