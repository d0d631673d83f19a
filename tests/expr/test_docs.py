"""The page of built-ins is made from the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from specgen.expr.builtins.table import CALLABLE, TABLE
from specgen.expr.docs import builtins_markdown

PAGE = Path(__file__).parents[2] / "docs" / "language" / "builtins.md"


def test_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    text = builtins_markdown()
    if request.config.getoption("--update", default=False):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "run: pytest tests/expr/test_docs.py --update"


def test_every_builtin_is_documented() -> None:
    text = builtins_markdown()
    for name, builtin in TABLE.items():
        assert builtin.doc.endswith("."), name
        assert f"`{builtin.signature}`" in text, name


def test_operators_are_not_called() -> None:
    assert {"sin", "where", "float32", "rk4", "softmax"} <= CALLABLE
    assert not {"+", "and", "neg", "[]"} & CALLABLE
