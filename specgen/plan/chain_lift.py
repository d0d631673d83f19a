"""Lifting a Gymnasium chain over time."""

from __future__ import annotations

from dataclasses import dataclass

from specgen.plan.model import FunctionPlan
from specgen.program.program import Component, Program


@dataclass(frozen=True)
class Lift:
    """The methods of a liftable chain."""

    methods: tuple[FunctionPlan, ...]


def plan_lift(component: Component, advance: Program, chain: str) -> Lift | None:
    """The methods that lift a chain."""
    return None
