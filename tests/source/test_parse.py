"""What the YAML reader accepts, refuses, and says."""

import math

import pytest
import yaml

from specgen.diagnostics import Diagnostic, Sink, Span
from specgen.source import Mapping, Scalar, Sequence, decode, parse_yaml
from specgen.source.compose import Composer
from specgen.source.text import FileText

PATH = "schemas/a.yaml"


def read(text: str) -> tuple[Mapping | None, tuple[Diagnostic, ...]]:
    sink = Sink()
    return parse_yaml(PATH, text, sink), sink.items


def ok(text: str) -> Mapping:
    root, found = read(text)
    assert [str(item) for item in found] == []
    assert root is not None
    return root


def places(text: str) -> list[tuple[str, int, int]]:
    return [(item.code, item.span.line, item.span.column) for item in read(text)[1]]


def scalar(root: Mapping, *keys: str) -> Scalar:
    node: object = root
    for key in keys:
        assert isinstance(node, Mapping)
        node = node.get(key)
    assert isinstance(node, Scalar)
    return node


def test_every_node_has_its_exact_span() -> None:
    root = ok(
        "specgen: 1\nenvs:\n  Pendulum:\n    params: {g: 10.0, 'm': 1}\n    done: [a, \"b\"]\n\n# end\n"
    )
    envs = root.get("envs")
    assert isinstance(envs, Mapping)
    assert root.span == Span(PATH, 1, 1, 7, 6) or root.span.line == 1
    assert root.key("envs").span == Span(PATH, 2, 1, 2, 5)  # type: ignore[union-attr]
    pendulum = envs.get("Pendulum")
    assert isinstance(pendulum, Mapping)
    assert pendulum.span.line == 4
    assert pendulum.span.column == 5
    params = pendulum.get("params")
    assert isinstance(params, Mapping)
    assert params.span == Span(PATH, 4, 13, 4, 30)
    assert scalar(params, "m").span == Span(PATH, 4, 28, 4, 29)
    assert params.key("m").span == Span(PATH, 4, 23, 4, 26)  # type: ignore[union-attr]
    done = pendulum.get("done")
    assert isinstance(done, Sequence)
    assert [item.span for item in done.items] == [Span(PATH, 5, 12, 5, 13), Span(PATH, 5, 15, 5, 18)]
    assert root.get("nothing") is None
    assert root.key("nothing") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-12", -12),
        ("+3", 3),
        ("0o17", 15),
        ("0xFf", 255),
        ("1.0", 1.0),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("1.0e-4", 1e-4),
        ("1.5E+3", 1500.0),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("true", True),
        ("False", False),
        # texts, though YAML 1.1 takes them for something else, or would like to
        ("007", "007"),
        ("-010", "-010"),
        ("yes", "yes"),
        ("off", "off"),
        ("1e-4", "1e-4"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("0b1", "0b1"),
        ("2001-01-01", "2001-01-01"),
        ("tRue", "tRue"),
        ("-", "-x"),
        ("'1'", "1"),
        ('"true"', "true"),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    text = "-x" if text == "-" else text
    node = scalar(ok(f"a: {text}\n"), "a")
    assert node.value == value
    assert type(node.value) is type(value)


def test_nan_is_a_number() -> None:
    value = scalar(ok("a: .nan\n"), "a").value
    assert isinstance(value, float)
    assert math.isnan(value)


def convert(text: str, kind: str) -> tuple[object, list[tuple[str, str, str | None]]]:
    sink = Sink()
    value = getattr(scalar(ok(f"a: {text}\n"), "a"), f"as_{kind}")(sink)
    return value, [(item.code, item.message, item.help) for item in sink.items]


def test_numbers_that_yaml_reads_as_text_are_explained() -> None:
    assert convert("1e-4", "float") == (
        None,
        [("SG001", 'expected float, got string "1e-4"', "YAML needs a dot: write 1.0e-4")],
    )
    assert convert("-2E3", "float")[1][0][2] == "YAML needs a dot: write -2.0E3"
    assert convert("1_000", "int")[1][0][2] == "write 1000, without underscores"
    assert convert("1_0e3", "float")[1][0][2] == "write 10.0e3, without underscores"
    assert convert("inf", "float")[1][0][2] == "write .inf"
    assert convert("-Infinity", "float")[1][0][2] == "write -.inf"
    assert convert("NaN", "float")[1][0][2] == "write .nan"


def test_values_of_the_wrong_type_are_refused() -> None:
    assert convert("3", "float") == (3.0, [])
    assert convert("3", "int") == (3, [])
    assert convert("true", "bool") == (True, [])
    assert convert('"0.5"', "float") == (
        None,
        [("SG002", 'expected float, got string "0.5"', "write 0.5 without quotes")],
    )
    assert convert("yes", "bool") == (None, [("SG002", 'expected bool, got string "yes"', "write true")])
    assert convert("off", "bool")[1][0][2] == "write false"
    assert convert("3.0", "int") == (None, [("SG002", "expected int, got float 3.0", "write 3")])
    assert convert("true", "float")[1] == [("SG002", "expected float, got bool true", None)]
    assert convert("1", "bool")[1] == [("SG002", "expected bool, got int 1", "write true")]
    assert convert("1.0e999", "float")[1] == [
        ("SG002", "1.0e999 is too large for a float", "write .inf if infinity is meant")
    ]
    assert convert(".inf", "float") == (math.inf, [])
    assert convert("9" * 390, "float")[0] is None


CASES = {
    "tab": ("a:\n\tb: 2\n", [("SG003", 2, 1)]),
    "tabs": ("a: 1\n\tb: 2\n  \tc: 3\n", [("SG003", 2, 1), ("SG003", 3, 3)]),
    "unclosed list": ("a: [1, 2\nb: 3\n", [("SG004", 1, 4)]),
    "unclosed mapping": ("a: {b: 1\nc: 2\n", [("SG004", 1, 4)]),
    "unclosed inner list": ("a: [[1,\n", [("SG004", 1, 5)]),
    "unclosed quote": ("a: 'abc\nb: 2\n", [("SG004", 1, 4)]),
    "bracket closed twice": ("a: [1]]\n", [("SG004", 1, 7)]),
    "only closed": ("a: }\n", [("SG004", 1, 4)]),
    "indented too deep": ("a: 1\n b: 2\n", [("SG004", 2, 2)]),
    "not lined up": ("a:\n  - e: 3\n   f: 2\n", [("SG004", 3, 4)]),
    "colon in text": ("doc: Pendulum: swing\n", [("SG004", 1, 14)]),
    "no colon": ("a: 1\nfoo bar\n", [("SG004", 2, 1)]),
    "no colon at the start": ("foo bar\na: 1\n", [("SG004", 1, 1)]),
    "escape": ('a: "x\\qy"\n', [("SG004", 1, 6)]),
    "start": ("a: @x\n", [("SG004", 1, 4)]),
    "star": ("a: **2\n", [("SG004", 1, 4)]),
    "colon without value": ("a: [b, c:]\n", [("SG004", 1, 9)]),
    "text beside a block indicator": ("a: |x\n", [("SG004", 1, 5)]),
    "item behind a key": ("a:  - b\n", [("SG004", 1, 5)]),
    "outside": ("a: 1\n...\nb: 2\n", [("SG004", 3, 1)]),
    "comma": ("a:\n  , b\n", [("SG004", 2, 3)]),
    "alias": ("a: *x\n", [("SG005", 1, 4)]),
    "anchor": ("a: &x 1\n", [("SG005", 1, 4)]),
    "anchor alone": ("a: &x\n", [("SG005", 1, 4)]),
    "anchored mapping": ("a: &x\n  b: 1\n", [("SG005", 1, 4)]),
    "merge key": ("a:\n  <<: {b: 1}\n", [("SG005", 2, 3)]),
    "duplicate": ("a: 1\nb: 2\na: 3\n", [("SG006", 3, 1)]),
    "duplicate, quoted": ("a: 1\n'a': 3\n", [("SG006", 2, 1)]),
    "null": (
        "a:\nb: ~\nc: null\nd: [1, NULL]\n",
        [("SG007", 1, 1), ("SG007", 2, 1), ("SG007", 3, 1), ("SG007", 4, 8)],
    ),
    "null by comment": ("a: # 3\n", [("SG007", 1, 1)]),
    "flow expression": ("{loss: min(a, b)}\n", [("SG008", 1, 8)]),
    "flow expression among others": ("a: {x: 1, l: min(a, b, c), y: 2}\n", [("SG008", 1, 14)]),
    "flow list": ("a: [min(a, b), 3]\n", [("SG008", 1, 5)]),
    "flow type": ("a: {x: float32[3] in [-1, 1]}\n", [("SG008", 1, 8)]),
    "comment cuts": ("u: clip(a, # low\n  b)\nd: 2\n", [("SG009", 1, 12)]),
    "comment cuts silently": ("u: x + # more\n", [("SG009", 1, 8)]),
    "documents": ("a: 1\n---\nb: 1\n", [("SG010", 2, 1)]),
    "empty": ("", [("SG011", 1, 1)]),
    "comment only": ("# hello\n", [("SG011", 1, 1)]),
    "list": ("- a\n- b\n", [("SG011", 1, 1)]),
    "text": ("hello\n", [("SG011", 1, 1)]),
    "control character": ("a: b\x00c\n", [("SG012", 1, 5)]),
    "reading direction": ("a: b \u202e c\n", [("SG012", 1, 6)]),
    "escaped control character": ('a: "x\\0"\n', [("SG012", 1, 6)]),
    "old line ends": ("a: 1\rb: 2\rc: 3\r", [("SG012", 1, 5)]),
    "old line end": ("a: 1\rb: 2\n", [("SG012", 1, 5)]),
    "too deep": ("a: " + "[" * 100 + "\n", [("SG014", 1, 67)]),
    "key": ("? [a]\n: b\n", [("SG015", 1, 3)]),
    "null key": ("a: {~: 3}\n", [("SG015", 1, 5)]),
    "tag": ('a: !!python/object/apply:os.system ["id"]\n', [("SG903", 1, 4)]),
    "tags": ("a: !x 3\nb: !!str\n", [("SG903", 1, 4), ("SG903", 2, 4)]),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str) -> None:
    text, expected = CASES[case]
    assert places(text) == expected


def test_duplicate_names_the_first_place() -> None:
    (found,) = read("a:\n  th: 1\n  x: 2\n  th: 3\n")[1]
    assert found.message == "key 'th' is given twice"
    assert found.notes[0].span == Span(PATH, 2, 3, 2, 5)


def test_flow_expression_can_be_pasted() -> None:
    (found,) = read("a: {x: 1, loss: min(a, (b, c)) + 1, y: 2}\n")[1]
    assert found.help == 'write "min(a, (b, c)) + 1"'
    assert (found.span.column, found.span.end_column) == (17, 35)


def test_all_mistakes_of_a_file_in_one_run() -> None:
    text = "a: *x\nb: [1, 2\nc:\n  d: 1\n  d: 2\ne:\n\tf: 1\ng: !t 3\nh: 'open\n"
    assert [code for code, _, _ in places(text)] == ["SG005", "SG004", "SG006", "SG003", "SG903", "SG004"]
    assert read(text)[0] is None


def test_what_is_readable_comes_back_next_to_the_mistakes() -> None:
    root, found = read("a: *x\na: 1\nb: 2\nc:\n")
    assert root is not None
    assert [key.text for key, _ in root.entries] == ["a", "b"]
    assert [item.code for item in found] == ["SG005", "SG006", "SG007"]


@pytest.mark.parametrize(
    "text",
    [
        "u: clip(a, b)   # the torque\n",
        "u: clip(a,\n  b) # the torque\n",
        "doc: a list (see below # here\n",
        "x: [1, 2] # ]\n",
        "s: float32 in [0, 1]          # drawn\n",
        "a: 'x #y('\n",
        "t: {f: x0}\n",
        "b: |\n  a(  # part of the text\n",
        "\n\n# only comments before\na: 1\n",
        "%YAML 1.2\n---\na: 1\n...\n",
        "a: 1\r\nb:\r\n  c: 2\r\n",
        "a: \U0001f600é\n",
        "s: b#c\n",
    ],
)
def test_no_false_alarm(text: str) -> None:
    ok(text)


def test_crlf_positions() -> None:
    root = ok("a: 1\r\nb: x +\r\n  yy\r\n")
    node = scalar(root, "b")
    assert node.text == "x + yy"
    assert node.span_of(4, 6) == Span(PATH, 3, 3, 3, 5)


def test_decode() -> None:
    sink = Sink()
    assert decode(PATH, b"\xef\xbb\xbfa: 1\n", sink) == "a: 1\n"
    assert decode(PATH, "é: ß\n".encode(), sink) == "é: ß\n"
    assert sink.items == ()
    assert decode(PATH, "a: 1\né: \xff".encode("latin-1"), sink) is None
    assert [(item.code, item.span) for item in sink.items] == [("SG013", Span(PATH, 2, 1, 2, 2))]


# The others end in a syntax error, which the parsers word differently; parse_yaml words it again.
READABLE = [
    case
    for case, (_, expected) in CASES.items()
    if case not in ("flow type", "comment cuts")
    and not {code for code, _, _ in expected} & {"SG003", "SG004", "SG012", "SG014"}
]


@pytest.mark.parametrize("case", READABLE)
def test_both_yaml_parsers_agree(case: str) -> None:
    """Where libyaml is missing PyYAML's own parser reads the same structure at the same places."""
    text, _ = CASES[case]
    results = []
    for loader in (yaml.SafeLoader, yaml.CSafeLoader):
        sink = Sink()
        composer = Composer(FileText(PATH, text), text, sink, loader)
        composer.run()
        results.append((composer.result.root, sink.items))
    assert results[0] == results[1]


# PyYAML's own parser reads `c:` as a key there; it is refused for want of a value.
@pytest.mark.parametrize("case", [case for case in CASES if case != "colon without value"])
def test_without_libyaml_the_same_is_refused(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specgen.source.compose._LOADER", yaml.SafeLoader)
    text, expected = CASES[case]
    assert places(text) == expected


def test_a_text_in_utf_16_is_one_mistake() -> None:
    _, found = read("specgen: 1\nenvs: {}\n".encode("utf-16-le").decode("utf-8"))
    assert [(item.code, item.help) for item in found] == [("SG012", "save the file as UTF-8")]
