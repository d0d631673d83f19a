"""The page on value estimators runs, and names every function, class and keyword."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from specgen_runtime.objectives import value
from specgen_runtime.objectives.value import functional

from tests.docs.pages import read_page, run_page

PAGE = read_page("value_estimators.md")


def test_the_blocks_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_page(PAGE, tmp_path, capsys)


def test_something_is_shown() -> None:
    assert len(PAGE.shown) >= 8


@pytest.mark.parametrize("name", [name for name in functional.__all__ if not name.startswith("vec_")])
def test_every_function_is_named(name: str) -> None:
    assert f"`{name}`" in PAGE.text


@pytest.mark.parametrize(
    "name", ["TD0Estimator", "TD1Estimator", "TDLambdaEstimator", "GAE", "MultiAgentGAE", "VTrace"]
)
def test_every_keyword_is_named(name: str) -> None:
    estimator = getattr(value, name)
    own = {
        parameter
        for cls in estimator.__mro__
        if "__init__" in vars(cls) and issubclass(cls, value.ValueEstimatorBase)
        for parameter in inspect.signature(cls).parameters
    }
    keywords = (own - {"options"}) | set(value.EstimatorOptions.__annotations__)
    assert [keyword for keyword in sorted(keywords) if f"`{keyword}" not in PAGE.text] == []
