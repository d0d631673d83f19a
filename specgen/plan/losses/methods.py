"""Methods of a loss: those that compute one term of the data, and those that compute something of values that they are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specgen.check.losses.forward import Alias
from specgen.check.losses.given_values import given_names, of_given
from specgen.check.losses.model import CheckedLoss
from specgen.check.programs.loss import given_symbols, method_part
from specgen.code import Code, named, using
from specgen.expr import Type
from specgen.expr.types import Distribution
from specgen.plan.docs import hanging, wrapped
from specgen.plan.losses.conditions import where_needed
from specgen.plan.losses.facts import tensor_text
from specgen.plan.losses.forward import ForwardPrinter
from specgen.plan.losses.model import MethodPlan
from specgen.plan.losses.part_class import held_by_loss
from specgen.plan.losses.parts import PartArguments, part_arguments
from specgen.plan.model import Argument, CallPlan, Text
from specgen.values import replace


def given_methods(loss: CheckedLoss) -> dict[str, PartArguments]:
    """The methods that are given values, by name, with what their pure functions take."""
    return {
        name: part_arguments(loss, method_part(loss, name), alone=False)
        for name, method in loss.methods.items()
        if method.given
    }


def has_function(part: PartArguments) -> bool:
    """Whether a method has a pure function behind it: not if all that it returns is a read of a distribution."""
    return bool(part.part.program.body)


def method_plan(
    loss: CheckedLoss, name: str, parts: Sequence[PartArguments], given: PartArguments | None
) -> MethodPlan:
    """A method that computes a term, or a value.

    Args:
        loss: the loss.
        name: of the method.
        parts: the parts of the loss.
        given: what its pure function takes, where it is given values.
    """
    method = loss.methods[name]
    overrides = _overrides(loss, name)
    if given is None:
        doc = tuple(_doc_with_metrics(loss, parts, method.computes))
        return MethodPlan(name, method.computes, doc, overrides=overrides)
    stands_for = dict(zip(given_symbols(loss, name), method.arguments, strict=True))
    types = {made.name: made.type for made in loss.forward}
    own = {one: _argument(argument, types[one]) for one, argument in given_names(loss, name).items()}
    computed = of_given(loss, [made.name for made in given.values], own).computed
    printer = ForwardPrinter(
        replace(loss, forward=computed), given.needed, given.part.trained, given.values, own
    )
    returns: CallPlan | Text
    if has_function(given):
        values = [
            stands_for.get(made.symbol)
            or where_needed(loss, given.needed(made.symbol), printer.argument(made))
            for made in given.values
        ]
        values += [stands_for[one] for one in given.lets]
        returns = CallPlan(given.part.program.name, (*values, *held_by_loss(loss, given)))
    else:
        returns = printer.value(Alias(given.part.program.outputs[0].symbol.name))
    return MethodPlan(
        name,
        method.computes,
        tuple(_doc_of_given(loss, name)),
        tuple(
            Argument(argument, named("Distribution" if isinstance(one.type, Distribution) else "Tensor"))
            for argument, one in method.given
        ),
        bool(computed) and not name.endswith("loss"),
        tuple(printer.lines()),
        returns,
        method.column,
        method.value is None and method.computes in loss.when,
        overrides,
    )


def _argument(name: str, type: Type) -> Code:
    """An argument as the values of the class are computed of it."""
    return using(f"given_policy({name})", "given_policy") if isinstance(type, Distribution) else Code(name)


def _overrides(loss: CheckedLoss, name: str) -> str:
    """What type checkers are told of a method that the class above has with other arguments; else nothing."""
    above = dict(loss.parent.methods if loss.parent is not None else ()).get(name)
    arguments = loss.methods[name].arguments
    if above is None or above == arguments:
        return ""
    if len(above) == len(arguments):
        return "  # pyright: ignore[reportIncompatibleMethodOverride]"
    return "  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]"


def _doc_with_metrics(loss: CheckedLoss, parts: Sequence[PartArguments], term: str) -> Iterator[str]:
    """That of a method that computes one term."""
    names = {metric.name for metric in loss.metrics}
    part = next(part for part in parts if term in part.part.outputs)
    metrics = ", ".join(f"`{name}`" for name in part.part.outputs if name in names)
    yield from wrapped(
        f"The term `{term}`, reduced, and the metrics that are computed with it: {metrics or 'none'}."
    )
    yield ""
    yield "Raises:"
    yield "    KeyError: if something that they read is missing."
    if term in loss.when:
        yield "    ValueError: if the parameters of the loss leave the term out."


def _doc_of_given(loss: CheckedLoss, name: str) -> Iterator[str]:
    """That of a method that is given values."""
    method = loss.methods[name]
    behind = ", with a trailing 1" if method.column else ""
    if method.value is None:
        yield f"The term `{method.computes}` of each sample, before the reduction{behind}."
    else:
        yield f"`{method.computes}` of each sample{behind}."
    yield ""
    yield "Args:"
    networks = {made.symbol: made.network for made in loss.forward}
    for argument, symbol in method.given:
        is_distribution = isinstance(symbol.type, Distribution)
        what = f"a distribution of `{networks[symbol]}`" if is_distribution else tensor_text(symbol.type)
        yield from hanging(f"{argument}: `{symbol.name}`, {what}.")
    if method.value is None and method.computes in loss.when:
        yield ""
        yield "Raises:"
        yield "    ValueError: if the parameters of the loss leave the term out."
