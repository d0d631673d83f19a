"""The objects of the constructor of a loss: how it takes and updates them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specgen.check.losses.model import CheckedLoss
from specgen.code import Code, named
from specgen.literals import literal
from specgen.plan.docs import hanging
from specgen.plan.losses.model import ModulePlan

PROTOCOLS: Final = {"normalizer": "Normalizer", "value_norm": "ValueNorm"}
"""The classes of the runtime that say what an object can do."""


def module_plans(loss: CheckedLoss) -> Iterator[ModulePlan]:
    """The keywords of the constructor."""
    for one in loss.modules:
        yield ModulePlan(one.name, named(PROTOCOLS[one.protocol]), one.optional)


def module_docs(loss: CheckedLoss) -> Iterator[str]:
    """What the constructor's docstring says of them."""
    for one in loss.modules:
        what = f"{(one.doc or f'a `{PROTOCOLS[one.protocol]}`').rstrip('.')}."
        yield from hanging(f"{one.name}: {what}" + (" Defaults to None." if one.optional else ""))


def updates(loss: CheckedLoss) -> Iterator[tuple[str, Code]]:
    """The updates of a call, each with its condition: only a loss that is trained changes what it knows of the data."""
    roles = {role.name: role for role in loss.roles}
    for one in loss.modules:
        if one.update is None:
            continue
        role = roles[one.update]
        record = "next_tensordict" if role.after else "tensordict"
        value = f"self._counted({record}, keys.{role.accepted}, {literal(role.name)})"
        condition = "self.training" + (f" and self.{one.name} is not None" if one.optional else "")
        condition += " and tensordict is not given" if one.estimated else ""
        yield condition, Code(f"self.{one.name}.update({value})")
