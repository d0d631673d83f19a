"""An environment written by hand that reads its state at a partial reset gets its own, whatever transforms show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.specs import Bounded, Composite, Unbounded
from specgen_runtime.transforms import Transform, TransformedEnv
from specgen_std.transforms import DoubleToFloat, ExcludeTransform, ObservationNorm, RenameTransform
from tensordict import TensorDict, TensorDictBase


class Keeping(EnvBase[Any, Any]):
    """Adds actions up, and keeps the rows that are not reset by reading them."""

    def __init__(self) -> None:
        super().__init__(batch_size=[3])
        state = Unbounded(shape=(3, 2), dtype=torch.float64)
        self.observation_spec = Composite(x=state, shape=[3])
        self.state_spec = Composite(x=state.clone(), shape=[3])
        self.action_spec = Composite(action=Bounded(-1, 1, shape=(3, 2), dtype=torch.float64), shape=[3])
        self.reward_spec = Composite(reward=Unbounded(shape=(3, 1), dtype=torch.float64), shape=[3])
        self.kept: torch.Tensor | None = None

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        x = torch.zeros(3, 2, dtype=torch.float64)
        if tensordict is not None and "_reset" in tensordict:
            self.kept = tensordict["x"].clone()
            x = torch.where(tensordict["_reset"], x, tensordict["x"])
        return TensorDict({"x": x, "done": torch.zeros(3, 1, dtype=torch.bool)}, [3])

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        x = tensordict["x"] + tensordict["action"]
        ends = {"reward": x.sum(-1, keepdim=True), "done": torch.zeros(3, 1, dtype=torch.bool)}
        return TensorDict({"x": x, **ends}, [3])

    def _set_seed(self, seed: int | None) -> None:
        del seed


MADE: list[Callable[[], Transform]] = [
    lambda: DoubleToFloat(in_keys=["x"]),
    lambda: ObservationNorm(1.0, 3.0, ["x"]),
    lambda: RenameTransform(["x"], ["y"]),
    lambda: ExcludeTransform("x"),
]


@pytest.mark.parametrize("make", MADE, ids=["cast", "scaled", "renamed", "dropped"])
def test_it_gets_its_own_state(make: Callable[[], Transform]) -> None:
    plain, env = Keeping(), TransformedEnv(Keeping(), make())
    root, shown = plain.reset(), env.reset()
    actions = torch.rand(4, 3, 2, dtype=torch.float64)
    for time, action in enumerate(actions):
        root = plain.step(root.set("action", action))["next"]
        shown = env.step(shown.set("action", action))["next"]
        if time == 1:
            mask = torch.tensor([[True], [False], [False]])
            root, shown = plain.reset(root.set("_reset", mask)), env.reset(shown.set("_reset", mask.clone()))
            assert torch.equal(env.base_env.kept, plain.kept)
        assert torch.equal(shown["_carry", "e0", "x"], root["x"])
