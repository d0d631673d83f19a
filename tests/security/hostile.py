"""Texts that would like to be code, and what must not change when one of them stands in a schema."""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO

TEXTS = (
    'x" + str(__import__("os")) + "y',
    "x' + str(__import__('os')) + 'y",
    '"""',
    'a"""\nimport os\n"""b',
    "'''",
    'a"',
    "a\\",
    'a\\"',
    "a\nimport os",
    "a\r\nimport os",
    "a\tb",
    "{{ a }}",
    "{% raw %}",
    "{# a",
    "{x}",
    "{",
    "}",
    "a\u2028import os",
    "a\x85import os",
    "a\x0cb",
    "a\0b",
    "a\u202eb\u2066",
    "a\ufeffb",
    "# a",
    "coding: utf-7",
    "%s $x `a`",
    "a]; import os; [",
    'float32[__import__("os")]',
    "lambda: 0",
    "a b",
    "a.",
    "../a",
    "a/b",
    ")",
    "*",
    "x" * 3000,
    "9" * 5000,
)
"""What may stand in a constant or a comment, and nowhere else."""

NAMES = (
    "",
    "a.b",
    "next.a",
    "_x",
    "keys",
    "reduction",
    "distance_loss",
    "__import__",
    "__class__",
    "super",
    "class",
    "None",
    "torch",
    "self",
    "Tensor",
    "print",
    "_",
    "\ufb01",
    "x" * 300,
)
"""What is a name, but not one that a declaration may give (or one that changes nothing else)."""


@lru_cache(maxsize=200)
def shape(text: str) -> tuple[str, int]:
    """A module but for its constants, and how many lines of comments it has; raises SyntaxError."""
    data = text.encode()
    tree = ast.parse(data)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value, node.kind = 0, None
        elif isinstance(node, ast.JoinedStr):
            node.values = [part for part in node.values if not isinstance(part, ast.Constant)]
    comments = sum(token.type == tokenize.COMMENT for token in tokenize.tokenize(BytesIO(data).readline))
    return ast.dump(tree), comments


def differing(files: Mapping[str, str], twin: Mapping[str, str]) -> list[str]:
    """The files that differ in more than constants."""
    if files.keys() != twin.keys():
        return sorted(files.keys() ^ twin.keys())
    return [path for path, text in files.items() if shape(text) != shape(twin[path])]
