"""Built-ins on dimensions that nobody knows: printed once for all ranks, they give what known dimensions give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime import functional

from specgen.expr import Binding, Interval, Symbol, Type, full, point
from specgen.expr.interpret import interpret
from specgen.expr.sizes import Dims, Rest, Sym
from tests.expr.printing import to_torch
from tests.expr.scopes import binding
from tests.expr.texts import mistakes, typed

RANK = Symbol("ranks.x", "x_rank", Type("int64", (), "ctor"), Interval(0, 9))
ANY: Dims = (Rest("x", rank=RANK),)
IMAGE: Dims = (Rest("x", rank=RANK, named=3), *(Sym.named(name) for name in "CHW"))
LIST = Type("list", (), "ctor")
LIST_OF_TWO = Type("list", (2,), "ctor")
SHAPES = ((), (3,), (4, 3), (2, 1, 3))
BATCHES = ((), (5,), (2, 3))


def scope(dims: Dims, shape: tuple[int, ...], *, known: bool) -> dict[str, Binding]:
    """Names for a value `x` of `dims`, which are `shape` where they are known."""
    here = shape if known else dims
    sizes = dict(zip("CHW", shape[-3:], strict=False))
    number = Type("int64", (), "ctor")

    def size(name: str, value: int) -> Binding:
        if known:
            return binding(str(value), Type("int64", (), "lit"), point(value), value)
        return binding(name, number, Interval.of_size(Sym.named(name)))

    def number_param(name: str, value: int) -> Binding:
        if known:
            return binding(str(value), Type("int64", (), "lit"), point(value), value)
        return binding(name, number, Interval(-9, -1))

    return {
        "x": binding("x", Type("float32", here), Interval(-8, 8)),
        "y": binding("y", Type("float64", here), full("float64")),
        "k": binding("k", Type("uint8", here), full("uint8")),
        "b": binding("b", Type("bool", here), full("bool")),
        "one": binding("one", Type("float32"), Interval(-8, 8)),
        "flag": binding("flag", Type("bool"), full("bool")),
        "T": size("T", 4),
        "height": binding("height", number, Interval(1, 9)),
        "given(height)": binding("given_height", Type("bool", (), "lit"), full("bool"), True),
        "low(x)": binding("x_low", Type("float32", here, "const"), Interval(-2, -2)),
        "high(x)": binding("x_high", Type("float32", here, "const"), Interval(3, 3)),
        "first": number_param("first", -2),
        "last": number_param("last", -1),
        "over": binding("over", LIST, full("float32"), items=(-1,) if known else None),
        "none": binding("none", LIST, full("float32"), items=() if known else None),
        **{name: size(name, value) for name, value in sizes.items()},
    }


def values(shape: tuple[int, ...], batch: tuple[int, ...]) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(len(shape) * 7 + len(batch))
    x = torch.rand((*batch, *shape), generator=generator) * 16 - 8
    return {
        "x": x,
        "y": x.double() * 1.5,
        "k": (x.abs() * 30).to(torch.uint8),
        "b": x > 0,
        "one": torch.rand(batch, generator=generator),
        "flag": torch.rand(batch, generator=generator) > 0.5,
        "T": 4,
        "x_low": torch.full(shape, -2.0),
        "x_high": torch.full(shape, 3.0),
        "first": -2,
        "last": -1,
        "over": (-1,),
        "none": (),
        "x_rank": len(shape),
        **dict(zip("CHW", shape[-3:], strict=False)),
    }


def _of_row(name: str, value: Any, row: tuple[int, ...]) -> Any:
    if not torch.is_tensor(value):
        return value
    return (value if name.startswith("x_") else value[row]).numpy()


def check(expression: str, dims: Dims, shape: tuple[int, ...]) -> None:
    """Open and known dimensions print what gives the same, which is what the interpreter gives for each row."""
    opened = typed(expression, scope(dims, shape, known=False))
    closed = typed(expression, scope(dims, shape, known=True))
    for batch in BATCHES:
        names = values(shape, batch)
        space = {**names, "torch": torch, "math": math, **vars(functional)}
        one, other = (eval(to_torch(node), space) for node in (opened, closed))
        assert one.dtype == other.dtype
        assert torch.equal(one, other), (expression, to_torch(opened), to_torch(closed))
        assert tuple(one.shape) == (*batch, *closed.type.sizes)
        for row in np.ndindex(*batch):
            own = {name: _of_row(name, value, row) for name, value in names.items()}
            meant = interpret(opened, own)
            np.testing.assert_allclose(meant, one[row].numpy(), rtol=2e-6, atol=1e-6)
            assert closed.interval.low <= meant.min()
            assert meant.max() <= closed.interval.high
            assert opened.interval.low <= meant.min()
            assert meant.max() <= opened.interval.high


ANYWHERE = [
    "x[None]",
    "stack(x, x)[1]",
    "stack(x, x + 1.0, x)[1:]",
    "stack(x, x + 1.0)[None, 0]",
    "x[..., None]",
    "x[..., None][..., 0]",
    "x[None][..., None]",
    "stack(x, x, axis=-1)[..., 1]",
    "tile(x[None], 3, axis=0)",
    "tile(x[None], T, axis=0)[1:]",
    "concat(tile(x[None], T, axis=0)[1:], x[None] + 2.0, axis=0)",
    "narrow(tile(x[None], T, axis=0), 1, axis=0)",
    "narrow(stack(x, x * 2.0, x * 3.0), 1, 2, axis=0)",
    "x + one",
    "where(flag, x, one)",
    "clip(x, -1.0, one)",
    "stack(x, one)",
    "full_like(x, 2.0)",
    "x + y",
    "max(x, one)",
    "max(tile(x[None], T, axis=0), axis=0)",
    "sum(stack(x, y), axis=0)",
    "mean(stack(x, x * 3.0), axis=0, keep=true)",
    "x - mean(x, axis=(), keep=true)",
    "x - mean(x[..., None], axis=-1)",
    "mean(x, axis=none, keep=true)",
]


@pytest.mark.parametrize("expression", ANYWHERE)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_dimensions(expression: str, shape: tuple[int, ...]) -> None:
    check(expression, ANY, shape)


WITH_AN_AXIS = [
    "concat(x, x * 2.0, axis=-1)",
    "concat(x, x * 2.0, axis=0)",
    "tile(x, 3, axis=-1)",
    "narrow(concat(x, x, axis=-1), 1, axis=-1)",
    "narrow(concat(x, x, axis=0), 1, size(x, 0), axis=0)",
    "concat(narrow(tile(x, 3, axis=-1), size(x)), x, axis=-1)",
    "sum(x)",
    "mean(k)",
    "max(x)",
    "any(b)",
    "sum(b)",
    "argmax(x)",
    "norm(x)",
    "logsumexp(x)",
    "min(x[None], axis=0) + mean(x)",
    "x - mean(x, axis=-1, keep=true)",
    "x - max(x, axis=0, keep=true)",
    "x / (0.5 + std(x, axis=-1, keep=true))",
    "prod(x, axis=-1)",
    "argmin(x, axis=0)",
    "sum(x, axis=0)",
    "sum(x, axis=over, keep=true)",
    "flatten(x[None], -2, -1)",
    "flatten(x, 0, -1)",
    "flatten(x[None], first, last)",
    "unflatten(flatten(x[None], first, last), last, dims(x[None], first, last)) + x[None]",
    "unflatten(flatten(x[None], -2, -1), -1, dims(x[None], -2, -1))",
    "permute(x, over)",
    "permute(permute(x * 2.0, over), over, inverse=true)",
    "permute(x[..., None], (-1, -2))",
    "mean(x, axis=over, keep=true)",
]


@pytest.mark.parametrize("expression", WITH_AN_AXIS)
@pytest.mark.parametrize("shape", SHAPES[1:])
def test_dimensions_of_which_there_is_one(expression: str, shape: tuple[int, ...]) -> None:
    check(expression, ANY, shape)


IMAGES = [
    "x[..., 0, :, :]",
    "x[..., 1:, :]",
    "x[..., :2]",
    "concat(x, x * 2.0, axis=-3)",
    "tile(x, 2, axis=-2)",
    "sum(x, axis=(-1, -2))",
    "permute(x, (-1, -3, -2))",
    "permute(x, (-1, -3, -2), inverse=true)",
    "crop(x, (H - 2) // 2, (W - 3) // 2, 2, 3)",
    "crop(x, 1, 0, H - 1, W)",
    "resize(x, 3, 2 * W)",
    "resize(x, H - 1, W, nearest)",
    "resize(x, 2 * H, 3, bicubic)",
    "permute(x, (-1, -2))",
    "flatten(x, -2, -1)",
    "flatten(x, -3, -1)",
    "unflatten(flatten(x, -3, -2), -2, (C, H))",
    "unflatten(x * 2.0, -1, (1, W))",
    "squeeze(narrow(x, 1, 1, axis=-2), -2)",
    "x - mean(x, axis=(-2, -1), keep=true)",
]


@pytest.mark.parametrize("expression", IMAGES)
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 5)])
def test_named_dimensions_behind(expression: str, shape: tuple[int, ...]) -> None:
    check(expression, IMAGE, shape)


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 5)])
def test_a_constant_meets_the_last_dimensions(shape: tuple[int, ...]) -> None:
    dims: Dims = (Rest("x", rank=RANK, named=3), 3, Sym.named("H"), Sym.named("W"))
    check("sum(x * stack(0.25, 0.5, 0.125)[:, None, None], axis=-3, keep=true)", dims, shape)
    check("ones((H, W))[None] * x", dims, shape)


def test_types() -> None:
    names = scope(ANY, (3,), known=False)
    images = scope(IMAGE, (3, 4, 5), known=False)

    def kind(text: str) -> str:
        return str(typed(text, names).type)

    assert kind("tile(x[None], T, axis=0)") == "float32[T, ...]"
    assert kind("tile(x[None], T, axis=0)[1:]") == "float32[T - 1, ...]"
    assert kind("concat(tile(x[None], T, axis=0)[1:], x[None], axis=0)") == "float32[T, ...]"
    assert kind("x[..., None]") == "float32[..., 1]"
    assert str(typed("tile(x, 2, axis=-3)", images).type) == "float32[..., 2 * C, H, W]"
    assert str(typed("x[..., 1:, :]", images).type) == "float32[..., C, H - 1, W]"


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("x[0]", "SG807 1-2 `x` is float32[...]: nobody knows which dimension this is"),
        ("x[..., 0]", "SG807 1-2 `x` is float32[...]: its last 1 dimensions are not all known"),
        ("x + x[None]", "SG807 1-12 shapes do not fit: `x` is float32[...] and `x[None]` is float32[1, ...]"),
        (
            "permute(x, (-1, -3))",
            "SG805 1-21 `axes` names each of the last axes of `x` once, counted from the end",
        ),
        (
            "squeeze(stack(x, x), 0)",
            "SG807 1-24 `stack(x, x)` is float32[2, ...]: a dimension of 2 cannot be left out",
        ),
        ("unflatten(stack(x, x), 0, (3, 1))", "SG807 1-34 a dimension of 2 is not 3 * 1"),
        (
            "flatten(x[..., None], -1, -1) + x",
            "SG807 1-34 shapes do not fit: `flatten(x[..., None], -1, -1)` is float32[..., 1] and `x` is float32[...]",
        ),
        (
            "flatten(x, -2, -1) + x",
            "SG807 1-23 shapes do not fit: `flatten(x, -2, -1)` and `x` have dimensions of their own",
        ),
        ("sum(x, axis=over)", "SG807 5-6 `x` has an unknown rank; its axes cannot be reduced"),
        ("argmax(x, axis=(-1, -2))", "SG805 1-25 `argmax` takes one axis, or none for all"),
        ("sum(x, axis=-1, keep=T)", "SG805 22-23 `keep` is true or false, known at build"),
        ("x[None, ..., ..., 0]", "SG805 1-21 `...` stands at most once in an index"),
    ],
)
def test_mistakes(expression: str, said: str) -> None:
    assert mistakes(expression, scope(ANY, (3,), known=False)) == [said]


def test_classes_of_several_one_hot_vectors() -> None:
    names = {
        "bits": binding("bits", Type("bool", (5,)), full("bool")),
        "classes(bits)": binding("counts", LIST_OF_TWO, full("int64"), items=(2, 3)),
    }
    node = typed("classes(bits)", names)
    assert str(node.type) == "int64[2]"
    assert node.interval == Interval(0, 2)
    classes = torch.tensor([[0, 2], [1, 0], [1, 1]])
    bits = torch.cat([torch.nn.functional.one_hot(classes[:, i], n) for i, n in enumerate((2, 3))], -1).bool()
    space = {"bits": bits, "torch": torch, **vars(functional)}
    assert torch.equal(eval(to_torch(node), space), classes)
    assert interpret(node, {"bits": bits[0].numpy(), "counts": (2, 3)}).tolist() == [0, 2]
    with pytest.raises(RuntimeError):
        functional.class_indices(bits, (2, 2))
    said = "SG805 9-13 nothing says how many classes each choice of `bits` has"
    assert mistakes("classes(bits)", {"bits": names["bits"]}) == [said]


def test_draws_like_another_value() -> None:
    names = scope(ANY, (3,), known=False)
    for text in (
        "uniform(0, 1, like=x)",
        "uniform(one, 2.0, like=x)",
        "randint(0, 4, like=b)",
        "bernoulli(0.5, like=k)",
    ):
        node = typed(text, names)
        assert str(node.type).endswith("[...]")
        assert node.draws[0].dims == ANY
        assert "x" not in [leaf.text for leaf in node.nodes if leaf.op == "name"]
    spread = typed("uniform(one, 2.0, like=x)", names)
    draw = torch.rand(2, 4, 3)
    space: dict[str, Any] = {"one": torch.tensor([0.0, 1.0]), "x_rank": 2, "draw": draw, "torch": torch}
    expected = space["one"][:, None, None] + (2.0 - space["one"][:, None, None]) * draw
    assert torch.equal(eval(to_torch(spread), space), expected)


@pytest.mark.parametrize(
    "expression",
    [
        "concat(*xs, axis=-1)",
        "stack(*xs)",
        "stack(*xs, axis=-1)",
        "min(*xs)",
        "max(*xs)",
        "sum(*xs)",
        "sum(*xs) / 2.0",
    ],
)
@pytest.mark.parametrize("shape", [(3,), (4, 3)])
def test_several_values(expression: str, shape: tuple[int, ...]) -> None:
    kind = Type("float32", ANY)
    several = {"xs": binding("xs", kind, full("float32"), several=())}
    names = {name: binding(name, Type("float32", shape), full("float32")) for name in ("a", "b", "c")}
    members = {**names, "xs": binding("", kind, full("float32"), several=("a", "b", "c"))}
    opened, closed = typed(expression, several), typed(expression, members)
    values = {name: torch.randn(2, *shape) for name in names}
    space = {**values, "xs": tuple(values.values()), "x_rank": len(shape), "torch": torch}
    one, other = eval(to_torch(opened), space), eval(to_torch(closed), space)
    assert torch.equal(one, other)
    assert tuple(one.shape[1:]) == closed.type.sizes
    row = {name: value[0].numpy() for name, value in values.items()}
    meant = interpret(opened, {"xs": tuple(row.values()), "x_rank": len(shape)})
    np.testing.assert_allclose(meant, one[0].numpy(), rtol=1e-6)
    np.testing.assert_allclose(interpret(closed, row), meant, rtol=1e-6)


def test_several_values_stand_behind_a_star() -> None:
    names = {
        "xs": binding("xs", Type("float32", ANY), full("float32"), several=()),
        "y": binding("y", Type("float32"), full("float32")),
    }
    assert mistakes("xs + 1.0", names) == ["SG306 1-3 `xs` stands for several values"]
    assert mistakes("exp(*xs)", names) == ["SG805 5-8 `exp` does not take several values"]
    assert mistakes("concat(*y)", names) == ["SG805 8-10 `y` is one value"]
    assert mistakes("concat(*zs)", names) == ["SG803 9-11 undefined name `zs`"]
    assert mistakes("concat(*(y + y))", names) == [
        "SG802 10-15 `*` stands before the name of several values: *xs"
    ]
