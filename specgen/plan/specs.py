"""A named spec as a function that makes the spec object."""

from __future__ import annotations

from specgen.check.specs import CheckedSpec
from specgen.code import named, using
from specgen.plan.docs import wrapped
from specgen.plan.model import Argument, FunctionPlan, Line
from specgen.plan.short_texts import domain_text
from specgen.plan.spec_text import spec_code


def plan_spec(checked: CheckedSpec) -> FunctionPlan:
    """Plan `def joint_spec(device=None) -> Bounded`, which makes a new object at each call."""
    code = spec_code(checked.spec, device="device")
    contract = f"{checked.spec}{domain_text(checked.spec)}"
    lines = wrapped(checked.doc) if checked.doc else [f"The spec `{checked.name}`."]
    args = "Args:", "    device: where its tensors live; torch's default device if None."
    return FunctionPlan(
        checked.function,
        (Argument("device", using("DEVICE_TYPING | None", "DEVICE_TYPING"), "None"),),
        named(code.cls),
        (*lines, "", f"Its tensors are {contract}.", "", *args),
        (Line(f"return {code}"),),
        uses=code.uses,
    )
