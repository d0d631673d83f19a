"""What Python files import and which modules their texts name, kept by the contents of the files."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

SHORT = 100
"""Only shorter texts can be paths, or the names of folders and commands."""

MODULE_IN_TEXT = re.compile(
    r"\b(?:specgen|specgen_runtime|specgen_std|tests|benchmarks)(?:\.\w+)+|\bspecgen_(?:runtime|std)\b"
)


class Statement(NamedTuple):
    """An import: `from module import names`, or `import names` where there is no module.

    Attributes:
        level: how many dots the module begins with.
        module: its name behind them.
        names: what is imported, with what it is called here.
    """

    level: int
    module: str | None
    names: Sequence[Sequence[str]]

    @classmethod
    def of(cls, node: ast.Import | ast.ImportFrom) -> Statement:
        """From the tree."""
        names = [(alias.name, alias.asname or alias.name) for alias in node.names]
        return (
            cls(node.level, node.module or "", names)
            if isinstance(node, ast.ImportFrom)
            else cls(0, None, names)
        )


class Facts(NamedTuple):
    """What is asked of a Python file.

    Attributes:
        imports: those that run.
        names: the imports of names, wherever they stand, of a package's own file.
        texts: its short texts but for docstrings.
        modules: the modules that any of its texts name.
    """

    imports: Sequence[Statement]
    names: Sequence[Statement]
    texts: Sequence[str]
    modules: Sequence[str]


def facts_of(text: str, is_package: bool) -> Facts:
    """Parse a file."""
    tree = ast.parse(text)
    texts = [*dict.fromkeys(texts_of(tree))]
    named = dict.fromkeys(name for each in texts for name in MODULE_IN_TEXT.findall(each))
    froms = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)) if is_package else ()
    return Facts(
        [Statement.of(node) for node in _imports_that_run(tree.body)],
        [Statement.of(node) for node in froms],
        [each for each in texts if len(each) < SHORT],
        [*named],
    )


class KnownFacts:
    """The facts of files by a digest of what they say, kept on disk: parsing all of them takes ten seconds.

    Args:
        root: the checkout, in whose `.pytest_cache` they are.
    """

    def __init__(self, root: Path) -> None:
        self._file = root / ".pytest_cache" / "imports.json"
        self._rules = _digest(Path(__file__).read_bytes())
        self._used: dict[str, Facts] = {}
        self._known: dict[str, Any] = {}
        with suppress(OSError, ValueError, TypeError, KeyError):  # not there, or not written by this file
            kept = json.loads(self._file.read_text(encoding="utf-8"))
            if kept["rules"] == self._rules:
                self._known = dict(kept["files"])

    def get(self, raw: bytes, is_package: bool) -> Facts:
        """Those of a file that says this."""
        key = f"{_digest(raw)}{'/' if is_package else ''}"
        if key not in self._used:
            self._used[key] = _facts_from(self._known.get(key)) or facts_of(raw.decode("utf-8"), is_package)
        return self._used[key]

    def save(self) -> None:
        """Keep what was asked for, in place of what was known."""
        if self._used.keys() != self._known.keys():
            self._file.parent.mkdir(exist_ok=True)
            text = json.dumps({"rules": self._rules, "files": self._used})
            with tempfile.NamedTemporaryFile(
                "w", dir=self._file.parent, delete=False, encoding="utf-8"
            ) as new:
                new.write(text)
            os.replace(new.name, self._file)


def _facts_from(kept: Any) -> Facts | None:
    """What the cache holds of a file; None if that is nothing, or has another form."""
    try:
        imports, names, texts, modules = kept
        return Facts(
            [Statement(*each) for each in imports], [Statement(*each) for each in names], texts, modules
        )
    except (TypeError, ValueError):
        return None


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def texts_of(tree: ast.Module) -> Iterator[str]:
    """The texts in a module that are not docstrings."""
    left: list[ast.AST] = [tree]
    while left:  # `ast.walk` takes three times as long, and there are half a million nodes
        node = left.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield node.value
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            for value in vars(node).values():
                if isinstance(value, list):
                    left += [each for each in value if isinstance(each, ast.AST)]
                elif isinstance(value, ast.AST):
                    left.append(value)


def _imports_that_run(block: Iterable[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports among statements and in the functions that they define, without those for type checkers."""
    for statement in block:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield statement
            continue
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            for_checkers = (
                part == "body" and isinstance(statement, ast.If) and _is_type_checking(statement.test)
            )
            if not for_checkers and isinstance(inner := getattr(statement, part, None), list):
                yield from _imports_that_run(inner)


def _is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"
