"""Parameters of a loss that are buffers, and the bounds of roles: how its constructor makes and its methods read them."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.losses.coefficients import AUTO
from specgen.check.losses.conditions import condition_text
from specgen.check.losses.forward import Choice, parts_of
from specgen.check.losses.model import CheckedLoss
from specgen.check.losses.numbers import Coefficient, ParamRead
from specgen.check.losses.updates import NEXT
from specgen.check.model import Parameter, Statement
from specgen.code import Code, using
from specgen.expr import Symbol, Typed
from specgen.literals import literal
from specgen.plan.losses.conditions import where_needed
from specgen.plan.losses.model import CoefficientPlan, LossParamPlan
from specgen.plan.losses.numbers import number_read, read_where
from specgen.plan.model import RefusalPlan, Text
from specgen.plan.per_env import optional_annotation
from specgen.program.conditions import ALWAYS, Condition, condition_of
from specgen.program.torch_text import print_expression
from specgen.values import replace


def param_plan(loss: CheckedLoss, param: Parameter) -> LossParamPlan:
    """A parameter as the constructor takes it, and the attribute that it becomes."""
    kept = loss.coefficients.get(param.name)
    taken, attribute = optional_annotation(param), optional_annotation(param)
    attributes: tuple[tuple[str, Text], ...] = ((param.name, attribute),)
    if kept is not None:
        may_lack = param.optional and not kept.filled
        read, uses = "Tensor | None" if may_lack else "Tensor", ["Coefficient", "Tensor"]
        assigned = "PartWeights | float" if kept.by_part else "float"
        attribute = using(
            f"Coefficient[{read}, {assigned}]", *uses, *(["PartWeights"] if kept.by_part else [])
        )
        names = [] if kept.name in loss.properties or kept.apart else [param.name]
        attributes = tuple((name, attribute) for name in (*names, *(one.symbol.name for one in kept.parts)))
        if param.default == AUTO:
            taken = using(f'{taken} | Literal["auto"]', "Literal", *taken.uses)
        if kept.parts:
            taken = using(f"{taken} | tuple[float, float]", *taken.uses)
        if kept.by_part:
            taken = using(f"PartWeights | {taken}", "PartWeights", *taken.uses)
        if kept.true_is is not None:
            taken = using(f"bool | {taken}", *taken.uses)
    made = LossParamPlan(param.name, taken, param.default, attributes, param.name in loss.fixed)
    return (
        made
        if made.fixed
        else replace(made, read=number_read(param, kept), read_where=read_where(loss, param))
    )


def asked(loss: CheckedLoss) -> tuple[tuple[str, str], ...]:
    """The parameters of which conditions ask whether they were not 0, with the attributes that say so."""
    conditions = [*loss.when.values(), *(role.when for role in loss.roles if role.when is not None)]
    conditions += [
        statement.typed for statement in (*loss.let, *loss.terms, *loss.metrics, *loss.writes, *loss.update)
    ]
    choices = (part for made in loss.forward for part in parts_of(made.value))
    conditions += [part.typed for part in choices if isinstance(part, Choice) and part.typed is not None]
    read = frozenset[Symbol]().union(*(typed.symbols_read for typed in conditions))
    return tuple((one.name, one.nonzero.name) for one in loss.coefficients.values() if one.nonzero in read)


def param_argument(
    loss: CheckedLoss, one: ParamRead, *, given: bool = False, needed: Condition = ALWAYS
) -> Code:
    """What a parameter is for the pure function, as an argument by keyword.

    Args:
        loss, one: the parameter.
        given: whether one that may be None is known to be there.
        needed: when it is needed; one that may be known late is read then only.
    """
    if one.late:
        value = where_needed(loss, needed, Code(f"self.{one.name}"))
        return using(f"{one.name}={value}", *value.uses)
    if one.part:
        read = f"coefficient_part(self, {literal(one.param.name)}, {literal(one.part)})"
        return using(f"{one.name}={read}", "coefficient_part")
    if one.tensor and one.param.name in map(updated, loss.update):
        # what it becomes is written into the buffer, which the backward pass still reads
        kept = f"not_none(self.{one.name})" if one.absent else f"self.{one.name}"
        return using(f"{one.name}={kept}.clone()", *(["not_none"] if one.absent else []))
    if given:
        return using(f"{one.name}=not_none(self.{one.name})", "not_none")
    return Code(f"{one.name}=self.{one.name}")


def order_of_parts(loss: CheckedLoss) -> tuple[Code, ...]:
    """The argument by which the parts of an action stand as a parameter weighs them; none where no parameter does."""
    names = [one.name for one in loss.coefficients.values() if one.by_part]
    return tuple(using(f"parts=parts_of(self, {literal(name)})", "parts_of") for name in names)


def updated(statement: Statement) -> str:
    """The parameter that an entry of `update` changes."""
    return statement.target.removeprefix(NEXT)


def in_constructor(loss: CheckedLoss, typed: Typed) -> Code:
    """A condition as the constructor says it, where buffers are still the numbers that were given."""
    names = {one.nonzero: one.name for one in loss.coefficients.values()}
    return print_expression(typed, lambda symbol: names.get(symbol, symbol.name))


KEYWORDS = {
    "action_spec": "the spec of `{}`, or a composite that holds it.",
    "bounds": "the lowest and the highest value of `{}`, instead of its spec.",
}
"""What the keywords of domains say of a role."""


def param_doc(loss: CheckedLoss, param: Parameter) -> str:
    """What the constructor's docstring says of a parameter."""
    limits = "".join(f", {sign} {bound:g}" for sign, bound in param.range)
    kept = loss.coefficients.get(param.name)
    auto = f", which is {_said(loss, kept)}" if kept is not None and kept.auto is not None else ""
    if auto and kept is not None and kept.auto_when is not None:
        auto += f" where {condition_text(condition_of(kept.auto_when))}"
    what = f"{param.doc or optional_annotation(param)}".rstrip()
    what = what if what.endswith((".", "!", "?")) else f"{what}."
    return f"{what} Defaults to {literal(param.default)}{auto}{limits}."


def _said(loss: CheckedLoss, one: Coefficient) -> str:
    """What "auto" stands for, as it is declared."""
    sizes = {domain.size: domain.role for domain in loss.domains}
    assert one.auto is not None
    return print_expression(
        one.auto, lambda symbol: f"dim({sizes[symbol]})" if symbol in sizes else symbol.name
    ).text


def read_annotation(one: ParamRead, *, given: bool = False, needed: Condition = ALWAYS) -> Code:
    """What the pure function takes of a parameter; see `param_argument`."""
    if one.asks:
        return Code("bool")
    if not one.tensor:
        return optional_annotation(replace(one.param, optional=False) if given else one.param)
    absent = (one.absent and not given) or (one.late and needed != ALWAYS)
    return using("Tensor | None" if absent else "Tensor", "Tensor")


def needs_of_auto(loss: CheckedLoss) -> Iterator[RefusalPlan]:
    """The refusals of "auto" where a parameter is None that it is computed from."""
    optional = [param.name for param in loss.params if param.optional]
    defaults = {param.name: param.default for param in loss.params}
    for one in loss.coefficients.values():
        reads = {symbol.name for symbol in one.auto.symbols_read} if one.auto is not None else set()
        if defaults[one.name] != AUTO:
            continue
        for name in (each for each in optional if each in reads):
            message = literal(f'{one.name}="auto" needs {name}')
            yield RefusalPlan(f'{one.name} == "auto" and {name} is None', message)


def coefficient_plan(loss: CheckedLoss, one: Coefficient) -> CoefficientPlan:
    """A parameter that is a buffer."""
    doc: tuple[str, ...] = (f"The buffer `{one.state}`.",) if one.name in loss.properties else ()
    parts = tuple(part.name for part in one.parts)
    given = using(f"as_pair({one.name}, {literal(one.name)})", "as_pair") if one.apart else one.name
    made = CoefficientPlan(
        one.name,
        one.state,
        "",
        False,
        doc,
        given,
        parts=parts,
        true_is=one.true_is or "",
        adapted=one.name in map(updated, loss.update),
        by_part=one.by_part,
    )
    if one.auto is None:
        return made
    owner = "self." if one.of_domain else ""
    sizes = {domain.size: domain.role for domain in loss.domains}

    optional = {param.name for param in loss.params if param.optional}

    def read(symbol: Symbol) -> str:
        if symbol not in sizes:
            name = f"{owner}{symbol.name}"
            return f"not_none({name})" if symbol.name in optional else name
        role = sizes[symbol]
        domain = next(one for one in loss.domains if one.role == role)
        network = f"self.{domain.network}" if domain.network is not None else "None"
        spec = "self._action_spec" if "action_spec" in domain.keywords else "None"
        return f"action_size(self, {literal(role)}, self.tensor_keys.{role}, {spec}, {network})"

    printed = print_expression(one.auto, read)
    uses = [*printed.uses, *(["action_size"] if sizes.keys() & set(one.auto.symbols_read) else [])]
    uses += ["not_none"] if optional & {symbol.name for symbol in one.auto.symbols_read} else []
    if one.of_domain:
        doc = (
            f'The buffer `{one.state}`; "auto" stands for {_said(loss, one)}.',
            "",
            "Raises:",
            "    RuntimeError: if that is wanted, and nobody says what is needed of the spec.",
        )
    auto = using(printed.text, *uses)
    if next(param for param in loss.params if param.name == one.name).default != AUTO:
        unless = "" if one.auto_when is None else f" and {in_constructor(loss, one.auto_when)}"
        return replace(made, none_is=auto, none_where=f"{one.name} is None{unless}")
    return replace(made, auto=auto, settled=one.of_domain, doc=doc)
