"""The page on training runs, and names everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from specgen_runtime import training
from specgen_runtime.training import Run

from tests.docs.pages import read_page, run_page

PAGE = read_page("training.md")


def test_the_blocks_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(PAGE, tmp_path, capsys)


def test_something_is_shown() -> None:
    assert len(PAGE.shown) >= 15


@pytest.mark.parametrize("name", training.__all__)
def test_everything_is_named(name: str) -> None:
    assert f"`{name}" in PAGE.text or f"{name}(" in PAGE.text


@pytest.mark.parametrize("name", [name for name in vars(Run) if not name.startswith("_")])
def test_methods_are_named(name: str) -> None:
    assert f"`{name}" in PAGE.text
