"""The planner neither infers types nor takes apart what it or a printer has printed: it knows that from the program.

What it may cut are the names of the language, which are paths, and sentences of documentation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PLAN = Path(__file__).resolve().parents[2] / "specgen" / "plan"
FILES = sorted(PLAN.rglob("*.py"))

CUTTING = frozenset(
    (
        *("endswith", "find", "fullmatch", "lstrip", "match", "partition", "removeprefix"),
        *("removesuffix", "replace", "rfind", "rpartition", "rsplit", "rstrip", "search", "split"),
        *("splitlines", "startswith", "strip", "sub"),
    )
)
"""Methods of texts and patterns that find or take a part of one."""

MARKS = frozenset(('"next."', '"acc."', '"env."', '"."', "NEXT"))
"""What tells moments and parts of a name: whatever is cut at one of them is a name."""

NAMES_AND_SENTENCES = {
    "docs.py": {
        "text.split()",
        "text.startswith('. ', place)",
        "text.strip()",
        "_ABBREVIATION.search(text[:place])",
    },
    "file.py": {"checked.path.rsplit('.', 1)"},
    "imports.py": {"use.partition(':')"},
    "losses/coefficients.py": {
        "f'{param.doc or optional_annotation(param)}'.rstrip()",
        "what.endswith(('.', '!', '?'))",
    },
    "losses/learnables.py": {"one.name.removeprefix('log_')", "one.name.startswith('log_')"},
    "losses/methods.py": {"name.endswith('loss')"},
    "module.py": {"doc.strip()", "item.name.startswith('_')"},
    "per_env.py": {"param.draw.source.text.split()"},
    "pipelines/layers.py": {"network.name.replace('.', '_')", "re.split('[._]', source.module)"},
    "transforms/columns.py": {"builtin.name.endswith('_like')"},
    "transforms/docs.py": {"name.endswith('_inv')"},
    "transforms/draws.py": {"like.path.partition(f'.{phase}.in.')"},
    "transforms/fields.py": {"name.endswith('_keys')"},
    "transforms/functions.py": {"symbol.path.endswith(f'.in.{NTH}')"},
    "transforms/text.py": {"made.rstrip('_')"},
}
"""The other cuts, by file: each is of a name, a path, the text of a schema or a sentence of documentation."""


def name_of(path: Path) -> str:
    return path.relative_to(PLAN).as_posix()


def cuts(text: str) -> Iterator[str]:
    """The calls that find or take a part of a text that is no name."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Attribute(attr=method), args=args) if method in CUTTING:
                marks = {ast.unparse(one).replace("'", '"') for one in args}
                if not marks or not marks <= MARKS:
                    yield ast.unparse(node)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_printed_text_is_cut_or_matched(path: Path) -> None:
    allowed = NAMES_AND_SENTENCES.get(name_of(path), set())
    assert {*cuts(path.read_text(encoding="utf-8"))} == allowed


def test_files_that_are_gone_are_not_listed() -> None:
    assert NAMES_AND_SENTENCES.keys() <= {name_of(path) for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_is_inferred(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = {alias.name for alias in node.names}
            assert "infer" not in names
            assert "specgen.expr.infer" not in {*names, getattr(node, "module", None)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('known = names.split(", ")', "names.split(', ')"),
        ('uses = text.startswith("in_dtype(")', "text.startswith('in_dtype(')"),
        ('name.removeprefix("next.")', None),
        ('re.sub("self", "", text)', "re.sub('self', '', text)"),
    ],
)
def test_what_counts_as_a_cut(text: str, found: str | None) -> None:
    assert [*cuts(text)] == ([] if found is None else [found])
