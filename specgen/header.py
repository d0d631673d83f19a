"""The comment lines that mark a generated file, keep formatters off it, and tell whether it was edited by hand.

The digest stands in the file itself, so no second file has to be kept in step with it. It is of the code and its
comments and not of their layout: a formatter that runs over a file all the same has not edited it.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator

# For black and ruff; for isort and ruff's sorting of imports; for the linters flake8 and ruff.
_KEEP_OFF = ("# fmt: off", "# isort: skip_file", "# flake8: noqa")
_LINE = re.compile(r"^# specgen: sha256=([0-9a-f]{64})$", re.MULTILINE)
_COMMENTS = re.compile(r"(?:#[^\n]*\n)*")
_STRING_OR_COMMENT = re.compile(
    r'''"""(?:\\.|[^\\])*?"""|\'{3}(?:\\.|[^\\])*?\'{3}|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#([^\n]*)''',
    re.DOTALL,
)
"""Comments, as the only group; strings are passed over, since they may hold what looks like one."""
_LARGEST = 1_000_000
"""Of texts with more characters the digest is of every character: reading them takes longer than generating them."""


def seal(text: str) -> str:
    """The text with formatters kept off, and the digest line, below the comment lines that it starts with.

    The digest covers everything else. Sealing a sealed text again changes nothing.
    """
    body = _without(text)
    head, rest = _split(body)
    lines = "\n".join((*_KEEP_OFF, f"# specgen: sha256={_digest(body)}"))
    return f"{head}{lines}\n{rest}"


def is_generated(text: str) -> bool:
    """Whether a file says that specgen generated it."""
    return digest_line(text) is not None


def is_edited(text: str) -> bool:
    """Whether a generated file is not what was generated; line ends and layout may differ."""
    found = digest_line(text)
    return found is not None and found != _digest(_without(text))


def same(a: str, b: str) -> bool:
    """Whether two texts are equal but for line ends, which version control may change."""
    return a == b or _unix(a) == _unix(b)


def digest_line(text: str) -> str | None:
    """The digest that a generated file carries; None for any other file."""
    # Only among the comments at the top: a string further down may look like the line.
    found = _LINE.search(_split(_unix(text))[0])
    return None if found is None else found[1]


def _split(text: str) -> tuple[str, str]:
    """The comment lines at the top, and the rest."""
    head = _COMMENTS.match(text)
    end = 0 if head is None else head.end()
    return text[:end], text[end:]


def _without(text: str) -> str:
    """The text without the lines that `seal` adds."""
    head, rest = _split(_unix(text))
    own = (line for line in head.split("\n") if line not in _KEEP_OFF and not _LINE.match(line))
    return "\n".join(own) + rest


def _digest(body: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python, about what somebody wrote into the file
            if len(body) <= _LARGEST:
                body = "\n".join((*_comments(body), *_code(ast.parse(body))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass  # no Python any more: then every character counts
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def _comments(text: str) -> Iterator[str]:
    for found in _STRING_OR_COMMENT.finditer(text):
        if found[1] is not None:
            yield f"# {_words(found[1])}"


def _code(tree: ast.AST) -> list[str]:
    """A syntax tree as texts, the same in every version of Python: fields that hold nothing are left out."""
    texts: list[str] = []
    # A sum of a thousand terms is a tree a thousand levels deep; the parser makes none deeper than three times the limit.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(4 * limit)
    try:
        _add_code(tree, texts.append)
    finally:
        sys.setrecursionlimit(limit)
    return texts


def _add_code(node: ast.AST, add: Callable[[str], None]) -> None:
    kind = type(node)
    # Most nodes are of these two kinds; what is added is what the loop below would add.
    if isinstance(node, ast.Name):
        add(f"Name(\nid={node.id!r}\nctx=\n{type(node.ctx).__name__}(\n)\n)")
        return
    if isinstance(node, ast.Constant):
        add("Constant(\n)" if node.value is None else f"Constant(\nvalue={node.value!r}\n)")
        return
    if kind is ast.Expr and (documentation := _documentation(node)) is not None:
        add(f"doc {_words(documentation)}")
        return
    values = node.__dict__
    add(f"{kind.__name__}(")
    for name in kind._fields:
        value = values.get(name)
        if value is None or name == "kind":  # the `u` of u"text"
            continue
        if isinstance(value, ast.expr_context):
            add(f"{name}=\n{type(value).__name__}(\n)")
        elif isinstance(value, ast.AST):
            add(f"{name}=")
            _add_code(value, add)
        elif value.__class__ is not list:
            add(f"{name}={value!r}")
        elif value:
            add(f"{name}=\n[")
            for item in value:
                if isinstance(item, ast.AST):
                    _add_code(item, add)
                else:
                    add(str(item))
            add("]")
    add(")")


def _documentation(node: ast.AST) -> str | None:
    """The text of a docstring; None of anything else."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return None
    return node.value.value if isinstance(node.value.value, str) else None


def _words(text: str) -> str:
    """A text whose spaces and line breaks do not matter."""
    return " ".join(text.split())


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")
