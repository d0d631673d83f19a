"""The page on specs runs, and names every class."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from specgen_runtime import specs
from specgen_runtime.specs import legacy

from tests.docs.pages import read_page, run_page, shows

PAGE = read_page("specs.md")


def test_the_blocks_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium")
    run_page(PAGE, tmp_path, capsys)


def test_something_is_shown() -> None:
    """The page is read: it has blocks, and most of them show what they give."""
    assert PAGE.schemas
    assert len(PAGE.shown) > 2 * len(PAGE.code) > 20


@pytest.mark.parametrize(
    ("shown", "value", "right"),
    [
        ("(2, 3)", torch.Size([2, 3]), True),
        ("(2, 4)", torch.Size([2, 3]), False),
        ("'continuous'", "continuous", True),
        ("inf", float("inf"), True),
        ("a few", "continuous", False),
    ],
)
def test_what_is_shown_is_compared(shown: str, value: object, right: bool) -> None:
    assert shows(value, shown) is right


def test_every_class_is_named() -> None:
    missing = [name for name in specs.__all__ if name != "LeafSpec" and f"`{name}" not in PAGE.text]
    assert missing == []


def test_older_names() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|$", PAGE.text, re.MULTILINE))
    assert rows == {
        name: found.__name__ for name in legacy.__all__ if isinstance(found := getattr(legacy, name), type)
    }
