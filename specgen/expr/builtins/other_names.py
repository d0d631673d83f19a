"""What was meant by a function that there is not: another name of a built-in, an operator, or a misspelling."""

from __future__ import annotations

import builtins
import math
from collections.abc import Collection
from typing import Final

from specgen.diagnostics import as_question, did_you_mean
from specgen.expr.builtins.table import CALLABLE

_ALIASES: Final = {
    "clamp": "clip",
    "cat": "concat",
    "concatenate": "concat",
    "hstack": "concat",
    "maximum": "max",
    "minimum": "min",
    "amax": "max",
    "amin": "min",
    "arange_like": "arange",
    "arctan2": "atan2",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "absolute": "abs",
    "fabs": "abs",
    "rand": "uniform",
    "random": "uniform",
    "randn": "normal",
    "gauss": "normal",
    "astype": "cast",
    "int": "int64",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "len": "size",
    "repeat": "tile",
    "detach": "stop_grad",
    "average": "mean",
    "range": "arange",
    "expit": "sigmoid",
    "logsigmoid": "log_sigmoid",
    "log_expit": "log_sigmoid",
    "logsoftmax": "log_softmax",
    "log_sum_exp": "logsumexp",
    "index_select": "gather",
    "take_along_dim": "gather",
    "take_along_axis": "gather",
    "masked_fill": "where",
    "relu6": "clip",
    "choice": "categorical",
    "multinomial": "categorical",
    "randperm": "permutation",
    "shuffle": "permutation",
    "transpose": "permute",
    "swapaxes": "permute",
    "movedim": "permute",
    "view": "reshape",
    "expand_dims": "unsqueeze",
    "ravel": "reshape",
    "variance": "var",
    "integers": "randint",
    "random_integers": "randint",
    "broadcast_to": "tile",
    "expand": "tile",
}
"""What other libraries call a built-in."""
_WITHOUT_FUNCTION: Final = {
    "pow": "**",
    "logical_and": "and",
    "logical_or": "or",
    "logical_not": "not",
    "logical_xor": "!=",
    "bitwise_and": "%",
    "mod": "%",
    "fmod": "%",
    "remainder": "%",
    "floor_divide": "//",
    "divide": "/",
    "add": "+",
    "sub": "-",
    "subtract": "-",
    "mul": "*",
    "multiply": "*",
    "trunc": "int64(x)",
    "log2": "log(x) / log(2)",
    "log10": "log(x) / log(10)",
    "degrees": "x * 180 / pi",
    "radians": "x * pi / 180",
    "hypot": "norm(stack(a, b))",
    "isclose": "abs(a - b) < 1e-6",
    "relu": "max(x, 0)",
    "rsqrt": "1 / sqrt(x)",
    "reciprocal": "1 / x",
    "neg": "-",
    "negative": "-",
    "eq": "==",
    "equal": "==",
    "ne": "!=",
    "not_equal": "!=",
    "gt": ">",
    "greater": ">",
    "ge": ">=",
    "lt": "<",
    "less": "<",
    "le": "<=",
    "logaddexp": "logsumexp(stack(a, b), axis=0)",
    "isinf": "not isfinite(x)",
}
"""What is said without a function."""
_TORCH_FUNCTIONS: Final = (
    "topk unique nonzero einsum solve inv det sinc sinh cosh erf median quantile diff interp histc cross kron trace "
    "diag fft"
)
_PYTHON_OR_TORCH: Final = frozenset({*dir(builtins), *dir(math), *_TORCH_FUNCTIONS.split()})
"""Functions that people know by name, from Python or torch."""
_DISTANCES: Final = {
    "mse_loss": "l2",
    "l1_loss": "l1",
    "smooth_l1_loss": "smooth_l1",
    "huber_loss": "smooth_l1",
}
"""What torch calls the kinds of `distance`, a function of losses."""
_SEE_MANUAL: Final = "specgen's manual lists the built-in functions, in docs/language/builtins.md"


def same_elsewhere(name: str) -> str | None:
    """The built-in that other libraries call so, under its own name or another; None if there is none."""
    return name if name in CALLABLE else _ALIASES.get(name)


def meant_function(name: str, own: Collection[str]) -> str:
    """What to say of a call of `name`, which is neither a built-in nor one of the declared functions `own`."""
    if (near := did_you_mean(name, own)) is not None:
        return as_question(near)
    if name in _DISTANCES and "distance" in own:
        return f"write distance(…, …, {_DISTANCES[name]})"
    if name in _WITHOUT_FUNCTION:
        return f"write `{_WITHOUT_FUNCTION[name]}`"
    # a function that Python or torch has is no misspelling of another
    best = _ALIASES.get(name) or (None if name in _PYTHON_OR_TORCH else did_you_mean(name, CALLABLE))
    return as_question(best) if best else _SEE_MANUAL
