"""The page on transforms runs, and names every class."""

from __future__ import annotations

from pathlib import Path

import pytest
from specgen_runtime import transforms

from tests.docs.pages import read_page, run_page

PAGE = read_page("transforms.md")


def test_the_blocks_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(PAGE.shown) > 8
    run_page(PAGE, tmp_path, capsys)


def test_every_class_is_named() -> None:
    assert [name for name in transforms.__all__ if name not in PAGE.text] == []
