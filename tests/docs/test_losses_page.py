"""The page on the losses of the library runs, and names every one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import read_page, run_page
from tests.objectives.every_loss import losses

PAGE = read_page("losses.md")


def test_the_blocks_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_page(PAGE, tmp_path, capsys)


def test_something_is_shown() -> None:
    assert len(PAGE.shown) >= 4


@pytest.mark.parametrize("name", losses())
def test_every_loss_is_named(name: str) -> None:
    assert f"`{name}`" in PAGE.text
