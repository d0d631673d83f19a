"""The page on networks and exploration runs, and names what it is about."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from specgen_runtime import modules

from tests.docs.pages import read_page, run_page

PAGE = read_page("modules.md")
FOLDERS = ("networks", "recurrent")
FILES = ("additive_gaussian", "distributional_qvalue", "egreedy", "gsde", "gsde_policy", "ornstein_uhlenbeck")


def test_the_blocks_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with torch.random.fork_rng():
        run_page(PAGE, tmp_path, capsys)


def test_something_is_shown() -> None:
    assert len(PAGE.shown) >= 10


def _classes() -> list[str]:
    """The modules that the page is about, but for those whose users know them by another name."""
    where = {
        name: getattr(modules, name).__module__.split(".")[2:]
        for name in modules.__all__
        if name[0].isupper() or name == "gSDEModule"
    }
    return [name for name, path in where.items() if path and (path[0] in FOLDERS or path[0] in FILES)]


@pytest.mark.parametrize("name", _classes())
def test_every_module_is_named(name: str) -> None:
    assert f"`{name}`" in PAGE.text
