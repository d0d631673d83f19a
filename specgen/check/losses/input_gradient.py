"""`gradient(y, x, …)`: the derivative of what a network gives to values that it reads in the place of data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from specgen.check.losses.distributions import UNTYPED
from specgen.check.losses.forward import ForwardValue, Gradient, NetworkCall
from specgen.check.losses.values import ForwardValues, logical
from specgen.expr import SourceText, Type, tree
from specgen.expr.dtypes import is_float
from specgen.expr.sizes import Axis
from specgen.expr.tree import Expr
from specgen.expr.types import Distribution, Record
from specgen.values import dataclass

GRADIENT: Final = "gradient"
"""How the function is called."""


def is_gradient(call: tree.Call) -> bool:
    """Whether a call is of this function."""
    return call.function.path == GRADIENT


@dataclass(frozen=True)
class WrongGradient:
    """What is wrong with a call: where, and what is said."""

    at: Expr
    message: str
    help: str | None = None


def gradient_of(
    call: tree.Call,
    source: SourceText,
    values: ForwardValues,
    read_call: Callable[[tree.Call], tuple[ForwardValue, tuple[Expr, ...]] | None],
) -> tuple[Gradient, tuple[Expr, ...]] | WrongGradient | None:
    """The derivative that a call asks for, and the expressions that compute what its network reads.

    Args:
        call: the call; its first argument is known to be a call of a network where it is one.
        source: its text.
        values: what is known of the values of the class.
        read_call: reads the call of the network; None after reporting a mistake, and then None is returned.
    """
    if len(call.args) < 2 or call.keywords:
        return WrongGradient(call, "`gradient` is called as gradient(y, x, …)")
    of, *inputs = call.args
    if not isinstance(of, tree.Call) or of.function.path.partition(".")[0] not in values.networks:
        written = source.text[of.start : of.end]
        message = f"the gradient is of what a network gives, `{written}` is no call of one"
        return WrongGradient(of, message, "write gradient(critic(now, action=x), x)")
    wrong = _not_a_number(of, values)
    if wrong is not None:
        return wrong
    found: list[str] = []
    for value in inputs:
        role = _role(value, of, found, source, values.roles, several=len(inputs) > 1)
        if isinstance(role, WrongGradient):
            return role
        found.append(role)
    read = read_call(of)
    if read is None:
        return None
    run, computed = read
    assert isinstance(run, NetworkCall)
    gradient = Gradient(run, tuple(found))
    return _of_other_draws(gradient, of, values) or (gradient, computed)


def _not_a_number(of: tree.Call, values: ForwardValues) -> WrongGradient | None:
    network = values.networks[of.function.path.partition(".")[0]]
    type = network.value
    if not isinstance(type, Distribution | Record) and type.dims == ():
        return None
    message = f"the gradient is of one number for each sample, `{network.name}` gives {type}"
    return WrongGradient(of, message)


def _of_other_draws(gradient: Gradient, of: tree.Call, values: ForwardValues) -> WrongGradient | None:
    """Refuse the derivative of what is one number for each draw to what is not, or the other way round."""
    draws = _draws(values.type_of(gradient.of))
    for role, value in gradient.of.replaced:
        if role in gradient.to and _draws(values.type_of(value)) != draws:
            message = f"`{gradient.of.network}` gives a number for each draw, and there is one `{role}` for all of them"
            return WrongGradient(of, message, "ask for the gradient to what is drawn")
    return None


def _draws(type: Type) -> list[Axis]:
    return [axis for axis in type.axes if axis.name == "draw"]


def _role(
    value: Expr,
    of: tree.Call,
    before: list[str],
    source: SourceText,
    roles: Mapping[str, Type | None],
    *,
    several: bool,
) -> str | WrongGradient:
    """The role that one of the values has in the call."""
    written = source.text[value.start : value.end]
    called = source.text[of.start : of.end]
    named = isinstance(value, tree.Name)
    read = [
        one.name
        for one in of.keywords
        if named and isinstance(one.value, tree.Name) and one.value.path == written
    ]
    if not read:
        message = f"`{called}` does not read `{written}`"
        given = ", ".join(one.value.path for one in of.keywords if isinstance(one.value, tree.Name))
        help = (
            f"it reads {given}" if given else "give values names, and the call these: critic(now, action=x)"
        )
        return WrongGradient(value, message, help)
    if len(read) > 1 or read[0] in before:
        return WrongGradient(value, f"`{written}` is read, or asked for, twice")
    type = logical(roles.get(read[0]))
    if type.dtype == UNTYPED.dtype:
        return WrongGradient(value, f"`{read[0]}` has no type", f"say it under `keys`: `{read[0]}`")
    if not is_float(type.dtype):
        return WrongGradient(value, f"a gradient is to floating-point numbers, `{read[0]}` is {type}")
    if several and (type.open or len(type.dims) != 1):
        message = f"gradients to several values are vectors one behind the other, `{read[0]}` is {type}"
        return WrongGradient(value, message, "ask for each by itself")
    return read[0]
