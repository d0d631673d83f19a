"""Transforms of environments that take tensordicts of any batch size: as in one that has the size itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.transforms import (
    BinarizeReward,
    CatFrames,
    InitTracker,
    RandomTruncationTransform,
    RewardSum,
    StepCounter,
    TargetReturn,
    TimeMaxPool,
    TrajCounter,
    VecNorm,
)
from tensordict import TensorDict

from tests.transforms.envs import Walk, walk_reset, walk_step


class AnyWalk(Walk):
    """`Walk`, for as many rows as the tensordict has that it is given."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return EnvBase.__new__(cls, *args, _batch_locked=False, **kwargs)

    def _reset(self, tensordict: Any, **kwargs: Any) -> TensorDict:
        rows = torch.Size() if tensordict is None else tensordict.batch_size
        return TensorDict({"position": walk_reset(rows, self.dtype)}, rows)

    def _step(self, tensordict: Any) -> TensorDict:
        position, reward, over = walk_step(tensordict["position"], tensordict["action"])
        entries = {"position": position, "reward": reward, "terminated": over, "done": over.clone()}
        return TensorDict(entries, tensordict.batch_size)


def chains() -> list[list[Transform]]:
    """What counts, sums, remembers, learns and draws."""
    frames: dict[str, Any] = {"in_keys": ["position"], "out_keys": ["frames"]}
    return [
        [StepCounter(max_steps=4), RewardSum(), InitTracker(), TargetReturn(3.0)],
        [RewardSum(), BinarizeReward()],  # carried in private
        [CatFrames(3, -1, **frames), TimeMaxPool(in_keys=["position"], T=2)],
        [VecNorm(in_keys=["position", "reward"]), TrajCounter()],
        [StepCounter(), RandomTruncationTransform(2, 5, prob=0.5)],
    ]


def rollout(env: TransformedEnv, batch: tuple[int, ...]) -> Any:
    """Some episodes of the same actions."""
    torch.manual_seed(0)
    root = env.reset(TensorDict({}, batch))
    actions = torch.rand(12, *batch, 3) * 2 - 1
    policy = iter(actions)
    return env.rollout(
        12,
        lambda td: td.set("action", next(policy)),
        auto_reset=False,
        break_when_any_done=False,
        tensordict=root,
    )


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
@pytest.mark.parametrize("index", range(5))
def test_rows_are_as_many_as_are_asked_for(index: int, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(AnyWalk(), Compose(*chains()[index]))
    check_env_specs(env)
    fixed = TransformedEnv(Walk(*batch), Compose(*chains()[index]))
    # A check has learned: statistics begin anew.
    env = TransformedEnv(AnyWalk(), Compose(*chains()[index]))
    assert_identical(rollout(env, batch), rollout(fixed, batch))


def test_one_environment_at_several_sizes() -> None:
    env = TransformedEnv(AnyWalk(), Compose(StepCounter(), RewardSum()))
    for batch in ((), (3,), (2, 2), ()):
        assert rollout(env, batch)["step_count"].shape == (*batch, 12, 1)
