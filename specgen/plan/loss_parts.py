"""What the pure function of a loss takes: shared by the function and the class."""

from __future__ import annotations

from dataclasses import dataclass

from specgen.check.loss_forward import Forward
from specgen.check.loss_model import LossRole
from specgen.check.model import Parameter


@dataclass(frozen=True)
class LossParts:
    """The arguments of the pure function.

    Attributes:
        function: its name.
        values: what the networks computed.
        roles: what is read from the data.
        params: what is read from the constructor.
        estimates: whether it takes the value estimator.
    """

    function: str
    values: tuple[Forward, ...]
    roles: tuple[LossRole, ...]
    params: tuple[Parameter, ...]
    estimates: bool
