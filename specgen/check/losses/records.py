"""Values that stand for others: several entries that a network writes, which is a record; what a network reads instead of data."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.losses.distributions import DISTRIBUTION_FUNCTIONS, UNTYPED
from specgen.check.losses.forward import Forward
from specgen.check.losses.model import LossNetwork
from specgen.check.losses.values import ForwardValues
from specgen.diagnostics import Rule, suggestion
from specgen.diagnostics.rules import loss_values as value_rules
from specgen.diagnostics.rules.loss_conditions import RECORD
from specgen.expr import Type, tree
from specgen.expr.tree import Expr
from specgen.expr.types import Distribution, Record


def outputs_of_names(expr: Expr, values: ForwardValues) -> Expr:
    """The expression with `state.mean` as an output of `state`, where that is a record."""

    def change(part: Expr) -> Expr:
        if not isinstance(part, tree.Name):
            return part
        name, _, output = part.path.partition(".")
        made = values.made(name) if output else None
        if made is None or not isinstance(made.type, Record):
            return part
        end = part.start + len(name)
        return tree.output_of(tree.Name(name, part.start, end), output, end + 1, part.end)

    return tree.changed(expr, change)


def no_output(written: str, type: Type, role: str) -> tuple[str, str | None] | None:
    """What is wrong with `role` as an output of what is `written`, and what to write; None where nothing is."""
    if not isinstance(type, Record):
        return f"`{written}` is not several outputs, it is {type}", f"write {written}"
    known = [name for name, _ in type.fields]
    if role in known:
        return None
    return f"`{written}` has no output `{role}`", suggestion(role, known) or f"it has {', '.join(known)}"


def not_a_value(
    written: str, made: Forward, networks: Mapping[str, LossNetwork]
) -> tuple[Rule, str, str] | None:
    """The rule, what is wrong where numbers are meant, and what to write; None of numbers."""
    if isinstance(made.type, Record):
        return RECORD, *_several(written, made.type)
    if made.inner:
        help = f"write one of {', '.join(DISTRIBUTION_FUNCTIONS)} of it"
        return value_rules.DISTRIBUTION, f"`{written}` is a distribution, not a value", help
    if made.type.dtype != UNTYPED.dtype or made.replaced:
        return None
    role = networks[made.network].output
    help = f'say what its numbers are: `{role}: {{key: {role}, type: "float32[a]"}}`'
    message = (
        f"`{written}` is a value of `{role}`, which has no type, so that nothing can be computed with it"
    )
    return value_rules.DISTRIBUTION, message, help


def _several(written: str, record: Record) -> tuple[str, str]:
    known = [name for name, _ in record.fields]
    message = f"`{written}` is several outputs, {', '.join(known)}, not a value"
    return message, f"write {written}.{known[0]}"


def alike(one: Type, other: Type) -> bool:
    """Whether a choice between two values has one type."""
    fields = [type.fields if isinstance(type, Record) else () for type in (one, other)]
    return (one.dtype, one.dims, one.axes, fields[0]) == (other.dtype, other.dims, other.axes, fields[1])


def misfit(role: str, wanted: Type, type: Type, written: str) -> tuple[str, str | None] | None:
    """What is wrong with a value that a network is to read as `role`, and what to write; None where nothing is."""
    if isinstance(type, Record):
        return _several(written, type)
    if UNTYPED.dtype in (type.dtype, wanted.dtype):
        return None
    if "ensemble" in map(str, type.axes):
        help = "say what of `ensemble` is meant: sum, mean or min with axis=ensemble"
        return f"`{role}` is one value per sample, `{written}` is {type}", help
    if (type.dtype, len(type.dims)) == (wanted.dtype, len(wanted.dims)):
        return None
    kind = "a distribution" if isinstance(type, Distribution) else type
    return f"`{role}` is {wanted}, `{written}` is {kind}", None
