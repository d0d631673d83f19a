"""Axes that are counted from the first one behind the batch: `allow_positive_dim`."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.transforms import (
    DoubleToFloat,
    FlattenAction,
    FlattenObservation,
    SqueezeTransform,
    Stack,
    UnsqueezeTransform,
)
from tensordict import TensorDict

from tests.transforms.envs import Walk

ROW = UnsqueezeTransform(0, in_keys=["position"], out_keys=["row"], allow_positive_dim=True)


def _chain() -> list[Transform]:
    return [
        ROW.clone(),
        UnsqueezeTransform(2, in_keys=["row"], out_keys=["block"], allow_positive_dim=True),
        SqueezeTransform(2, in_keys=["block"], out_keys=["row2"], allow_positive_dim=True),
        FlattenObservation(0, 1, in_keys=["row2"], out_keys=["flat"], allow_positive_dim=True),
        Stack(["position", "flat"], out_key="both", dim=1, allow_positive_dim=True, del_keys=False),
    ]


@pytest.mark.parametrize("batch", [(), (2,), (2, 4)])
def test_the_batch_is_never_counted(batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch), Compose(*_chain()))
    check_env_specs(env)
    data = env.rollout(3)
    position = data["position"]
    assert torch.equal(data["block"], position[..., None, :, None])
    assert torch.equal(data["flat"], position)
    assert torch.equal(data["both"], torch.stack([position, position], -1))
    recorded = Compose(*_chain())(data.select("position", ("next", "position")))
    for key in ("row", "block", "row2", "flat", "both"):
        assert torch.equal(recorded[key], data[key])
        assert torch.equal(recorded["next", key], data["next", key])


@pytest.mark.parametrize("batch", [(), (2,), (2, 4)])
def test_entries_of_one_moment(batch: tuple[int, ...]) -> None:
    data = TensorDict({"position": torch.rand(*batch, 3)}, batch)
    assert ROW(data.clone())["row"].shape == (*batch, 1, 3)
    assert ROW._call(data.clone())["row"].shape == (*batch, 1, 3)


@pytest.mark.parametrize("batch", [(), (1,), (2,), (2, 1)])
def test_a_reward_has_no_axis_to_squeeze(batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch), SqueezeTransform(-1, in_keys=["reward"]))
    with pytest.raises(ValueError, match=r"'reward' of the shape .* an axis is one of the batch dimensions"):
        env.rollout(2)


def test_who_wants_them_has_to_say_so() -> None:
    with pytest.raises(ValueError, match="must be <= -1 unless allow_positive_dim, got 0"):
        UnsqueezeTransform(0, in_keys=["position"])
    with pytest.raises(ValueError, match="last_dim must be <= -1"):
        FlattenObservation(-2, 1)


@pytest.mark.parametrize("dim", [-2, 0, 1])
@pytest.mark.parametrize("batch", [(), (2,), (2, 4)])
def test_actions_recorded_outside_of_environments(batch: tuple[int, ...], dim: int) -> None:
    action = torch.rand(*batch, 3, 5)
    place = dim + len(batch) if dim >= 0 else dim
    squeeze = SqueezeTransform(dim, in_keys=[], in_keys_inv=["action"], allow_positive_dim=True)
    unsqueeze = UnsqueezeTransform(dim, in_keys=[], in_keys_inv=["action"], allow_positive_dim=True)
    wide = squeeze.inv(TensorDict({"action": action}, batch))
    assert torch.equal(wide["action"], action.unsqueeze(place))
    assert torch.equal(unsqueeze.inv(wide)["action"], action)
    assert torch.equal(Compose(squeeze, unsqueeze).inv(wide)["action"], wide["action"])


def test_what_the_data_do_not_tell() -> None:
    flat = FlattenAction(-2, -1, in_keys_inv=["action"])
    with pytest.raises(RuntimeError, match="FlattenAction is part of no environment that could tell the s"):
        flat.inv(TensorDict({"action": torch.rand(15)}, []))
    with pytest.raises(RuntimeError, match="DoubleToFloat takes its keys from the environment"):
        DoubleToFloat().inv(TensorDict({"action": torch.rand(15)}, []))
