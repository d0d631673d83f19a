"""The table of the standard library's transforms says how each is constructed."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest
import specgen_std.transforms as library

PAGE = (Path(__file__).parents[2] / "docs/language/transforms.md").read_text()
ROWS = re.findall(
    r"`([A-Z]\w*)\(([^`]*)\)`",
    PAGE[PAGE.index("\n## The standard library") : PAGE.index("\n## Not available")],
)
CLASSES = [name for name in library.__all__ if not name.endswith("Keys")]


def test_every_class_is_there_once() -> None:
    assert sorted(name for name, _ in ROWS) == sorted(CLASSES)


@pytest.mark.parametrize(("name", "arguments"), ROWS)
def test_arguments_are_the_first_ones_in_order(name: str, arguments: str) -> None:
    written = ast.parse(f"def f({arguments}): pass").body[0]
    assert isinstance(written, ast.FunctionDef)
    parameters = list(inspect.signature(getattr(library, name)).parameters.values())
    if written.args.vararg is not None:
        assert parameters[0].kind is inspect.Parameter.VAR_POSITIONAL
        return
    names = [argument.arg for argument in written.args.args]
    assert names == [parameter.name for parameter in parameters[: len(names)]]
    required = len(names) - len(written.args.defaults)
    values = [ast.literal_eval(default) for default in written.args.defaults]
    assert [parameter.default for parameter in parameters[:required]] == [inspect.Parameter.empty] * required
    assert [parameter.default for parameter in parameters[required : len(names)]] == values
