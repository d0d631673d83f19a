"""The way back from a token of a scalar to the file."""

from hypothesis import given, settings
from hypothesis import strategies as st

from specgen.diagnostics import Sink, Span
from specgen.source import Mapping, Scalar, parse_yaml
from specgen.source.charmap import character_map
from specgen.source.text import FileText

PATH = "a.yaml"


def only(text: str) -> Scalar:
    sink = Sink()
    root = parse_yaml(PATH, text, sink)
    assert isinstance(root, Mapping), [str(item) for item in sink.items]
    node = root.entries[-1][1]
    assert isinstance(node, Scalar)
    return node


def place(text: str, word: str) -> tuple[str, tuple[int, int, int, int]]:
    """The text at the span of `word`, and the span."""
    node = only(text)
    at = node.text.index(word)
    span = node.span_of(at, at + len(word))
    source = FileText(PATH, text)
    start, end = (
        source.offset(span.line - 1, span.column - 1),
        source.offset(span.end_line - 1, span.end_column - 1),
    )
    return text[start:end], (span.line, span.column, span.end_line, span.end_column)


def test_plain() -> None:
    assert place("a: clip(x, lo, hi)\n", "lo") == ("lo", (1, 12, 1, 14))


def test_plain_over_lines() -> None:
    text = "a: clip(x,\n     lo,\n\n   hi)\n"
    assert place(text, "lo") == ("lo", (2, 6, 2, 8))
    assert place(text, "hi") == ("hi", (4, 4, 4, 6))


def test_single_quotes() -> None:
    assert place("a: 'it''s and\n   more'\n", "more") == ("more", (2, 4, 2, 8))
    assert place("a: 'it''s'\n", "s") == ("s", (1, 9, 1, 10))
    assert place("a: 'it''s'\n", "'") == ("''", (1, 7, 1, 9))


def test_double_quotes() -> None:
    text = 'a: "x\\t\\u00e9 + \\x41b \\\n   rest\\\n\n   last"\n'
    assert only(text).text == "x\té + Ab rest\nlast"
    assert place(text, "é") == ("\\u00e9", (1, 8, 1, 14))
    assert place(text, "b") == ("b", (1, 21, 1, 22))
    assert place(text, "rest") == ("rest", (2, 4, 2, 8))
    assert place(text, "last") == ("last", (4, 4, 4, 8))


def test_literal() -> None:
    text = "k: 1\na: |\n    th +\n      x\n\n    y\n"
    assert only(text).text == "th +\n  x\n\ny\n"
    assert place(text, "x") == ("x", (4, 7, 4, 8))
    assert place(text, "y") == ("y", (6, 5, 6, 6))


def test_folded() -> None:
    text = "a: >-\n  th\n  + x\n\n  y\n   more\n  z\n"
    assert only(text).text == "th + x\ny\n more\nz"
    assert place(text, "x") == ("x", (3, 5, 3, 6))
    assert place(text, "y") == ("y", (5, 3, 5, 4))
    assert place(text, "z") == ("z", (7, 3, 7, 4))


def test_block_with_given_indentation() -> None:
    text = "a: |2+\n    x\n  y\n\n"
    assert only(text).text == "  x\ny\n\n"
    assert place(text, "y") == ("y", (3, 3, 3, 4))


def test_block_header_with_comment() -> None:
    assert place("a: > # a - b\n  th\n  x\n", "x") == ("x", (3, 3, 3, 4))


def test_ends_and_empty_ranges() -> None:
    node = only("a: abc\n")
    assert node.span_of(0, 3) == node.span
    assert node.span_of(3, 3) == Span(PATH, 1, 7, 1, 7)
    assert node.span_of(1, 1) == Span(PATH, 1, 5, 1, 5)
    assert node.span_of(-5, 99) == node.span


WORDS = st.text(alphabet="ab +*\t\n\\\"'#é\U0001f600:,-", min_size=1, max_size=30)


@settings(max_examples=400, deadline=None)
@given(
    body=WORDS,
    style=st.sampled_from(["plain", "single", "double", "literal", "folded"]),
    crlf=st.booleans(),
    chomp=st.sampled_from(["", "-", "+"]),
)
def test_the_map_decodes_what_the_parser_decodes(body: str, style: str, crlf: bool, chomp: str) -> None:
    lines = body.split("\n")
    if style == "plain":
        written = "x" + "\n  ".join(lines)
    elif style == "single":
        written = "'" + "\n  ".join(lines).replace("'", "''") + "'"
    elif style == "double":
        written = '"' + "\n  ".join(lines).replace("\\", "\\t").replace('"', '\\"') + '"'
    else:
        written = ("|" if style == "literal" else ">") + chomp + "\n  x" + "\n  ".join(lines) + "\n"
    text = f"a: {written}\n"
    text = text.replace("\n", "\r\n") if crlf else text
    root = parse_yaml(PATH, text, Sink())
    node = None if root is None else root.get("a")
    if not isinstance(node, Scalar) or node.origin is None:
        return
    raw = text[node.origin.start : node.origin.end]
    pieces = character_map(raw, node.style, node.text)
    assert pieces is not None
    assert all(start < end for _, start, end in pieces)
    assert [start for _, start, _ in pieces] == sorted(start for _, start, _ in pieces)
    for char, start, end in pieces:
        if end - start == 1 and not char.isspace():
            assert raw[start:end] == char
