"""Random Gymnasium spaces, and how their values compare."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st

INTEGERS: list[Any] = [np.int8, np.uint8, np.int16, np.int32, np.int64]
FLOATS: list[Any] = [np.float16, np.float32, np.float64]

SHAPES = st.lists(st.integers(1, 3), max_size=2).map(tuple)
CATEGORICAL = st.booleans()


@st.composite
def boxes(draw: st.DrawFn, shapes: st.SearchStrategy[Any] = SHAPES) -> spaces.Space[Any]:
    """Boxes of every dtype that torch has: bounded, half bounded and unbounded."""
    shape = draw(shapes)
    dtype = draw(st.sampled_from([*INTEGERS, *FLOATS, np.bool_]))
    if dtype is np.bool_:
        return spaces.Box(0, 1, shape, np.bool_)
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        ends = [-5, 0, 7] if limits.min else [0, 3, 7]
        if draw(st.booleans()):
            return spaces.Box(int(limits.min), int(limits.max), shape, dtype)
        low, high = sorted((draw(st.sampled_from(ends)), draw(st.sampled_from(ends))))
        return spaces.Box(low, high, shape, dtype)
    low = np.array(draw(elements(shape, [-np.inf, -1.5, 0.0])), dtype=dtype)
    high = np.array(draw(elements(shape, [0.5, 2.0, np.inf])), dtype=dtype)
    return spaces.Box(low, high, shape, dtype)


def elements(shape: tuple[int, ...], choices: list[Any]) -> st.SearchStrategy[Any]:
    """Arrays of a shape, of some of the choices."""
    size = int(np.prod(shape))
    drawn = st.lists(st.sampled_from(choices), min_size=size, max_size=size)
    return drawn.map(lambda values: np.array(values).reshape(shape))


@st.composite
def discretes(draw: st.DrawFn, starts: Any = (0, 1, -2)) -> spaces.Space[Any]:
    dtype = draw(st.sampled_from([np.int64, np.int32, np.int8]))
    return spaces.Discrete(draw(st.integers(1, 5)), start=draw(st.sampled_from(starts)), dtype=dtype)


@st.composite
def multi_discretes(draw: st.DrawFn, starts: Any = (0, 1, -2), dims: int = 2) -> spaces.Space[Any]:
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=dims)))
    sizes = draw(elements(shape, [1, 2, 4]))
    dtype = draw(st.sampled_from([np.int64, np.int32, np.int8]))
    return spaces.MultiDiscrete(sizes, dtype=dtype, start=draw(elements(shape, starts)))


@st.composite
def texts(draw: st.DrawFn) -> spaces.Space[Any]:
    shortest = draw(st.integers(0, 3))
    longest = draw(st.integers(max(shortest, 1), 5))
    return spaces.Text(longest, min_length=shortest, charset=draw(st.sampled_from(["a", "xyz", "äß 本"])))


MULTI_BINARIES = st.one_of(st.integers(1, 4), st.lists(st.integers(1, 3), min_size=2, max_size=3)).map(
    spaces.MultiBinary
)
LEAVES = st.one_of(boxes(), discretes(), multi_discretes(), MULTI_BINARIES, texts())


def dicts(
    parts: st.SearchStrategy[spaces.Space[Any]], smallest: int = 0
) -> st.SearchStrategy[spaces.Space[Any]]:
    names = st.sampled_from(["a", "b", "position", "c d"])
    return st.dictionaries(names, parts, min_size=smallest, max_size=3).map(spaces.Dict)


# Of one size each: sequences and stacks of several of them have no rows of different sizes.
ELEMENTS = st.one_of(boxes(), discretes(), multi_discretes(dims=1), MULTI_BINARIES, texts())
FLAT = st.recursive(ELEMENTS, lambda parts: dicts(parts, 1), max_leaves=5)

NESTED = st.recursive(LEAVES, dicts, max_leaves=5)
"""Leaves and nested Dicts of them."""


@st.composite
def tuples(draw: st.DrawFn) -> spaces.Space[Any]:
    """Tuples of parts that can be stacked: the same, or the same but for their sizes and bounds."""
    count = draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["same", "boxes", "discretes", "dicts"]))
    if kind == "same":
        return spaces.Tuple([draw(FLAT)] * count)
    sizes = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    if kind == "boxes":
        return spaces.Tuple([spaces.Box(-1.0, size, (size, 2)) for size in sizes])
    if kind == "discretes":
        return spaces.Tuple([spaces.Discrete(size, start=size) for size in sizes])
    return spaces.Tuple([spaces.Dict(a=spaces.Box(0, 1, (2,)), b=spaces.Discrete(size)) for size in sizes])


SEQUENCES = FLAT.map(lambda part: spaces.Sequence(part, stack=True))

SPACES = st.recursive(st.one_of(NESTED, tuples(), SEQUENCES), dicts, max_leaves=3)
"""Spaces of every kind that a spec describes."""


def seeded(space: spaces.Space[Any], seed: int) -> spaces.Space[Any]:
    space.seed(seed)
    return space


def same_values(left: Any, right: Any) -> bool:
    """Whether two values of a space are the same, down to the dtypes of arrays."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_values(left[key], right[key]) for key in left)
    if isinstance(left, tuple):
        return len(left) == len(right) and all(same_values(*pair) for pair in zip(left, right, strict=True))
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return bool(left == right)
