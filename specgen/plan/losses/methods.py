"""Methods of a loss that compute one term, from the data or from values that they are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specgen.check.losses.model import CheckedLoss
from specgen.check.programs.loss import given_symbols, method_part
from specgen.code import named
from specgen.plan.docs import hanging, wrapped
from specgen.plan.losses.facts import tensor_text
from specgen.plan.losses.model import MethodPlan
from specgen.plan.losses.part_class import held_by_loss
from specgen.plan.losses.parts import PartArguments, part_arguments
from specgen.plan.model import Argument, CallPlan


def given_methods(loss: CheckedLoss) -> dict[str, PartArguments]:
    """The methods that are given values, by name, with what their pure functions take."""
    return {
        name: part_arguments(loss, method_part(loss, name), alone=False)
        for name, method in loss.methods.items()
        if method.given
    }


def method_plan(
    loss: CheckedLoss, name: str, parts: Sequence[PartArguments], given: PartArguments | None
) -> MethodPlan:
    """A method that computes a term.

    Args:
        loss: the loss.
        name: of the method.
        parts: the parts of the loss.
        given: what its pure function takes, where it is given values.
    """
    method = loss.methods[name]
    overrides = _overrides(loss, name)
    if given is None:
        doc = tuple(_doc_with_metrics(loss, parts, method.term))
        return MethodPlan(name, method.term, doc, overrides=overrides)
    arguments = method.arguments
    stands_for = dict(zip(given_symbols(loss, name), arguments, strict=True))
    values = (*(made.symbol for made in given.values), *given.lets)
    call = CallPlan(
        given.part.program.name, (*(stands_for[one] for one in values), *held_by_loss(loss, given))
    )
    return MethodPlan(
        name,
        method.term,
        tuple(_doc_of_given(loss, name)),
        tuple(Argument(argument, named("Tensor")) for argument in arguments),
        call,
        method.term in loss.when,
        overrides,
    )


def _overrides(loss: CheckedLoss, name: str) -> str:
    """What type checkers are told of a method that the class above has with other arguments; else nothing."""
    above = dict(loss.parent.methods if loss.parent is not None else ()).get(name)
    arguments = loss.methods[name].arguments
    if above is None or above == arguments:
        return ""
    named_anew = "  # pyright: ignore[reportIncompatibleMethodOverride]"
    return named_anew if len(above) == len(arguments) else f"  # type: ignore[override]{named_anew}"


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
    yield f"The term `{method.term}` of each sample, before the reduction."
    yield ""
    yield "Args:"
    for argument, symbol in method.given:
        yield from hanging(f"{argument}: `{symbol.name}`, {tensor_text(symbol.type)}.")
    if method.term in loss.when:
        yield ""
        yield "Raises:"
        yield "    ValueError: if the parameters of the loss leave the term out."
