"""What the pure function of a loss takes: shared by the function and the class."""

from __future__ import annotations

from specgen.check.loss_forward import Forward
from specgen.check.loss_learnables import CheckedLearnable
from specgen.check.loss_model import LossRole
from specgen.check.model import Parameter
from specgen.values import dataclass


@dataclass(frozen=True)
class LossParts:
    """The arguments of the pure function.

    Attributes:
        function: its name.
        values: what the networks computed.
        roles: what is read from the data.
        params: what is read from the constructor.
        learnables: the numbers that are learned.
        estimates: whether it takes the value estimator.
    """

    function: str
    values: tuple[Forward, ...]
    roles: tuple[LossRole, ...]
    params: tuple[Parameter, ...]
    learnables: tuple[CheckedLearnable, ...]
    estimates: bool
