"""What the pure function of a loss takes: shared by the function and the class."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.losses.forward import Forward
from specgen.check.losses.learnables import CheckedLearnable
from specgen.check.losses.model import CheckedModule, LossNetwork, LossRole, ParamRead
from specgen.expr import Symbol
from specgen.program.conditions import NEVER, Condition
from specgen.values import dataclass


@dataclass(frozen=True)
class LossParts:
    """The arguments of the pure function.

    Attributes:
        function: its name.
        values: what the networks computed.
        roles: what is read from the data.
        params: what is read from the constructor.
        bounds: bounds of roles.
        learnables: the numbers that are learned.
        modules: objects of the constructor.
        networks: the optional networks of which it is told whether they were given.
        needs: when values are needed, those of networks and of the data too.
        masked: whether it takes the mask of the samples that count.
        estimates: whether it takes the value estimator.
    """

    function: str
    values: tuple[Forward, ...]
    roles: tuple[LossRole, ...]
    params: tuple[ParamRead, ...]
    bounds: tuple[Symbol, ...]
    learnables: tuple[CheckedLearnable, ...]
    modules: tuple[CheckedModule, ...]
    networks: tuple[LossNetwork, ...]
    needs: Mapping[Symbol, Condition]
    masked: bool
    estimates: bool

    def needed(self, symbol: Symbol) -> Condition:
        """When a value is needed."""
        return self.needs.get(symbol, NEVER)
