"""`EnvSpecs`: what a generated environment declares."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from specgen_runtime.specs import Categorical, Composite
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["EnvSpecs"]


def _done_flags() -> Composite:
    flag = Categorical(2, shape=(1,), dtype=torch.bool)
    return Composite(done=flag, terminated=flag, truncated=flag)


@dataclass(frozen=True, slots=True)
class EnvSpecs:
    """The specs of one environment, without batch dimensions.

    Attributes:
        action: what `step` reads as actions.
        observation: what `reset` and `step` give, state included.
        reward: what `step` gives as rewards.
        done: all done flags that the environment gives; a set at the root is required. By default ``"done"``,
            ``"terminated"`` and ``"truncated"`` there, bool [1].
        state: what `step` reads besides actions; each key is also in `observation`.
    """

    action: Composite
    observation: Composite
    reward: Composite
    done: Composite = field(default_factory=_done_flags)
    state: Composite = field(default_factory=Composite)

    def to(self, device: DEVICE_TYPING | None) -> EnvSpecs:
        """Return the specs on a device; themselves where it is None."""
        if device is None:
            return self
        return EnvSpecs(
            self.action.to(device),
            self.observation.to(device),
            self.reward.to(device),
            self.done.to(device),
            self.state.to(device),
        )

    def check(self, name: str) -> None:
        """Refuse specs that no generated environment can have.

        Args:
            name: of the environment's class.

        Raises:
            ValueError: there is no action, no done set of shape [1] at the root, or a state key is not observed.
        """
        if "done" not in self.done.keys():  # noqa: SIM118
            raise ValueError(f"{name} needs 'done' at the root of its done spec")
        if not list(self.action.keys(True, True)):
            raise ValueError(f"{name} needs an action")
        if self.done["done"].shape != (1,):
            raise ValueError(
                f"{name}: the root's 'done' must have shape [1], found {list(self.done['done'].shape)}"
            )
        observed = set(self.observation.keys(True, True))
        missing = [key for key in self.state.keys(True, True) if key not in observed]
        if missing:
            raise ValueError(f"{name}: state keys {missing} are not in the observation spec")
