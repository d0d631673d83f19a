"""Transforms in TorchRL's replay buffers: `inv` when data come in, `forward` when they are sampled."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.transforms import Compose, Transform
from specgen_std.transforms import DoubleToFloat, ObservationNorm, Reward2GoTransform
from tensordict import TensorDict

data = pytest.importorskip("torchrl.data", reason="the extra `peers`")

pytestmark = pytest.mark.peers

BUFFERS = ["ReplayBuffer", "TensorDictReplayBuffer"]


class Half(Transform):
    """Stores halves; gives back what was stored, doubled."""

    invertible = True

    def __init__(self) -> None:
        super().__init__(["x"], ["x"], ["x"], ["x"])

    def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
        return obs * 2

    def _inv_apply_transform(self, state: torch.Tensor) -> torch.Tensor:
        return state / 2


@pytest.mark.parametrize("kind", BUFFERS)
def test_forward_when_sampled(kind: str) -> None:
    norm = ObservationNorm(1.0, 2.0, in_keys=["x"], out_keys=["y"])
    buffer = getattr(data, kind)(storage=data.LazyTensorStorage(8), batch_size=5)
    buffer.append_transform(norm)
    buffer.extend(TensorDict(x=torch.arange(8.0), batch_size=[8]))
    sample = buffer.sample()
    assert torch.equal(sample["y"], sample["x"] * 2 + 1)
    assert "y" not in buffer.storage[:]


@pytest.mark.parametrize("kind", BUFFERS)
def test_sequences_are_sampled_with_their_returns(kind: str) -> None:
    done = torch.zeros(8, 5, 1, dtype=torch.bool)
    done[:, 1] = done[:, -1] = True
    reward = torch.randn(8, 5, 1)
    to_go = Reward2GoTransform(gamma=0.5, out_keys=["reward_to_go"])
    buffer = getattr(data, kind)(storage=data.LazyTensorStorage(8), transform=to_go, batch_size=6)
    buffer.extend(TensorDict({"next": {"reward": reward, "done": done}}, [8, 5]))
    sample = buffer.sample()
    first, last = sample["next", "reward"][:, 0], sample["next", "reward"][:, 1]
    assert sample["reward_to_go"].shape == (6, 5, 1)
    assert torch.allclose(sample["reward_to_go"][:, 0], first + 0.5 * last)


@pytest.mark.parametrize("kind", BUFFERS)
@pytest.mark.parametrize("add", [False, True])
def test_inverse_when_stored(kind: str, add: bool) -> None:
    from specgen_runtime.interop import transform_to_torchrl

    chain = Compose(Half(), DoubleToFloat(in_keys=["x"], in_keys_inv=["x"]))
    buffer = getattr(data, kind)(storage=data.LazyTensorStorage(8), batch_size=5)
    buffer.append_transform(transform_to_torchrl(chain))
    given = TensorDict(x=torch.arange(8.0), batch_size=[8])
    if add:
        for row in given.unbind(0):
            buffer.add(row)
    else:
        buffer.extend(given)
    stored = buffer.storage[:]["x"]
    assert stored.dtype == torch.float64
    assert stored.tolist() == [index / 2 for index in range(8)]
    sample = buffer.sample()["x"]
    assert sample.dtype == torch.float32
    assert set(sample.tolist()) <= set(range(8))
    assert given["x"].tolist() == list(range(8))


def test_inverted() -> None:
    from specgen_runtime.interop import transform_to_torchrl

    buffer = data.ReplayBuffer(storage=data.LazyTensorStorage(8), batch_size=5)
    buffer.append_transform(transform_to_torchrl(Half()), invert=True)
    buffer.extend(TensorDict(x=torch.arange(8.0), batch_size=[8]))
    assert buffer.storage[:]["x"].tolist() == [index * 2 for index in range(8)]
    assert set(buffer.sample()["x"].tolist()) <= set(range(8))


def test_refusals() -> None:
    from specgen_runtime.interop import transform_to_torchrl

    with pytest.raises(TypeError, match="needs a Transform, found int"):
        transform_to_torchrl(3)  # type: ignore[arg-type]
    envs = pytest.importorskip("torchrl.envs")
    env = envs.TransformedEnv(envs.PendulumEnv(), transform_to_torchrl(Half()))
    with pytest.raises(RuntimeError, match="was converted for replay buffers"):
        _ = env.observation_spec
