"""Parameters of a loss that are buffers, and the bounds of roles: how its constructor makes and its methods read them."""

from __future__ import annotations

from dataclasses import replace

from specgen.check.losses.model import CheckedLoss, Coefficient
from specgen.check.model import Parameter
from specgen.code import Code, using
from specgen.expr import Symbol
from specgen.literals import literal
from specgen.plan.losses.model import CoefficientPlan, LossParamPlan
from specgen.plan.model import Text
from specgen.plan.per_env import optional_annotation
from specgen.program.torch_text import print_expression


def param_plan(loss: CheckedLoss, param: Parameter) -> LossParamPlan:
    """A parameter as the constructor takes it, and the attribute that it becomes."""
    kept = loss.coefficients.get(param.name)
    taken = optional_annotation(param)
    attribute: Text = read_annotation(loss, param)
    if kept is not None and kept.auto is not None:
        taken = using(f'{taken} | Literal["auto"]', "Literal", *taken.uses)
    if kept is not None and kept.state != kept.name:
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


def read_annotation(loss: CheckedLoss, param: Parameter, *, given: bool = False) -> Code:
    """What the pure function takes of a parameter, which may be optional and known to be given."""
    if given:
        param = replace(param, optional=False)
    if param.name not in loss.coefficients:
        return optional_annotation(param)
    return using("Tensor | None" if param.optional else "Tensor", "Tensor")


def coefficient_plan(loss: CheckedLoss, one: Coefficient) -> CoefficientPlan:
    """A parameter that is a buffer."""
    doc: tuple[str, ...] = (f"The buffer `{one.state}`.",) if one.state != one.name else ()
    if one.auto is None:
        return CoefficientPlan(one.name, one.state, "", False, doc)
    owner = "self." if one.of_domain else ""
    sizes = {domain.size: domain.role for domain in loss.domains}

    def read(symbol: Symbol) -> str:
        if symbol not in sizes:
            return f"{owner}{symbol.name}"
        role = sizes[symbol]
        network = next((f"self.{one.name}" for one in loss.networks if one.output == role), "None")
        return f"action_size(self, {literal(role)}, self.tensor_keys.{role}, self._action_spec, {network})"

    printed = print_expression(one.auto, read)
    uses = [*printed.uses, *(["action_size"] if sizes.keys() & set(one.auto.symbols_read) else [])]
    if one.of_domain:
        doc = (
            f'The buffer `{one.state}`; "auto" stands for {_said(loss, one)}.',
            "",
            "Raises:",
            "    RuntimeError: if that is wanted, and nobody says what is needed of the spec.",
        )
    return CoefficientPlan(one.name, one.state, using(printed.text, *uses), one.of_domain, doc)
