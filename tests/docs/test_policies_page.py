"""The page on policies runs, and names every distribution and actor."""

from __future__ import annotations

from pathlib import Path

import pytest
from specgen_runtime.modules import actors, distributions, safe, safe_probabilistic, safe_sequences

from tests.docs.pages import read_page, run_page

PAGE = read_page("policies.md")


def test_the_blocks_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_page(PAGE, tmp_path, capsys)


def test_something_is_shown() -> None:
    assert len(PAGE.shown) >= 8


@pytest.mark.parametrize("name", distributions.__all__)
def test_every_distribution_is_named(name: str) -> None:
    assert name in PAGE.text


@pytest.mark.parametrize("modules", [(actors,), (safe, safe_probabilistic, safe_sequences)])
def test_every_actor_is_named(modules: tuple[object, ...]) -> None:
    own = [
        name
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and name != "OutputSpecs"  # type: ignore[attr-defined]
    ]
    assert len(own) >= 4
    assert [name for name in own if f"`{name}`" not in PAGE.text] == []
