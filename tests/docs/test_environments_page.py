"""The page on environments runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from specgen_runtime import envs

from tests.docs.pages import read_page, run_page

PAGE = read_page("environments.md")


def test_the_blocks_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium")
    assert len(PAGE.shown) > 20
    run_page(PAGE, tmp_path, capsys)


def test_the_environments_are_named() -> None:
    others = {"BatchedEnv"}  # a base class
    wanted = [name for name in envs.__all__ if name.endswith("Env") and not name.startswith("Generated")]
    assert [name for name in wanted if name not in others and name not in PAGE.text] == []
