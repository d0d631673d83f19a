"""A part of a loss with what its pure function takes: shared by the function and the class."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.losses.forward import Forward
from specgen.check.losses.learnables import CheckedLearnable
from specgen.check.losses.model import CheckedLoss, CheckedModule, LossNetwork, LossRole
from specgen.check.losses.needs import role_symbol
from specgen.check.losses.numbers import ParamRead
from specgen.check.model import Statement, identifier
from specgen.check.programs.loss import LossPart, has_network, random_network
from specgen.expr import Symbol
from specgen.program.conditions import ALWAYS, NEVER, Condition, condition_of, values_in
from specgen.values import dataclass


@dataclass(frozen=True)
class PartArguments:
    """A part, and the arguments of its pure function.

    Attributes:
        part: the part.
        values: what the networks computed.
        lets: values of `let` that a method is given, which are computed elsewhere.
        roles: what is read from the data.
        params: what is read from the constructor.
        bounds: bounds of roles.
        learnables: the numbers that are learned.
        modules: objects of the constructor.
        networks: the optional networks of which it is told whether they were given.
        plain: the networks of which it is told whether they give a distribution.
        needs: when values are needed, those of networks and of the data too.
        masked: whether it takes the mask of the samples that count.
        estimates: whether it takes the value estimator.
        there: what is never None where the part is computed.
        asked: when any of its outputs is there, as the declaration says it.
        alone: whether the loss has no other part.
    """

    part: LossPart
    values: tuple[Forward, ...]
    lets: tuple[Symbol, ...]
    roles: tuple[LossRole, ...]
    params: tuple[ParamRead, ...]
    bounds: tuple[Symbol, ...]
    learnables: tuple[CheckedLearnable, ...]
    modules: tuple[CheckedModule, ...]
    networks: tuple[LossNetwork, ...]
    plain: tuple[LossNetwork, ...]
    needs: Mapping[Symbol, Condition]
    masked: bool
    estimates: bool
    there: frozenset[Symbol]
    asked: Condition
    alone: bool

    @property
    def record(self) -> str:
        """What its pure function returns."""
        assert self.part.program.record is not None
        return self.part.program.record

    @property
    def listed(self) -> str:
        """Its outputs, in words."""
        names = [f"`{output.name}`" for output in self.part.program.outputs if output.role != "value"]
        return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

    def reads(self, loss: CheckedLoss, role: LossRole) -> Condition:
        """When a role is read from the data; the value estimator reads all that is of the next record."""
        if role.after and (self.estimates or any(one.missing == "estimate" for one in self.roles)):
            return ALWAYS
        return self.needed(role_symbol(loss, role.name))

    def needed(self, symbol: Symbol) -> Condition:
        """When a value is needed, where the part is."""
        return self.needs.get(symbol, NEVER)

    def returned(self, loss: CheckedLoss, statement: Statement) -> Condition:
        """When a term or metric is there, where the part is."""
        when = loss.when.get(statement.target)
        return ALWAYS if when is None else condition_of(when).within(self.asked)

    def forward(self, loss: CheckedLoss) -> tuple[Forward, ...]:
        """What the class computes for it."""
        return tuple(made for made in loss.forward if self.needed(made.symbol) != NEVER)

    def of(self, statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Those terms, metrics or writes that are its own."""
        names = {output.name for output in self.part.program.outputs}
        return tuple(statement for statement in statements if statement.name in names)


def part_arguments(loss: CheckedLoss, part: LossPart, *, alone: bool) -> PartArguments:
    """What the pure function of a part takes."""
    given = {one.symbol for one in part.program.inputs}
    path = f"losses.{loss.name}"
    lets = {f"{path}.{one.target}" for one in loss.let}
    return PartArguments(
        part=part,
        values=tuple(made for made in loss.forward if made.symbol in given),
        lets=tuple(one.symbol for one in part.program.inputs if one.symbol.path in lets),
        roles=tuple(role for role in loss.roles if loss.symbols.get(f"keys.{role.name}") in given),
        params=tuple(one for one in loss.param_reads if one.symbol in given),
        bounds=tuple(one for one in loss.bounds if one in given),
        learnables=tuple(one for one in loss.learnables if one.symbol in given),
        modules=tuple(one for one in loss.modules if one.symbol in given),
        networks=tuple(one for one in loss.networks if has_network(path, one) in given),
        plain=tuple(one for one in loss.networks if one.certain and random_network(path, one) in given),
        needs=part.guarded.needs,
        masked=any(one.symbol.path == f"{path}.given.mask" for one in part.program.inputs),
        estimates=any(one.kind == "function" for one in part.program.inputs),
        there=values_in(part.condition.typed),
        asked=_asked(loss, part),
        alone=alone,
    )


def _asked(loss: CheckedLoss, part: LossPart) -> Condition:
    asked, conditions = NEVER, {identifier(name): when for name, when in loss.when.items()}
    for output in part.program.outputs:
        if output.role != "value":
            when = conditions.get(output.name)
            asked |= ALWAYS if when is None else condition_of(when)
    return asked
