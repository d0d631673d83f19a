"""The functions of distributions that losses call: what they take, and the types of what they give."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final, Literal

from specgen.diagnostics import did_you_mean
from specgen.expr import Type
from specgen.expr.builtins.table import CALLABLE
from specgen.expr.sizes import Axis, Sym, merged_axes
from specgen.expr.tree import Call
from specgen.expr.types import Distribution
from specgen.values import dataclass, replace

UNTYPED = Type("value without a type")
"""What the data hold under a key without a type, or is drawn for it: it can be scored and handed to networks."""


PARTS: Final = Sym.named("n_parts")
"""How many parts an action has."""


@dataclass(frozen=True)
class Signature:
    """A function of a distribution.

    Attributes:
        written: how it is called.
        takes: what it takes besides the distribution: `value`, which is scored, or `distribution`.
        counts: whether it takes the number `n` of draws.
    """

    written: str
    takes: tuple[str, ...] = ()
    counts: bool = False


DISTRIBUTION_FUNCTIONS = {
    "log_prob": Signature("log_prob(d, x)", ("value",)),
    "rsample": Signature("rsample(d)", counts=True),
    "sample": Signature("sample(d)", counts=True),
    "mode": Signature("mode(d)"),
    "entropy": Signature("entropy(d, n=1)", counts=True),
    "entropies": Signature("entropies(d, n=1)", counts=True),
    "kl": Signature("kl(p, q, n=1)", ("distribution",), counts=True),
    "probs": Signature("probs(d)"),
    "log_probs": Signature("log_probs(d)"),
    "answered": Signature("answered(d)"),
}
"""The functions of distributions, by their names."""

DRAWS: Final[dict[str, Literal["rsample", "sample"]]] = {"rsample": "rsample", "sample": "sample"}
"""Those that draw from it."""


def is_of_distribution(call: Call) -> bool:
    """Whether a call is of one of these functions."""
    return call.function.path in DISTRIBUTION_FUNCTIONS


def meant_function(name: str, known: Container[str]) -> str | None:
    """How the function of distributions is called that an unknown name was meant for; None for a known or another one."""
    first, _, last = name.rpartition(".")
    if first and last in DISTRIBUTION_FUNCTIONS:
        signature = DISTRIBUTION_FUNCTIONS[last]
        return f"{last}({', '.join([first, *('…' for _ in signature.takes)])})"
    near = None if first or name in CALLABLE or name in known else did_you_mean(name, DISTRIBUTION_FUNCTIONS)
    return None if near is None else DISTRIBUTION_FUNCTIONS[near].written


def policy_type(event: Type | None, actions: Sym | int | None) -> Distribution:
    """The type of what a policy gives: a distribution over a role.

    Args:
        event: the type of the role; None where it has none.
        actions: the number of its actions, where the role is a discrete action that a network values.
    """
    if actions is not None:
        return Distribution(family="categorical", event=UNTYPED, dims=(actions,))
    return Distribution(family="policy", event=UNTYPED if event is None else replace(event, col=False))


def result_type(
    function: str, distribution: Distribution, given: Sequence[Type], drawn: tuple[Axis, ...]
) -> Type:
    """The type of a function of a distribution and of what else it is given; draws may have an axis of their own."""
    axes = merged_axes(distribution.axes, *(one.axes for one in given))
    if function in DRAWS:
        return replace(distribution.event, axes=merged_axes(axes, drawn))
    if function == "mode":
        return replace(distribution.event, axes=axes)
    if function in ("probs", "log_probs"):
        return Type("float32", distribution.dims or (Sym.named("n_actions"),), axes=axes)
    if function == "entropies":
        return Type("float32", (PARTS,), axes=axes)
    return Type("bool" if function == "answered" else "float32", axes=axes)
