"""What is wrong with an expression, where, and what the message proposes."""

from __future__ import annotations

import pytest

from specgen.diagnostics import Sink
from specgen.expr import check_assignable, infer, parse, parse_type
from tests.expr.scopes import FRAMES, GRID, NORM, PENDULUM
from tests.expr.test_golden import ACROBOT
from tests.expr.texts import Text, mistakes

SCOPE = PENDULUM | GRID | FRAMES | NORM

MISTAKES = {
    # syntax
    "clip(th, -2, 2": ["SG802 5-6 `(` is not closed"],
    "th)": ["SG802 3-4 `)` closes nothing"],
    "v[0": ["SG802 2-3 `[` is not closed"],
    "": ["SG802 1-2 an expression is missing"],
    "   ": ["SG802 1-2 an expression is missing"],
    "th +": ["SG802 4-5 the expression ends too early"],
    "* th": ["SG802 1-2 expected a value before `*`"],
    "th u": ["SG802 4-5 expected an operator before `u`"],
    "th, u": ["SG802 3-4 a list of values is not one expression"],
    "th = u": ["SG802 4-5 `=` assigns; expressions only compare"],
    "th == None": ["SG802 7-11 `None` stands only between square brackets, for a new dimension"],
    "th # u": ["SG802 4-5 unknown character `#`"],
    "th ^ u $": ["SG802 4-5 unknown character `^`", "SG802 8-9 unknown character `$`"],
    "th > 0 & u > 0 || !u": [
        "SG802 8-9 `&` is not an operator here",
        "SG802 16-18 `||` is not an operator here",
        "SG802 19-20 `!` is not an operator here",
    ],
    "th if u else 3": ["SG802 4-6 `if` is not part of expressions"],
    "sum(x for x in th)": ["SG802 7-10 `for` is not part of expressions"],
    "lambda x: x": ["SG802 1-7 `lambda` is not part of expressions"],
    "'left'": ["SG802 1-7 text is not a value in an expression"],
    "08 * th": ["SG802 1-3 a number does not start with 0: other languages read that as base 8"],
    "010": ["SG802 1-4 a number does not start with 0: other languages read that as base 8"],
    "01.5 + 0_1": [
        "SG802 1-5 a number does not start with 0: other languages read that as base 8",
        "SG802 8-11 a number does not start with 0: other languages read that as base 8",
    ],
    "3x": ["SG802 1-3 `3x` is neither a number nor a name"],
    "[th, u]": ["SG802 1-2 a list is not a value"],
    "(th, u)": ["SG802 1-8 a tuple stands only for a shape or for axes"],
    "99999999999999999999": ["SG802 1-21 the number is larger than int64 holds"],
    "(th + u).sum()": ["SG802 10-13 values have no methods or attributes"],
    "(th)(u)": ["SG802 5-6 only a function's name can be called"],
    "sum(axis=0, v)": ["SG802 13-14 an argument without a name follows one with a name"],
    # names
    "thdo + angel": ["SG803 1-5 undefined name `thdo`", "SG803 8-13 undefined name `angel`"],
    "sin": ["SG803 1-4 `sin` is a function"],
    "clamp(th, 0, 1)": ["SG804 1-6 unknown function `clamp`"],
    "th.sum()": ["SG804 1-7 unknown function `th.sum`"],
    "np.sin(th)": ["SG804 1-7 unknown function `np.sin`"],
    "th(u)": ["SG804 1-3 `th` is a value, not a function"],
    "foo(thdo)": ["SG804 1-4 unknown function `foo`", "SG803 5-9 undefined name `thdo`"],
    "stack(th, u)": ["SG842 1-6 `stack` is a value here, which hides the built-in function `stack`"],
    "v[size(A)]": ["SG842 3-7 `size` is a dim here, which hides the built-in function `size`"],
    # arguments
    "clip(th, lo=3)": ["SG805 10-12 `lo` is no argument of `clip`"],
    "clip(th, 3)": ["SG805 1-12 `clip` needs `high`"],
    "sin(th, u)": ["SG805 9-10 too many arguments for `sin`"],
    "clip(th, 0, 1, low=0)": ["SG805 16-19 `low` is given twice"],
    "sum(v, axis=2)": ["SG805 13-14 axis 2 of an array with 1 dimension"],
    "sum(v, axis=i)": ["SG805 13-14 `axis` is a whole number; `i` is int64 computed at run time"],
    "zeros(i)": ["SG805 7-8 `i` is no positive whole number known at build, as a dimension is"],
    "zeros(3, floot32)": ["SG805 10-17 not a dtype"],
    "rk4(dsdx, v, dt)": ["SG804 5-9 `dsdx` is not a function that the declaration defines"],
    "dsdt(v, th)": ["SG807 6-7 `v` is float32[3]; `s` of `dsdt` is float32[4]"],
    "dsdt(th)": ["SG805 1-9 `dsdt(s, torque)` takes 2 arguments, 1 are given"],
    "tile(frame, 2, axis=1)": [
        "SG805 21-22 an axis of an array of unknown rank counts from the end: at most -1"
    ],
    # dtypes
    "done * 5": ["SG806 1-5 `done` is a truth value and cannot be calculated with as a number"],
    "-done": ["SG806 2-6 `done` is a truth value and cannot be calculated with as a number"],
    "th and u": [
        "SG806 1-3 `th` is float32, not a truth value",
        "SG806 8-9 `u` is float32, not a truth value",
    ],
    "where(th, 1, 0)": ["SG806 7-9 `th` is float32, not a truth value"],
    "where(done, done, 0)": ["SG806 13-17 `done` is a truth value and cannot be calculated with as a number"],
    "all(v)": ["SG806 5-6 `v` is float32[3], not truth values"],
    "done == 1": ["SG806 1-5 `done` is a truth value and cannot be compared as a number"],
    "v[th]": ["SG806 3-5 `th` is float32; an index is an integer"],
    "uniform(0, 1, dtype=int64)": ["SG805 1-27 `uniform` draws floats, not int64"],
    "randint(0, 2.5)": ["SG806 12-15 `2.5` is float32; the ends of randint are integers"],
    "uniform(5, -5)": ["SG805 12-14 the draw is from `low` up to `high`, and `5` is greater than `-5`"],
    "normal(th, -0.5)": ["SG805 12-16 a standard deviation is not negative, and `-0.5` is"],
    "randint(5, 5)": ["SG805 12-13 there is no integer from 5 up to 5 without it"],
    # shapes
    "v + v[:2]": ["SG807 1-10 shapes do not fit: `v` is float32[3] and `v[:2]` is float32[2]"],
    "A * v": ["SG807 1-6 shapes do not fit: `A` is float32[3, 4] and `v` is float32[3]"],
    "pos + zeros((3, 1))": [
        "SG807 1-20 shapes do not fit: `pos` is int64[3, 2] and `zeros((3, 1))` is float32[3, 1]",
    ],
    "sum(th)": ["SG807 5-7 `th` is one number: there is nothing to reduce"],
    "th[0]": ["SG807 1-6 1 indices for `th`, which is float32"],
    "concat(th, v)": ["SG807 8-10 `th` is one number"],
    "concat(A, v, axis=1)": [
        "SG807 11-12 `A` is float32[3, 4] and `v` is float32[3]: they differ off axis 1",
    ],
    "A @ v": ["SG807 1-6 the inner dimensions 4 and 3 differ: `A` is float32[3, 4] and `v` is float32[3]"],
    "loc + v": ["SG807 1-8 shapes do not fit: `loc` is float32[...] and `v` is float32[3]"],
    "cumsum(th)": ["SG807 8-10 `th` is one number: it has no axis"],
    "softmax(loc)": ["SG807 9-12 `loc` has an unknown rank; `softmax` needs to know its axes"],
    "cumsum(A)": ["SG805 1-10 `A` is float32[3, 4]: `cumsum` needs to know along which axis"],
    "roll(A, 1)": ["SG805 1-11 `A` is float32[3, 4]: `roll` needs to know along which axis"],
    "roll(v, i)": ["SG805 9-10 `shift` is a whole number; `i` is int64 computed at run time"],
    "sort(done)": ["SG806 6-10 `sort` is not defined for bool"],
    "softmax(done)": ["SG806 9-13 `softmax` is not defined for bool"],
    "std(v, correction=3)": [
        "SG805 19-20 `correction` is a whole number known at build, from 0 to 2: it is taken from 3 values"
    ],
    "reshape(A, (5, 2))": ["SG807 1-19 `A` is float32[3, 4]: its 12 elements do not fit into [5, 2]"],
    "reshape(A, (5, -1))": ["SG807 1-20 `A` is float32[3, 4]: its 12 elements do not fit into [5, -1]"],
    "reshape(A, (-1, -1))": [
        "SG805 17-19 `-1` is no positive whole number known at build, as a dimension is"
    ],
    "permute(v)": ["SG807 9-10 `v` is float32[3]: `permute` has nothing to arrange"],
    "unpermute(A, (0, 0))": [
        "SG805 1-21 `axes` names each of the last axes of `A` once, counted from the end"
    ],
    "permute(A, (0, 0))": ["SG805 1-19 `axes` names each of the 2 axes of `A` once, in their new order"],
    "flip(3)": ["SG807 6-7 `3` is one number: `flip` has nothing to arrange"],
    "outer(A, v)": ["SG807 1-12 `outer` is for two vectors: `A` is float32[3, 4] and `v` is float32[3]"],
    "exponential(-1)": ["SG805 13-15 a mean waiting time is not negative, and `-1` is"],
    "categorical(v)": ["SG841 13-14 `v` can be anything; a weight is at least 0"],
    "categorical(0.5)": [
        "SG807 13-16 `0.5` is one number; `categorical` takes a vector with a weight for each class"
    ],
    "categorical(zeros(3))": ["SG805 13-21 no weight of `zeros(3)` is above 0"],
    "categorical(softmax(A), shape=2)": [
        "SG807 1-33 shape=[2] does not fit weights of shape [3, 4]: the last are the classes"
    ],
    "poisson(done)": ["SG806 9-13 `done` is bool; rates are numbers"],
    "poisson(i - 6)": ["SG841 9-14 `i - 6` is between -6 and -1; a rate is at least 0"],
    "permutation(i)": ["SG805 13-14 `n` is a whole number; `i` is int64 computed at run time"],
    "permutation(0)": [
        "SG805 13-14 how many are put into an order must be a whole number from 1, known at build"
    ],
    "zeros((2, 3, 4))[permutation(2), :, permutation(2)]": [
        "SG805 1-52 a slice or `None` separates indices that have dimensions, and it is not clear where these dimensions go"
    ],
    "zeros((2, 3, 4))[0, :, permutation(2)]": [
        "SG805 1-39 a slice or `None` separates indices that have dimensions, and it is not clear where these dimensions go"
    ],
    "A[:, i]": ["SG808 6-7 `i` can be 5, outside 0 to 3 of a dimension of 4"],
    # ranges
    "v[3]": ["SG808 3-4 index 3 is outside a dimension of 3"],
    "v[i]": ["SG808 3-4 `i` can be 5, outside 0 to 2 of a dimension of 3"],
    "v[i + 3]": ["SG808 3-8 `i + 3` is 8, outside 0 to 2 of a dimension of 3"],
    "one_hot(i, 3)": ["SG808 9-10 `i` can be 5, outside 0 to 2 of the classes"],
    "v[2:1]": ["SG808 1-7 the slice does not lie in a dimension of 3"],
    "pixels + 300": ["SG810 10-13 300 is outside uint8 [0, 255]"],
    "pixels - -1": ["SG810 10-12 -1 is outside uint8 [0, 255]"],
    "th * 1e39": ["SG810 6-10 1e+39 is larger than float32 holds: it would be infinite"],
    "9 ** 9 ** 9 ** 9": ["SG810 6-17 the number is larger than int64 holds"],
    "th / (n - 3)": ["SG811 7-12 `n - 3` is zero"],
    "i % 0": ["SG811 5-6 `0` is zero"],
    "1 / (th - th)": ["SG811 6-13 `th - th` is always zero"],
    "i % (i * 0)": ["SG811 6-11 `i * 0` is always zero"],
    # safety
    "__import__('os').system('id')": [
        "SG901 1-11 `__import__` is not an allowed function; expressions use declared names and the listed functions"
        " only"
    ],
    "th.__class__.__bases__": [
        "SG901 4-13 `__class__` is not an allowed function; expressions use declared names and the listed functions"
        " only"
    ],
    "eval(th)": [
        "SG901 1-5 `eval` is not an allowed function; expressions use declared names and the listed functions only"
    ],
    "os.system(th)": [
        "SG901 1-10 `os.system` is not an allowed function; expressions use declared names and the listed functions"
        " only"
    ],
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistake(text: str) -> None:
    assert mistakes(text, SCOPE, ACROBOT) == MISTAKES[text]


@pytest.mark.parametrize(
    ("text", "help"),
    [
        ("th && u", "write `and`"),
        (
            "i & 1",
            "write `and` between truth values; of integers, `k % 2` is the last bit and `k // 2` the others",
        ),
        ("i >> 1", "write `k // 2` for `k >> 1`"),
        ("i << 1", "write `k * 2` for `k << 1`"),
        ("int(th)", "did you mean 'int64'?"),
        ("float(i)", "did you mean 'float32'?"),
        ("log10(th)", "write `log(x) / log(10)`"),
        ("mod(i, 2)", "write `%`"),
        ("median(v)", "specgen's manual lists the built-in functions, in docs/language/builtins.md"),
        ("erf(th)", "specgen's manual lists the built-in functions, in docs/language/builtins.md"),
        ("sqr(th)", "did you mean 'sqrt'?"),
        ("thdo", "did you mean state 'thdot'?"),
        ("g2", "did you mean param 'g'?"),
        ("clamp(th, 0, 1)", "did you mean 'clip'?"),
        ("wherre(done, 1, 0)", "did you mean 'where'?"),
        ("v.sum()", "write sum(v)"),
        ("v[i]", "wrap it: clip(i, 0, 2)"),
        ("clip(th, lo=3)", "did you mean 'low'?"),
        ("transpose(v)", "did you mean 'permute'?"),
        ("categorical(v)", "of logits write softmax(v), of weights max(v, 0)"),
        ("poisson(th)", "write max(th, 0)"),
        ("cumsum(A)", "say axis=-1 for the last"),
        ("permute(v)", "a column is written x[:, None]"),
        (
            "zeros((2, 3, 4))[permutation(2), :, permutation(2)]",
            "bring their axes side by side first: permute(zeros((2, 3, 4)), (0, 2, 1))[i, j]",
        ),
        (
            "zeros((2, 3, 4))[0, :, permutation(2)]",
            "take the fixed ones first, in an index of their own: zeros((2, 3, 4))[0][:, i]",
        ),
        ("done * 5", "write where(done, 1.0, 0.0)"),
        ("th if u else 3", "write where(condition, then, otherwise)"),
        ("clip(th", "add the missing `)`"),
        ("th ^ 2", "a power is written `**`, and that two truth values differ `!=`"),
    ],
)
def test_help(text: str, help: str) -> None:
    sink = Sink()
    source = Text(text)
    expr = parse(source, sink)
    if expr is not None:
        infer(expr, SCOPE, source, sink)
    assert sink.items[0].help == help


@pytest.mark.parametrize(
    "text", ["(" * 300 + "th", "-" * 500 + "th", "th" + " + th" * 500, "not " * 400 + "done"]
)
def test_depth_is_limited(text: str) -> None:
    assert [found[:5] for found in mistakes(text, SCOPE)] == ["SG812"]


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("th > 0", "float32", "SG801 expression is bool, `key` is float32"),
        ("th * dt64", "float32", "SG205 `key` is float32 but its expression is float64 (from `dt64`)"),
        ("th", "int64", "SG205 `key` is int64 but its expression is float32 (from `th`)"),
        ("1.5", "int64", "SG205 `key` is int64 but its expression is float32"),
        ("300", "uint8", "SG810 300 is outside uint8 [0, 255]"),
        ("1e39", "float32", "SG810 1e+39 is larger than float32 holds: it would be infinite"),
        ("inf", "float32", None),
        ("1e39", "float64", None),
        ("th", "bool", "SG806 expression is float32, `key` is bool"),
        ("stack(th, u)", "float32[3]", "SG807 expression is float32[2], `key` is float32[3]"),
        ("v", "float32", "SG807 expression is float32[3], `key` is float32"),
        ("uniform(-1, 1)", "float32[4]", "SG809 one draw, 4 slots: `key` is float32[4]"),
        ("uniform(-1, 1) * th", "float32[2, 2]", "SG809 one draw, 4 slots: `key` is float32[2, 2]"),
        ("9", "float32 in [-8, 8]", "SG207 expression is 9, `key` is declared in [-8, 8]"),
        (
            "uniform(-10, 10)",
            "float32 in [-8, 8]",
            "SG207 expression goes from -10 to 10, `key` is declared in [-8, 8]",
        ),
        ("randint(0, 6)", "categorical(5)", "SG207 expression goes from 0 to 5, `key` is declared in [0, 4]"),
        (
            "stack(u + 9, u)",
            "float32[2] in [[-1, -2], [1, 2]]",
            "SG207 expression goes from 7 to 11, `key` is declared in [-1, 1]",
        ),
        ("th", "float32 in [-8, 8]", None),
        ("clip(th, -10, 10)", "float32 in [-8, 8]", None),
        ("uniform(-8, 8)", "float32 in [-8, 8]", None),
        ("uniform(-1, 1)", "float32[1]", None),
        ("uniform(-1, 1, shape=4)", "float32[4]", None),
        ("1", "float32", None),
        ("i", "float32", None),
        ("th", "float64", None),
        ("th * 2", "float32[4]", None),
        ("done", "bool[3]", None),
        ("2 * pi", "float32", None),
    ],
)
def test_assignment(text: str, target: str, expected: str | None) -> None:
    sink = Sink()
    source = Text(text)
    expr = parse(source, sink)
    assert expr is not None
    node = infer(expr, PENDULUM, source, sink)
    kind = parse_type(Text(target), sink)
    assert node is not None
    assert kind is not None
    sound = check_assignable(node, kind, source, sink, name="key")
    assert [f"{item.code} {item.message}" for item in sink.items] == ([] if expected is None else [expected])
    assert sound is (expected is None)
