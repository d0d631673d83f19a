"""Pages whose Python blocks run in order, in one namespace, and give what they show.

What is shown: a comment behind an expression is its value, or the exception that it raises; a `text` block is what
the block before it prints. Schemas on the page (`schemas/name.yaml`:, then a block) are built before, as `my_rl`.
"""

from __future__ import annotations

import ast
import re
import runpy
import tokenize
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
import torch

from tests.support import generate, imported

DOCS = Path(__file__).resolve().parents[2] / "docs"


@dataclass(frozen=True)
class Page:
    """The text of a page, its blocks as (language, code), and the schemas among them by file name."""

    text: str
    blocks: list[tuple[str, str]]
    schemas: dict[str, str]

    @property
    def code(self) -> list[str]:
        return [code for language, code in self.blocks if language == "python"]

    @property
    def shown(self) -> list[str]:
        """The comments behind statements: what is compared."""
        return [comment for code in self.code for _, comment in statements(code) if comment is not None]

    def printed_after(self, block: int) -> str | None:
        """The `text` block behind a block."""
        after = self.blocks[block + 1 : block + 2]
        return after[0][1] if after and after[0][0] == "text" else None


def read_page(name: str) -> Page:
    text = (DOCS / name).read_text(encoding="utf-8")
    return Page(
        text,
        re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL),
        {
            f"{name}.yaml": code
            for name, code in re.findall(r"`schemas/(\w+)\.yaml`:\n\n```yaml\n(.*?)^```$", text, re.M | re.S)
        },
    )


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


def checked(page: Page, place: int) -> Iterator[str]:
    """The statements of a block as source; what they show is handed to functions that check it."""
    for statement, comment in statements(page.blocks[place][1]):
        text = ast.unparse(statement)
        shown = isinstance(statement, ast.Expr) and comment is not None
        yield f"check_shown(lambda: {text}, {comment!r})" if shown else text
    yield f"check_printed({page.printed_after(place)!r})"


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


def run_page(page: Page, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a page's blocks as one script in `folder`, with torch seeded."""

    def check_printed(expected: str | None) -> None:
        printed = capsys.readouterr().out
        assert expected is None or printed == expected

    script = folder / "page.py"
    lines = [
        line
        for place, (language, _) in enumerate(page.blocks)
        if language == "python"
        for line in checked(page, place)
    ]
    script.write_text("\n".join(lines), encoding="utf-8")
    torch.manual_seed(0)
    package = imported(generate(page.schemas, "my_rl"), "my_rl", folder) if page.schemas else nullcontext()
    with package, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Gymnasium's own checks
        runpy.run_path(str(script), {"check_shown": check_shown, "check_printed": check_printed})
