"""Windows of frames behind and ahead with their padding, and shapes of flat actions: as TorchRL makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.data import LazyTensorStorage, ReplayBuffer
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Bounded
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import Pendulum
from specgen_std.transforms import CatFrames, FlattenAction, StepCounter, UnsqueezeTransform
from tensordict import TensorDict, TensorDictBase

from tests.agreement.test_random_chains import drive, same_specs
from tests.support import generate, imported
from tests.transforms.envs import Team, Walk
from tests.transforms.test_actions import Echo

KEYS = {"in_keys": ["position"], "out_keys": ["stacked"]}


def theirs() -> Any:
    return pytest.importorskip("torchrl.envs.transforms", reason="the extra `peers`")


def recorded(*batch: int) -> TensorDictBase:
    torch.manual_seed(3)
    return Walk(*batch).rollout(9, break_when_any_done=False)


@pytest.mark.peers
@pytest.mark.parametrize("future", [False, True])
@pytest.mark.parametrize("padding", ["same", "constant"])
@pytest.mark.parametrize("N", [1, 3, 12])
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_windows_and_their_padding(batch: tuple[int, ...], N: int, padding: Any, future: bool) -> None:
    keywords: dict[str, Any] = {"padding": padding, "padding_value": 7.0, "future": future, **KEYS}
    data = recorded(*batch)
    assert data["next", "done"].any()
    mine = CatFrames(N, -1, mask_key=("info", "is_pad"), **keywords)(data.clone())
    peer = theirs().CatFrames(N, -1, mask_key=("info", "is_pad"), **keywords)(data.clone())
    for key in ("stacked", ("info", "is_pad")):
        assert mine[key].dtype == peer[key].dtype
        assert torch.equal(mine[key], peer[key])
    assert mine["info", "is_pad"].shape == (*batch, 9, N)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:The last dimension:UserWarning")
def test_data_without_flags_or_next() -> None:
    data = TensorDict({"position": torch.rand(2, 5, 3)}, [2, 5])
    flagged = data.clone().set("next", {"over": torch.rand(2, 5, 1) < 0.5})
    for rows, more in ((data, {}), (flagged, {}), (flagged, {"done_key": "over"})):
        made = [
            make(4, -1, future=True, **KEYS, **more)(rows.clone())["stacked"]
            for make in (CatFrames, theirs().CatFrames)
        ]
        assert torch.equal(*made)
    assert "stacked" not in flagged["next"].keys()  # noqa: SIM118 - a tensordict


@pytest.mark.peers
def test_next_frames_and_replay_buffers() -> None:
    data = recorded(4)
    ahead = CatFrames(
        3, -1, ["position", ("next", "position")], ["stacked", ("next", "stacked")], future=True
    )
    both = ahead(data.clone())
    for prefix in ((), ("next",)):
        alone = theirs().CatFrames(3, -1, [(*prefix, "position")], [(*prefix, "stacked")], future=True)(
            data.clone()
        )
        assert torch.equal(both[*prefix, "stacked"], alone[*prefix, "stacked"])
    in_place = CatFrames(3, -1, ["position"], future=True)(data.clone())
    assert torch.equal(in_place["position"], both["stacked"])

    keep = CatFrames(3, -1, future=True, mask_key="is_pad", **KEYS)
    transform, sampler = keep.make_rb_transform_and_sampler(batch_size=5)
    buffer = ReplayBuffer(storage=LazyTensorStorage(100), sampler=sampler, transform=transform, batch_size=5)
    buffer.extend(keep(data.clone())[0])
    assert {"stacked", "is_pad"}.isdisjoint(buffer.storage[:].keys())
    sample = buffer.sample()
    assert sample["stacked"].shape == (5, 9)
    assert torch.equal(sample["stacked"][:, :3], sample["position"])
    assert not sample["is_pad"].any()


def test_windows_of_agents() -> None:
    data = Team(2).rollout(6, break_when_any_done=False)
    x = data["agents", "x"]
    made = CatFrames(2, -1, [("agents", "x")], [("agents", "ahead")], future=True, mask_key="is_pad")(data)
    ends = data["next", "done"].unsqueeze(-1) | (torch.arange(6) == 5)[:, None, None]
    following = torch.where(ends, x, torch.cat([x[:, 1:], x[:, -1:]], 1))
    assert torch.equal(made["agents", "ahead"], torch.cat([x, following], -1))
    assert torch.equal(made["is_pad"][..., 1], ends[..., 0, 0])


@pytest.mark.parametrize("batch", [(), (4,)])
def test_masks_in_an_environment(batch: tuple[int, ...]) -> None:
    frames = CatFrames(3, -1, mask_key="is_pad", **KEYS)
    env = TransformedEnv(Walk(*batch), frames)
    check_env_specs(env)
    assert env.observation_spec["is_pad"].shape == (*batch, 3)
    assert env.observation_spec["is_pad"].dtype is torch.bool
    torch.manual_seed(0)
    data = env.rollout(12, break_when_any_done=False)
    assert data["next", "done"].any()
    assert data["is_pad"][..., 0, :].tolist() == torch.tensor([True, True, False]).expand(*batch, 3).tolist()
    again = CatFrames(3, -1, mask_key="is_pad", **KEYS)(
        data.exclude("is_pad", ("next", "is_pad"), "stacked", ("next", "stacked"))
    )
    for key in ("is_pad", ("next", "is_pad"), ("next", "stacked")):
        assert torch.equal(again[key], data[key])


def test_what_is_ahead_is_for_recorded_data() -> None:
    env = TransformedEnv(Walk(2), CatFrames(3, -1, future=True, **KEYS))
    with pytest.raises(
        ValueError, match="CatFrames with future=True needs whole episodes: call it on recorded"
    ):
        env.observation_spec  # noqa: B018 - it is made here
    moment = TensorDict({"position": torch.rand(2, 3)}, [2])
    with pytest.raises(ValueError, match="needs whole episodes"):
        CatFrames(3, -1, future=True, **KEYS)._call(moment)


CHAINS = """\
specgen: 1
import: [specgen_std/envs/pendulum, specgen_std/transforms/frames, specgen_std/transforms/shapes, specgen_std/transforms/step_counter]
chains:
  Fused:
    env: Pendulum
    transforms:
      - StepCounter: {max_steps: 4}
      - UnsqueezeTransform: {dim: -1, in_keys: [th, thdot], out_keys: [row, speed]}
      - CatFrames: {N: 3, dim: -1, in_keys: [row, observation, speed], mask_key: is_pad}
"""


def test_masks_in_a_chain(tmp_path: Path) -> None:
    rows = UnsqueezeTransform(-1, ["th", "thdot"], ["row", "speed"])
    frames = CatFrames(3, -1, ["row", "observation", "speed"], mask_key="is_pad")
    dynamic = TransformedEnv(Pendulum(batch_size=(2,)), Compose(StepCounter(4), rows, frames))
    with imported(generate({"chain.yaml": CHAINS}, "masked_frames"), "masked_frames", tmp_path) as package:
        fused = package.Fused(batch_size=(2,))
        check_env_specs(fused)
        same_specs(fused, dynamic)
        drive(fused, dynamic)
        assert fused.rollout(3)["is_pad"].shape == (2, 3, 3)


@pytest.mark.peers
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_shapes_of_flat_actions(batch: tuple[int, ...]) -> None:
    for first, shape in ((-2, (3, 5)), (-2, (5, 3)), (-3, (5, 1, 3))):
        data = TensorDict({"action": torch.rand(*batch, 15)}, batch)
        mine = FlattenAction(first, -1, action_shape=shape).inv(data)
        peer = theirs().FlattenAction(first, -1, action_shape=shape).inv(data.clone())
        assert mine["action"].shape == (*batch, *shape)
        assert torch.equal(mine["action"], peer["action"])
    front = FlattenAction(0, 1, action_shape=[3, 5], allow_positive_dim=True)
    assert front.inv(data)["action"].shape == (*batch, 3, 5)
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(10), transform=FlattenAction(action_shape=(3, 5)), batch_size=2
    )
    buffer.extend(TensorDict({"action": torch.rand(4, 15)}, [4]))
    assert buffer.sample()["action"].shape == (2, 3, 5)


def test_shape_of_another_action() -> None:
    spec = Bounded(-1, 1, shape=(2, 6))
    assert TransformedEnv(Echo(3, action=spec), FlattenAction(action_shape=(2, 6))).action_spec.shape == (
        3,
        12,
    )
    with pytest.raises(
        ValueError, match=r"makes torch.float32 \[3, 3, 4\] of what the policy writes, and 'action'"
    ):
        TransformedEnv(Echo(3, action=spec), FlattenAction(action_shape=(3, 4))).action_spec  # noqa: B018
    with pytest.raises(ValueError, match="action_shape must be >= 1"):
        FlattenAction(action_shape=(0, 4))
