"""What has a trailing 1 that is no dimension of it, behind the transform that wrote it: in recorded data as in environments."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.data import LazyTensorStorage, ReplayBuffer
from specgen_runtime.specs import Composite, Unbounded
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.transforms import CatTensors, ObservationNorm, RenameTransform, RewardSum, Stack
from tensordict import TensorDictBase
from torch import Tensor

from tests.transforms.envs import Walk

BATCHES = [(), (3,), (4, 3)]


class Energy(Transform):
    """An observation that is one number, stored without a trailing 1."""

    def __init__(self) -> None:
        super().__init__(["position"], ["energy"])

    def _apply_transform(self, obs: Tensor, /) -> Tensor:
        return obs.square().sum(-1)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        observation_spec["energy"] = Unbounded(observation_spec["position"].shape[:-1])
        return observation_spec


def chain() -> list[Transform]:
    """Sums of rewards under other names, put beside what is stored without a trailing 1."""
    return [
        RewardSum(),
        ObservationNorm(1.0, 2.0, ["episode_reward"], ["scaled"]),
        RenameTransform(["scaled"], ["total"]),
        Stack(["energy", "total"], "pair", del_keys=False),
        CatTensors(["pair", "total"], "all", del_keys=False),
    ]


def live(batch: tuple[int, ...]) -> tuple[TensorDictBase, TensorDictBase]:
    """What an environment gives with the chain, and the same without what the chain writes."""
    env = TransformedEnv(Walk(*batch), Compose(Energy(), *chain()))
    torch.manual_seed(0)
    data = env.rollout(12, break_when_any_done=False)
    written = ["episode_reward", "total", "pair", "all"]
    return data, data.exclude(*written, *(("next", key) for key in written))


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_recorded(batch: tuple[int, ...]) -> None:
    data, recorded = live(batch)
    assert data["pair"].shape == (*data.shape, 2)
    replay = Compose(*chain())
    assert_identical(replay(recorded.copy()), data, "what is replayed")
    alone = Stack(["energy", "total"], "pair", del_keys=False)
    for stack in (alone, replay[3], replay.pop(3)):  # nobody tells them what the total is made of
        with pytest.raises(ValueError, match="can't be applied"):
            stack(data.copy())


def test_samples() -> None:
    data, recorded = live((4,))
    for key in ("pair", "all"):
        recorded["expected", key] = data[key]
        recorded["next", "expected", key] = data["next", key]
    buffer = ReplayBuffer(storage=LazyTensorStorage(4), transform=Compose(*chain()), batch_size=8)
    buffer.extend(recorded)
    sample = buffer.sample()
    for moment in (sample, sample["next"]):
        assert_identical(moment.select("pair", "all"), moment["expected"], "what is sampled")


def test_moments_in_no_environment() -> None:
    data, recorded = live((3,))
    moments = Compose(*chain())
    found = moments._reset(recorded[:, 0], recorded[:, 0].exclude("next"))
    for time in range(3):
        assert_identical(found, data[:, time].select(*found.keys()), f"moment {time}")
        following = recorded[:, time]["next"]
        found = moments._step(found, following.copy()).exclude("reward")
