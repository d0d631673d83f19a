"""The page on specs: its Python blocks run in order, in one namespace, and give what they show.

What is shown: a comment behind an expression is its value, or the exception that it raises; a `text` block is what
the block before it prints. Schemas on the page are built before.
"""

from __future__ import annotations

import ast
import re
import runpy
import tokenize
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
import torch
from specgen_runtime import specs
from specgen_runtime.specs import legacy

from tests.support import generate, imported

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "specs.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
CODE = [code for language, code in BLOCKS if language == "python"]
SCHEMAS = {
    f"{name}.yaml": code
    for name, code in re.findall(r"`schemas/(\w+)\.yaml`:\n\n```yaml\n(.*?)^```$", TEXT, re.M | re.S)
}


def printed_after(block: int) -> str | None:
    """The `text` block behind a block."""
    after = BLOCKS[block + 1 : block + 2]
    return after[0][1] if after and after[0][0] == "text" else None


def statements(code: str) -> Iterator[tuple[ast.stmt, str | None]]:
    """The statements of a block, each with the comment behind it."""
    comments = {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in tokenize.generate_tokens(StringIO(code).readline)
        if token.type == tokenize.COMMENT
    }
    for statement in ast.parse(code).body:
        yield statement, comments.get(statement.end_lineno or 0)


def shows(value: object, comment: str) -> bool:
    try:
        return repr(value) == comment or bool(value == ast.literal_eval(comment))
    except (ValueError, SyntaxError):
        return False


def checked(place: int, code: str) -> Iterator[str]:
    """The statements of a block as source; what they show is handed to functions that check it."""
    for statement, comment in statements(code):
        text = ast.unparse(statement)
        shown = isinstance(statement, ast.Expr) and comment is not None
        yield f"check_shown(lambda: {text}, {comment!r})" if shown else text
    yield f"check_printed({printed_after(place) or ''!r})"


def check_shown(expression: Callable[[], object], comment: str) -> None:
    """What a comment says behind an expression must be so."""
    error, _, message = comment.partition(": ")
    if error.endswith("Error"):
        with pytest.raises(Exception, match=re.escape(message)) as raised:
            expression()
        assert type(raised.value).__name__ == error
    else:
        value = expression()
        assert shows(value, comment), f"gives {value!r}, the page says {comment}"


def test_the_blocks_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium")

    def check_printed(expected: str) -> None:
        assert capsys.readouterr().out == expected

    script = tmp_path / "page.py"
    lines = [
        line
        for place, (language, code) in enumerate(BLOCKS)
        if language == "python"
        for line in checked(place, code)
    ]
    script.write_text("\n".join(lines), encoding="utf-8")
    torch.manual_seed(0)
    with imported(generate(SCHEMAS, "my_rl"), "my_rl", tmp_path):
        runpy.run_path(str(script), {"check_shown": check_shown, "check_printed": check_printed})


def test_something_is_shown() -> None:
    """The page is read: it has blocks, and most of them show what they give."""
    assert SCHEMAS
    shown = [comment for code in CODE for _, comment in statements(code) if comment is not None]
    assert len(shown) > 2 * len(CODE) > 20


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
    missing = [name for name in specs.__all__ if name != "LeafSpec" and f"`{name}" not in TEXT]
    assert missing == []


def test_older_names() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|$", TEXT, re.MULTILINE))
    assert rows == {
        name: found.__name__ for name in legacy.__all__ if isinstance(found := getattr(legacy, name), type)
    }
