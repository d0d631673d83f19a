"""Any bytes give nodes or diagnostics, never a traceback."""

import time

from hypothesis import example, given, settings
from hypothesis import strategies as st

from specgen.diagnostics import Sink, render_human
from specgen.source import Mapping, Node, Scalar, Sequence, decode, parse_yaml

PIECES = st.lists(
    st.sampled_from(
        [
            "a",
            "b: ",
            "th",
            ": ",
            ":",
            "- ",
            "\n",
            "\n  ",
            "\n\t",
            "  ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "'",
            '"',
            "#",
            " #",
            "&x",
            "*x",
            "<<",
            "!",
            "!!str ",
            "|",
            ">",
            "|-\n",
            "%",
            "@",
            "`",
            "?",
            "? ",
            "~",
            "null",
            "1e-4",
            "\\",
            "\\x",
            "---\n",
            "...\n",
            "\r",
            "\r\n",
            "\0",
            "\ufeff",
            "\u2028",
            "\x85",
            "é",
            "\U0001f600",
            "\ud800",
            "(",
            ")",
            "+",
            "%YAML 1.1\n",
            "%TAG ! x\n",
        ]
    ),
    max_size=25,
).map("".join)


def check(text: str) -> None:
    sink = Sink()
    root = parse_yaml("a.yaml", text, sink)
    assert root is not None or sink.has_errors
    lines = text.split("\n")
    for item in sink.items:
        assert 1 <= item.span.line <= len(lines)
        assert (item.span.end_line, item.span.end_column) >= (item.span.line, item.span.column)
    render_human(sink.items, {"a.yaml": text}, color=True).encode("utf-8", "replace")
    if root is not None:
        walk(root)


def walk(node: Node) -> None:
    if isinstance(node, Mapping):
        for key, value in node.entries:
            walk(key)
            walk(value)
    elif isinstance(node, Sequence):
        for item in node.items:
            walk(item)
    else:
        assert isinstance(node, Scalar)
        for at in range(min(len(node.text), 5)):
            node.span_of(at, at + 1)


@settings(max_examples=600, deadline=None)
@given(PIECES)
@example("%YAML 3.0\n---\na: 1\n")
@example('a: "\\ud800"\n')
@example('a: "\\U99999999"\n')
@example("a: !<\n")
@example("a: " + "9" * 5000)
@example("a: 0x" + "f" * 5000)
@example("? ? ? ? a\n")
@example("[" * 5000)
@example("{" * 5000)
@example("- " * 5000)
@example("a:\n" + "".join(" " * i + "- a:\n" for i in range(100)))
def test_any_text(text: str) -> None:
    check(text)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    sink = Sink()
    text = decode("a.yaml", data, sink)
    if text is None:
        assert [item.code for item in sink.items] == ["SG013"]
    else:
        check(text)


def test_large_files_take_linear_time() -> None:
    text = "envs:\n" + "".join(f"  e{i}: {{a: [1, 2, 3], b: 'x + {i}'}}\n" for i in range(5000))
    start = time.perf_counter()
    check(text)
    check(text + "x: [\n" * 50)
    assert time.perf_counter() - start < 20
