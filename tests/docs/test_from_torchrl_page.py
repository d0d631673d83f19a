"""The page for those who come from TorchRL: its script runs, and what it says to import is there."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.docs.pages import read_page, run_page

PAGE = read_page("from_torchrl.md")
IMPORTS = PAGE.text[PAGE.text.index("\n## Imports") : PAGE.text.index("\n## A script that moved")]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_script_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium")
    assert PAGE.shown
    run_page(PAGE, tmp_path, capsys)


def test_names_are_where_the_page_says() -> None:
    rows = re.findall(r"^\| (.*?) \| \[`(specgen_[\w.]+)`\]", IMPORTS, re.MULTILINE)
    assert len(rows) >= 10
    for said, place in rows:
        names = re.findall(r"`(\w+)`", said.partition(":")[2])
        module = importlib.import_module(place)
        assert [name for name in names if not hasattr(module, name)] == [], place


THERE = {
    "specgen_runtime.specs": "torchrl.data",
    "specgen_runtime.data": "torchrl.data",
    "specgen_runtime.envs": "torchrl.envs",
    "specgen_runtime.transforms": "torchrl.envs",
    "specgen_std.transforms": "torchrl.envs",
    "specgen_runtime.collectors": "torchrl.collectors",
    "specgen_runtime.modules": "torchrl.modules",
    "specgen_std.losses": "torchrl.objectives",
    "specgen_runtime.objectives.value": "torchrl.objectives.value",
}


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
def test_it_was_a_script_of_torchrl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("torchrl", "gymnasium"):
        pytest.importorskip(module)
    moved = re.compile(r"^from (specgen_[\w.]+) import", re.MULTILINE)
    assert len(moved.findall("".join(PAGE.code))) >= 6
    blocks = [
        (language, moved.sub(lambda found: f"from {THERE[found[1]]} import", code))
        for language, code in PAGE.blocks
    ]
    run_page(replace(PAGE, blocks=blocks), tmp_path, capsys)
