"""Parameters of a loss that are buffers, and the bounds of roles: how its constructor makes and its methods read them."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.losses.model import CheckedLoss, Coefficient
from specgen.check.model import Parameter
from specgen.code import Code, using
from specgen.expr import Symbol
from specgen.literals import literal
from specgen.plan.losses.model import CoefficientPlan, LossParamPlan
from specgen.plan.model import RefusalPlan, Text
from specgen.plan.per_env import optional_annotation
from specgen.program.torch_text import print_expression


def param_plan(loss: CheckedLoss, param: Parameter) -> LossParamPlan:
    """A parameter as the constructor takes it, and the attribute that it becomes."""
    kept = loss.coefficients.get(param.name)
    taken = optional_annotation(param)
    attribute: Text = read_annotation(loss, param)
    if kept is not None and kept.auto is not None:
        taken = using(f'{taken} | Literal["auto"]', "Literal", *taken.uses)
    if kept is not None and kept.name in loss.properties:
        attribute = ""
    return LossParamPlan(param.name, taken, param.default, attribute, param.name in loss.fixed)


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
    what = param.doc or f"{optional_annotation(param)}."
    return f"{what} Defaults to {literal(param.default)}{auto}{limits}."


def _said(loss: CheckedLoss, one: Coefficient) -> str:
    """What "auto" stands for, as it is declared."""
    sizes = {domain.size: domain.role for domain in loss.domains}
    assert one.auto is not None
    return print_expression(
        one.auto, lambda symbol: f"dim({sizes[symbol]})" if symbol in sizes else symbol.name
    ).text


def read_annotation(loss: CheckedLoss, param: Parameter) -> Code:
    """What the pure function takes of a parameter."""
    if param.name not in loss.coefficients:
        return optional_annotation(param)
    return using("Tensor | None" if param.optional else "Tensor", "Tensor")


def needs_of_auto(loss: CheckedLoss) -> Iterator[RefusalPlan]:
    """The refusals of "auto" where a parameter is None that it is computed from."""
    optional = [param.name for param in loss.params if param.optional]
    for one in loss.coefficients.values():
        reads = {symbol.name for symbol in one.auto.symbols_read} if one.auto is not None else set()
        for name in (each for each in optional if each in reads):
            message = literal(f'{one.name}="auto" needs {name}')
            yield RefusalPlan(f'{one.name} == "auto" and {name} is None', message)


def coefficient_plan(loss: CheckedLoss, one: Coefficient) -> CoefficientPlan:
    """A parameter that is a buffer."""
    doc: tuple[str, ...] = (f"The buffer `{one.state}`.",) if one.name in loss.properties else ()
    if one.auto is None:
        return CoefficientPlan(one.name, one.state, "", False, doc)
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
    return CoefficientPlan(one.name, one.state, using(printed.text, *uses), one.of_domain, doc)
