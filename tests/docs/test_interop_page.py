"""The page on the doors to other libraries runs, and names every function."""

from __future__ import annotations

from pathlib import Path

import pytest
from specgen_runtime import interop

from tests.docs.pages import read_page, run_page

pytestmark = pytest.mark.peers

PAGE = read_page("interop.md")


def test_the_blocks_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("gymnasium", "torchrl", "stable_baselines3"):
        pytest.importorskip(module)
    assert len(PAGE.shown) > 15
    run_page(PAGE, tmp_path, capsys)


def test_every_function_is_named() -> None:
    assert [name for name in interop.__all__ if f"`{name}`" not in PAGE.text] == []
