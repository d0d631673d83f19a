"""The page on replay buffers runs, and names every class and keyword."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from specgen_runtime import data

from tests.docs.pages import read_page, run_page

PAGE = read_page("replay_buffers.md")


def test_the_blocks_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(PAGE, tmp_path, capsys)


def test_something_is_shown() -> None:
    assert len(PAGE.shown) >= 12


@pytest.mark.parametrize("name", data.__all__)
def test_every_class_is_named(name: str) -> None:
    assert f"`{name}`" in PAGE.text


@pytest.mark.parametrize("name", ["ReplayBuffer", "LazyMemmapStorage", "PrioritizedSampler", "SliceSampler"])
def test_keywords_are_named(name: str) -> None:
    keywords = inspect.signature(getattr(data, name)).parameters
    # Those that are told in the docstring alone.
    rare = {
        "collate_fn",
        "dtype",
        "max_capacity",
        "max_priority_within_buffer",
        "sampler",
        "storage",
        "transform",
        "writer",
    }
    assert [keyword for keyword in keywords if keyword not in PAGE.text and keyword not in rare] == []
