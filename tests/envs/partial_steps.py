"""Environments and roots for the tests of `_step` masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.transforms import TransformedEnv
from specgen_std.chains import CartPoleTrain
from specgen_std.envs.cartpole import CartPole
from specgen_std.transforms import RewardSum, StepCounter
from tensordict import TensorDict

from tests.envs.counting import Counting, Grid, Stateful

SOME = torch.tensor([True, False, True])


class Obedient(Stateful):
    """Keeps its counts itself, and leaves alone the rows outside the mask."""

    _supports_partial_steps = True

    def _step(self, tensordict: Any) -> TensorDict:
        before = self.count
        result = super()._step(tensordict)
        mask = tensordict.get("_step", None)
        if mask is not None:
            assert mask.shape == self.batch_size
            self.count = torch.where(mask[..., None], self.count, before)
        return result  # the rows outside mean nothing


def started(env: EnvBase, mask: Any = None) -> Any:
    root = env.rand_action(env.reset())
    return root if mask is None else root.set("_step", torch.as_tensor(mask))


def transformed(base: EnvBase) -> TransformedEnv:
    return TransformedEnv(base, StepCounter(max_steps=50)).append_transform(RewardSum())


BATCHES: list[Callable[[], EnvBase]] = [
    lambda: Counting(batch_size=(3,)),
    lambda: Grid(batch_size=(3,)),
    lambda: Grid(batch_size=(3,), root_done=False),
    Obedient,
    lambda: CartPole(batch_size=(3,)),
    lambda: CartPoleTrain(batch_size=(3,)),
    lambda: transformed(CartPole(batch_size=(3,))),
    lambda: transformed(Counting(batch_size=(3,))),
    lambda: transformed(Obedient()),
    lambda: Counting(batch_size=(3,), device="cpu"),
]
