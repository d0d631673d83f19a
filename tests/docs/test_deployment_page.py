"""The page on deployment runs, and names every class."""

from __future__ import annotations

from pathlib import Path

import pytest
from specgen_runtime import deployment

from tests.docs.pages import read_page, run_page

PAGE = read_page("deployment.md")


def test_the_blocks_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(PAGE, tmp_path, capsys)


def test_something_is_shown() -> None:
    assert len(PAGE.shown) >= 8


@pytest.mark.parametrize("name", deployment.__all__)
def test_every_class_is_named(name: str) -> None:
    assert name in PAGE.text
