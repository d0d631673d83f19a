"""The short form of types."""

from __future__ import annotations

import math

import pytest

from specgen.check.specs import parse_spec
from specgen.diagnostics import Sink
from specgen.expr import Interval, SpecType, Type, parse_type
from specgen.expr.sizes import ANY_DIMS, Dims, Sym
from tests.expr.texts import Text

DIMS = {"n": 3, "size": 5}

GOOD = {
    "float32": SpecType("unbounded", "float32"),
    "float32[3] in [-1, 1]": SpecType("bounded", "float32", (3,), -1.0, 1.0),
    "float32[3] in [[-1, -1, -8], [1, 1, 8]]": SpecType(
        "bounded", "float32", (3,), (-1.0, -1.0, -8.0), (1.0, 1.0, 8.0)
    ),
    "float32[2] in [[-1, 0], inf]": SpecType("bounded", "float32", (2,), (-1.0, 0.0), math.inf),
    "float64 in [-pi, 2 * pi]": SpecType("bounded", "float64", (), -math.pi, 2 * math.pi),
    "int64[n, 2] in [0, size - 1]": SpecType("bounded", "int64", (3, 2), 0, 4),
    "uint8[84, 84, 3]": SpecType("unbounded", "uint8", (84, 84, 3)),
    "categorical(4)": SpecType("categorical", "int64", (), n=4),
    "categorical(5)[n]": SpecType("categorical", "int64", (3,), n=5),
    "categorical(size + 1, dtype=int32)": SpecType("categorical", "int32", (), n=6),
    "onehot(4)": SpecType("onehot", "bool", (), n=4),
    "multi_categorical(3, 2)": SpecType("multi_categorical", "int64", (), nvec=(3, 2)),
    "multi_onehot(3, 2)": SpecType("multi_onehot", "bool", (), nvec=(3, 2)),
    "multi_onehot(n, 2, dtype=int64)[4]": SpecType("multi_onehot", "int64", (4,), nvec=(3, 2)),
    "binary[8]": SpecType("binary", "int8", (8,), n=8),
    "binary(dtype=uint8)[8]": SpecType("binary", "uint8", (8,), n=8),
    "binary(dtype=bool)[8]": SpecType("binary", "bool", (8,), n=8),
    "int64 in [0, 2.0]": SpecType("bounded", "int64", (), 0, 2),
    "categorical(256, dtype=uint8)": SpecType("categorical", "uint8", (), n=256),
    "float64 in [-inf, 1]": SpecType("bounded", "float64", (), -math.inf, 1.0),
    "bool[1]": SpecType("binary", "bool", (1,), n=1),
    "text": SpecType("text", "str"),
    "float[...]": SpecType("pattern", "float", ANY_DIMS),
    "any[...]": SpecType("pattern", "any", ANY_DIMS),
    "float32[...]": SpecType("pattern", "float32", ANY_DIMS),
    "float32[3, H, W]": SpecType("pattern", "float32", (3, Sym.named("H"), Sym.named("W"))),
    "like(agents.frame)": SpecType("like", "any", ANY_DIMS, like="agents.frame"),
}


@pytest.mark.parametrize("text", GOOD)
def test_good(text: str) -> None:
    sink = Sink()
    found = parse_type(Text(text), sink, DIMS)
    assert not sink.items
    assert found is not None
    expected = GOOD[text]
    assert (found.kind, found.dtype, found.shape) == (expected.kind, expected.dtype, expected.shape)
    assert (found.low, found.high, found.n, found.nvec) == (
        expected.low,
        expected.high,
        expected.n,
        expected.nvec,
    )
    assert found.like == expected.like


def test_dims_of_the_tensor() -> None:
    def dims(text: str) -> Dims:
        found = parse_type(Text(text), Sink(), DIMS)
        assert found is not None
        return found.dims

    assert dims("onehot(4)[n]") == (3, 4)
    assert dims("multi_categorical(3, 2)") == (2,)
    assert dims("multi_onehot(3, 2)") == (5,)
    assert dims("float[...]") == ANY_DIMS


def test_type_and_interval() -> None:
    found = parse_type(Text("float32 in [0, 0.1]"), Sink())
    assert found is not None
    assert found.type(col=True) == Type("float32", (), "batch", True)
    assert found.interval == Interval(0.0, 0.10000000149011612)
    assert SpecType("categorical", "int64", (), n=5).interval == Interval(0, 4)
    assert SpecType("unbounded", "uint8").interval == Interval(0, 255)


BAD = {
    "float32[1] in [1, -1]": "SG201 16-21 empty domain: low 1.0 > high -1.0",
    "float32[2] in [[0, 2], [1, 1]]": "SG201 16-30 empty domain at element 1: low 2.0 > high 1.0",
    "uint8 in [-1, 5]": "SG203 11-13 -1 is outside uint8 [0, 255]",
    "int64 in [0, 1.5]": "SG203 14-17 1.5 is not a whole number and int64 holds only those",
    "int64 in [0, inf]": "SG203 14-17 inf is outside int64 [-9223372036854775808, 9223372036854775807]; leave the"
    " domain out",
    "float32 in [0, 1.0e39]": "SG203 16-22 1e+39 is outside float32",
    "flaot32": "SG202 1-8 `flaot32` is not a type",
    "": "SG202 1-2 a type is missing",
    "3": "SG202 1-2 `3` is not a type",
    "float32[0]": "SG209 9-10 a dimension is a positive whole number, not 0",
    "float32[n / 2]": "SG209 9-14 a dimension is a positive whole number, not 1.5",
    "float32[m]": "SG803 9-10 undefined name `m`",
    "float32[3] in [[1, 2], 3]": "SG204 16-22 this bound does not have the shape [3]",
    "categorical": "SG202 1-12 `categorical` needs to know how many values there are",
    "categorical(3, 2)": "SG202 12-18 `categorical` takes one number",
    "categorical(257, dtype=uint8)": "SG208 12-30 uint8 can't hold 257 classes: its largest is 255",
    "multi_categorical(2, 3, dtype=bool)": "SG208 18-36 bool can't hold 3 classes: its largest is 1",
    "categorical(4, dtype=int32, dtype=int8)": "SG802 29-34 expected `)` before `dtype`",
    "multi_onehot()": "SG202 13-15 `multi_onehot` takes at least one number",
    "multi_onehot(3, 2.0)": "SG209 17-20 a number of values is a positive whole number, not 2.0",
    "multi_onehot(3, dtype=flaot32)": "SG202 23-30 `flaot32` is not a dtype",
    "binary(3)": "SG202 7-10 `binary` takes no number, only a dtype, in parentheses",
    "float32 in [inf, inf]": "SG201 13-21 empty domain: no number is in [inf, inf]",
    "float32[2] in [0, [1, -inf]]": "SG201 16-28 empty domain at element 1: low 0.0 > high -inf",
    "float32 in [0, 1e400]": "SG802 16-21 the number is larger than any dtype holds",
    "float32 in [0, 1e308 * 10]": "SG802 24-26 the number is larger than any dtype holds",
    "float32 in [inf - inf, 1]": "SG802 19-22 the result is not a number",
    "float32[4611686018427387904, 8]": "SG209 1-32 one value would have 36893488147419103232 elements",
    "float32(3)": "SG202 8-9 `float32` takes nothing in parentheses",
    "float32[3": "SG802 9-10 expected `]`",
    "float32 in [0": "SG802 13-14 expected `,`",
    "float32 in [0, 1] 3": "SG202 19-20 expected the end of the type before `3`",
    "bool in [0, 1]": "SG202 6-8 `bool` has no bounds",
    "float32 in [0, 2 ** 3]": "SG802 18-20 no powers in shapes and bounds",
    "float32 in [0, 1 / 0]": "SG802 20-21 division by zero",
    "like(": "SG802 5-6 `(` is not closed",
    "float32; os": "SG802 8-9 unknown character `;`",
}


@pytest.mark.parametrize("text", BAD)
def test_bad(text: str) -> None:
    sink = Sink()
    assert parse_type(Text(text), sink, DIMS, patterns=False) is None
    found = [f"{d.code} {d.span.column}-{d.span.end_column} {d.message}" for d in sink.items]
    assert found == [BAD[text]]


@pytest.mark.parametrize(
    "text", ["float32[" + "(" * 200, "float32[" + "-" * 200 + "1]", "float32 in " + "[" * 300]
)
def test_depth_is_limited(text: str) -> None:
    sink = Sink()
    assert parse_type(Text(text), sink) is None
    assert sink.has_errors


@pytest.mark.parametrize(
    ("text", "meant"),
    {
        "float": "float32",
        "int": "int64",
        "int[3]": "int64[3]",
        "double": "float64",
        "long in [0, 4]": "int64 in [0, 4]",
        "f32": "float32",
        "torch.float32": "float32",
        "np.uint8[84, 84, 3]": "uint8[84, 84, 3]",
        "float[3] in [-1, 1]": "float32[3] in [-1, 1]",
        "number": "float32",
        "float32 [-1, 1]": "float32 in [-1, 1]",
        "float32[-pi, pi]": "float32 in [-pi, pi]",
        "float32[3] [-1, 1]": "float32[3] in [-1, 1]",
    }.items(),
)
def test_what_to_write_for_a_key_is_a_spec(text: str, meant: str) -> None:
    sink = Sink()
    assert parse_spec(Text(text), sink, DIMS) is None
    (item,) = sink.items
    assert item.help is not None
    assert item.help.endswith(f"write {meant}")
    assert parse_spec(Text(meant), Sink(), DIMS) is not None


@pytest.mark.parametrize(
    ("text", "help"),
    [
        ("flaot", "did you mean 'float32'?"),
        ("intt64", "did you mean 'int64'?"),
        ("Categorical(4)", "did you mean 'categorical'?"),
        ("Discrete(4)", "write categorical(4) for a class as a number, or onehot(4) for a one-hot vector"),
        ("Box(-1, 1)", "write float32[3] in [-1, 1]"),
        ("categorical(4, dtype=int)", "did you mean 'int64'?"),
        ("float32 in (-1, 1)", "bounds are written in brackets: in [-1, 1]"),
        ("float32[3, 0]", None),
        ("float32[...]", "with its dimensions, such as float32[3]; a single number is float32"),
        ("something", "such as float32[3] in [-1, 1]"),
    ],
)
def test_help_where_a_key_has_no_spec(text: str, help: str | None) -> None:
    sink = Sink()
    assert parse_spec(Text(text), sink, DIMS) is None
    assert [item.help for item in sink.items] == [help]


def test_patterns_are_suggested_where_they_can_stand() -> None:
    sink = Sink()
    assert parse_type(Text("flaot[...]"), sink) is None
    assert [item.help for item in sink.items] == ["did you mean 'float'?"]
