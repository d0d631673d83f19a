"""A game on a screen, with lives and a goal, for this library's base class and for TorchRL's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.specs import Composite, Unbounded
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
specs = pytest.importorskip("torchrl.data", reason="the extra `peers`")

LENGTH, HEIGHT, WIDTH = 11, 5, 7


def seen(moment: Tensor) -> dict[str, Tensor]:
    """What is observed at moments [*batch, 1]: pixels [*batch, 5, 7, 3], lives [*batch], success [*batch, 1]."""
    pixel = torch.arange(HEIGHT * WIDTH * 3).reshape(HEIGHT, WIDTH, 3)
    return {
        "moment": moment,
        "pixels": ((moment[..., None, None] * 31 + pixel * 7) % 256).to(torch.uint8),
        "success": moment % 4 == 3,
    }


def lives_at(moment: Tensor) -> Tensor:
    """A life is lost in every third step."""
    return 4 - moment.squeeze(-1) // 3


def after(moment: Tensor, action: Tensor) -> dict[str, Tensor]:
    """What a step returns."""
    over = moment + 1 >= LENGTH
    rewards = {"reward": action * 3, "terminated": over, "done": over.clone()}
    return seen(moment + 1) | rewards


def fill(env: Any, kinds: Any, batch: tuple[int, ...], flags: type[Any]) -> None:
    """Set the specs, made of the classes of one of the libraries."""
    observation = kinds.Composite(
        moment=kinds.Unbounded((*batch, 1), dtype=torch.int64),
        pixels=kinds.Bounded(0, 255, (*batch, HEIGHT, WIDTH, 3), dtype=torch.uint8),
        success=flags(2, shape=(*batch, 1), dtype=torch.bool),
        shape=batch,
    )
    env.observation_spec = observation
    env.state_spec = kinds.Composite(moment=observation["moment"].clone(), shape=batch)
    env.action_spec = kinds.Bounded(-1.0, 1.0, (*batch, 1))
    env.reward_spec = kinds.Unbounded((*batch, 1))


class Screen(EnvBase):
    """The game; how many lives are left is observed."""

    def __init__(self, *batch: int) -> None:
        super().__init__(batch_size=batch)
        from specgen_runtime import specs as kinds

        fill(self, kinds, batch, kinds.Categorical)
        self.observation_spec = Composite(
            {**dict(self.observation_spec.items()), "lives": Unbounded(batch, dtype=torch.int64)}, shape=batch
        )
        flag = kinds.Categorical(2, shape=(*batch, 1), dtype=torch.bool)
        self.done_spec = Composite(done=flag, terminated=flag.clone(), shape=batch)

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        moment = torch.zeros(*self.batch_size, 1, dtype=torch.int64)
        return TensorDict(seen(moment) | {"lives": lives_at(moment)}, self.batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        moment = tensordict["moment"]
        entries = after(moment, tensordict["action"]) | {"lives": lives_at(moment + 1)}
        return TensorDict(entries, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        del seed


class TheirScreen(theirs.EnvBase):
    """The game on TorchRL's base class; how many lives are left is an attribute, where its transform looks for it."""

    def __init__(self, *batch: int) -> None:
        super().__init__(batch_size=torch.Size(batch))
        fill(self, specs, batch, specs.Categorical)
        self.moment = torch.zeros(*batch, 1, dtype=torch.int64)

    def lives(self) -> Tensor:
        return lives_at(self.moment)

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        rows = None if tensordict is None else tensordict.get("_reset", None)
        self.moment = torch.zeros_like(self.moment) if rows is None else self.moment.masked_fill(rows, 0)
        return TensorDict(seen(torch.zeros_like(self.moment)), self.batch_size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.moment = tensordict["moment"] + 1
        return TensorDict(after(tensordict["moment"], tensordict["action"]), self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        del seed
