"""The page on language models runs, and names every public class and function."""

from __future__ import annotations

from pathlib import Path

import pytest
from specgen_runtime import llm

from tests.docs.pages import read_page, run_page

PAGE = read_page("language_models.md")


def test_the_blocks_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    assert len(PAGE.shown) >= 12
    run_page(PAGE, tmp_path, capsys)


@pytest.mark.parametrize("name", [name for name in llm.__all__ if name != "Message"])
def test_every_name_is_told(name: str) -> None:
    assert name in PAGE.text
