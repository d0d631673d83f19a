"""Patterns of transforms: how they are written, what they match, and the types that they give."""

from __future__ import annotations

import pytest

from specgen.diagnostics import Sink
from specgen.expr import SpecType, parse_type
from specgen.expr.patterns import Match, NoMatch, match, output_type, role_type
from specgen.expr.sizes import Rest, Sym
from tests.expr.texts import Text


def spec(text: str) -> SpecType:
    sink = Sink()
    found = parse_type(Text(text), sink)
    assert found is not None, [str(item) for item in sink.items]
    return found


@pytest.mark.parametrize(
    ("pattern", "found", "sizes", "rest"),
    [
        ("float[...]", "float32[3, 2]", {}, (3, 2)),
        ("any[..., C, H, W]", "uint8[4, 3, 84, 60]", {"C": 3, "H": 84, "W": 60}, (4,)),
        ("any[..., C, H, W]", "uint8[3, 84, 60]", {"C": 3, "H": 84, "W": 60}, ()),
        ("number[n]", "float64[7]", {"n": 7}, ()),
        ("number[n, n]", "float64[7, 7]", {"n": 7}, ()),
        ("number[n, 2 * n]", "int64[3, 6]", {"n": 3}, ()),
        ("any[_]", "bool[7]", {}, ()),
        ("any[]", "bool", {}, ()),
        ("number[..., 3, H, W]", "uint8[3, 5, 6]", {"H": 5, "W": 6}, ()),
        ("float[..., n] in bounded", "float32[2] in [-1, 1]", {"n": 2}, ()),
        ("categorical(k)[...]", "categorical(4)[3]", {"k": 4}, (3,)),
        ("onehot(k)[...]", "onehot(4)[3]", {"k": 4}, (3,)),
        ("multi_categorical(k)[...]", "multi_categorical(3, 3)", {"k": 3}, ()),
        ("multi_onehot(2, k)[...]", "multi_onehot(2, 5)[6]", {"k": 5}, (6,)),
        ("any[...]", "onehot(4)", {}, (4,)),
        ("any[...]", "categorical(4)[2]", {}, (2,)),
        ("float32[...]", "float32", {}, ()),
    ],
)
def test_match(pattern: str, found: str, sizes: dict[str, int], rest: tuple[int, ...]) -> None:
    assert match(spec(pattern), spec(found)) == Match(sizes, rest)


@pytest.mark.parametrize(
    ("pattern", "found", "reason"),
    [
        ("float[...]", "int64[3]", "is int64, not float"),
        ("number[...]", "onehot(4)", "is onehot(4), no number but a one-hot vector"),
        ("uint8[...]", "float32", "is float32, not uint8"),
        (
            "any[..., C, H, W]",
            "uint8[84, 60]",
            "is uint8[84, 60]: `any[..., C, H, W]` has 3 dimensions or more",
        ),
        ("any[_]", "float32[3, 2]", "is float32[3, 2]: `any[_]` has 1 dimension"),
        ("any[]", "float32[3]", "is float32[3]: `any` has 0 dimensions"),
        ("number[..., 3, H, W]", "uint8[4, 5, 6]", "is uint8[4, 5, 6], not number[..., 3, H, W]"),
        ("number[n, n]", "int64[2, 3]", "is int64[2, 3]: `n` is 2"),
        ("float[n] in bounded", "float32[2]", "is float32[2], without finite bounds on both sides"),
        (
            "float[n] in bounded",
            "float32[2] in [0, inf]",
            "is float32[2], without finite bounds on both sides",
        ),
        ("categorical(k)[...]", "onehot(4)", "is onehot(4), not categorical(k)[...]"),
        (
            "multi_categorical(k, 2)",
            "multi_categorical(2, 3, 4)",
            "is multi_categorical(2, 3, 4), not multi_categorical(k, 2)",
        ),
        ("multi_categorical(k)[...]", "multi_categorical(2, 3)", "is multi_categorical(2, 3): `k` is 2"),
    ],
)
def test_no_match(pattern: str, found: str, reason: str) -> None:
    result = match(spec(pattern), spec(found))
    assert isinstance(result, NoMatch)
    assert result.reason == reason


def test_sizes_unify_within_a_repetition() -> None:
    image = spec("any[..., C, H, W]")
    first = match(image, spec("uint8[3, 84, 60]"))
    assert isinstance(first, Match)
    second = match(spec("any[H, W]"), spec("float32[64, 60]"), first.sizes)
    assert second == NoMatch("is float32[64, 60]: `H` is 84", "H", (84, 64))
    assert match(spec("any[H, W]"), spec("float32[84, 60]"), first.sizes) == first
    assert match(spec("bool[...done]"), spec("bool[2]"), {}, {"done": (2,)}) == Match({}, (2,))
    assert isinstance(match(spec("bool[...done]"), spec("bool[2]"), {}, {"done": ()}), NoMatch)


def test_types_of_roles_and_outputs() -> None:
    image = role_type(spec("any[..., C, H, W]"), "image")
    assert str(image) == "any[..., C, H, W]"
    assert image.rest == Rest("image")
    assert image.rest.named == 3
    other = role_type(spec("any[..., C, H, W]"), "depth")
    assert other != image
    assert role_type(spec("any[_, _]"), "x").dims == (Sym.named("size(x, -2)"), Sym.named("size(x, -1)"))
    done = role_type(spec("bool[...]"), "done")
    count = role_type(spec("int64[...done]"), "count", None, {"done": done})
    assert count.dims == done.dims
    assert output_type(spec("float32[..., 2]"), "y", image).dims == (Rest("image"), 2)
    assert output_type(spec("bool[...]"), "y", role_type(spec("any[n]"), "x")).dims == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("any[H, ..., W]", "SG209 8-11 `...` stands in front of the dimensions that are named"),
        ("any[..., ...]", "SG209 10-13 `...` stands in front of the dimensions that are named"),
        ("any[..., 0]", "SG209 10-11 a dimension is a positive whole number, not 0"),
        ("any[n / 2]", "SG803 5-6 undefined name `n`"),
        ("like(flatten(u, )", "SG802 5-6 `(` is not closed"),
        ("like(x +)", "SG802 8-9 the expression ends too early"),
        ("like()", "SG802 6-7 an expression is missing"),
        ("any[...] in unbounded", "SG202 10-12 `any` has no bounds"),
    ],
)
def test_what_is_wrong_with_a_pattern(text: str, said: str) -> None:
    sink = Sink()
    assert parse_type(Text(text), sink) is None
    assert [f"{d.code} {d.span.column}-{d.span.end_column} {d.message}" for d in sink.items] == [said]


def test_like_takes_an_expression() -> None:
    found = spec("like(flatten(u, first_dim, (1 + 2)))")
    assert found.kind == "like"
    assert found.like == "flatten(u, first_dim, (1 + 2))"
    assert found.like_expr is not None
    assert str(found) == "like(flatten(u, first_dim, (1 + 2)))"
