"""The manual's page on pictures: its code gives what it shows, and its sheet is what is drawn today."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.docs.pages import DOCS, read_page, run_page
from tests.docs.rendered import sheet


def test_the_page_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = read_page("language/render.md")
    assert len(page.shown) == 5
    run_page(page, tmp_path, capsys)


def test_the_sheet_is_what_is_drawn(pytestconfig: pytest.Config) -> None:
    """`--update` draws it anew; another version of Pillow may smooth letters otherwise."""
    path = DOCS / "images" / "rendered.png"
    drawn = sheet()
    if pytestconfig.getoption("--update"):
        drawn.save(path, optimize=True)
        return
    assert path.stat().st_size < 100_000
    kept = np.asarray(Image.open(path).convert("RGB"), dtype=float)
    assert np.abs(kept - np.asarray(drawn.convert("RGB"), dtype=float)).mean() < 1
