"""Transforms of recorded sequences: `MultiStepTransform`, `RandomCropTensorDict`, `BurnInTransform`, `FlattenTensorDict`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import SerialEnv
from specgen_runtime.transforms import (
    BurnInTransform,
    FlattenTensorDict,
    MultiStepTransform,
    RandomCropTensorDict,
    ReplayTransform,
    TransformedEnv,
)
from specgen_std.transforms import StepCounter
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn

from tests.transforms.envs import Walk


def walk(steps: int, rows: int = 3, seed: int = 0) -> TensorDict:
    torch.manual_seed(seed)
    return TransformedEnv(Walk(rows), StepCounter(max_steps=9)).rollout(steps, break_when_any_done=False)


def by_hand(data: TensorDictBase, n: int, gamma: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Rewards and steps of the windows, one moment after the other; for one row."""
    rewards, steps = [], []
    for start in range(data.shape[0] - n):
        total, taken = 0.0, 0
        for k in range(n):
            total += gamma**k * data["next", "reward"][start + k].item()
            taken = k + 1
            if data["next", "done"][start + k]:
                break
        rewards.append(total)
        steps.append(taken)
    return torch.tensor(rewards), torch.tensor(steps)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_windows(n: int) -> None:
    data = walk(40)
    assert data["next", "done"].sum() > 6
    out = MultiStepTransform(n, 0.9).inv(data)
    assert out.shape == (3, 40 - n)
    for row in range(3):
        rewards, steps = by_hand(data[row], n, 0.9)
        assert torch.allclose(out["next", "reward"][row, :, 0], rewards, atol=1e-5)
        assert torch.equal(out["steps_to_next_obs"][row], steps)
        ends = torch.arange(40 - n) + steps - 1
        for key in ("position", "done", "terminated", "truncated", "step_count"):
            assert torch.equal(out["next", key][row], data["next", key][row, ends]), key
    assert torch.equal(out["gamma"], 0.9 ** out["steps_to_next_obs"])
    assert torch.equal(out["next", "original_reward"], data["next", "reward"][:, :-n])
    assert torch.equal(out["nonterminal"], ~data["next", "done"][:, :-n, 0])
    assert torch.equal(out["position"], data["position"][:, :-n])
    assert "steps_to_next_obs" not in data


def test_a_window_that_ends_says_so() -> None:
    """TorchRL moves the observation and leaves the flags behind."""
    out = MultiStepTransform(3, 0.9).inv(walk(40))
    shorter = out["steps_to_next_obs"] < 3
    assert shorter.any()
    assert out["next", "done"][shorter].all()
    assert (out["next", "terminated"] | out["next", "truncated"])[shorter].all()


@pytest.mark.parametrize("size", [1, 2, 7])
def test_any_schedule_gives_the_same(size: int) -> None:
    data = walk(42)
    whole = MultiStepTransform(3, 0.9)
    expected = torch.cat([whole.inv(data), whole.flush()], -1)
    parts = MultiStepTransform(3, 0.9)
    found = [parts.inv(part) for part in data.split(size, -1)]
    joint = torch.cat([*(each for each in found if each is not None), parts.flush()], -1)
    assert joint.shape == (3, 42)
    for key in expected.keys(True, True):
        assert torch.equal(joint[key], expected[key]), key
    assert parts.flush() is None


def test_unrelated_data_are_not_joined() -> None:
    """TorchRL sums the rewards of one trajectory into the windows of another."""
    first, second = walk(6, seed=1), walk(6, seed=2)
    joint = MultiStepTransform(3, 0.9)
    head = joint.inv(first)
    tail = torch.cat([joint.inv(second), joint.flush()], -1)
    alone = MultiStepTransform(3, 0.9)
    assert torch.equal(head["next", "reward"], alone.inv(first)["next", "reward"])
    rest = alone.flush()
    assert rest is not None
    assert torch.equal(tail["next", "reward"][:, :3], rest["next", "reward"])
    assert torch.equal(tail["next", "position"][:, :3], rest["next", "position"])
    fresh = MultiStepTransform(3, 0.9)
    assert torch.equal(tail["next", "reward"][:, 3:6], fresh.inv(second)["next", "reward"])
    numbered = walk(6)
    numbered["collector"] = TensorDict(
        traj_ids=torch.tensor([0, 0, 0, 1, 1, 1]).expand(3, 6), batch_size=[3, 6]
    )
    numbered["next", "done"][:] = False
    out = MultiStepTransform(3, 0.9).inv(numbered)
    assert out["steps_to_next_obs"][0].tolist() == [3, 2, 1]


def test_nothing_is_lost_while_there_is_too_little() -> None:
    data = walk(5)
    transform = MultiStepTransform(4, 0.9)
    assert transform.inv(data[:, :2]) is None
    assert transform.inv(data[:, 2:4]) is None
    assert transform.inv(data[:, 4:]).shape == (3, 1)
    assert transform.flush().shape == (3, 4)


def test_masks_and_shapes() -> None:
    data = walk(10, rows=1)[0]
    data["next", "done"][:] = False
    data["mask"] = torch.arange(10) < 6
    out = MultiStepTransform(3, 1.0).inv(data)
    assert out["steps_to_next_obs"].tolist() == [3, 3, 3, 3, 2, 1, 1]
    assert out["nonterminal"].tolist() == [True] * 6 + [False]
    with pytest.raises(ValueError, match="n_steps is a positive integer, got 0"):
        MultiStepTransform(0, 0.9)
    with pytest.raises(KeyError, match=r"reads \('next', 'gain'\), which is not in the data"):
        MultiStepTransform(1, 0.9, reward_keys=["gain"]).inv(data)
    assert MultiStepTransform(3, 0.9)(data) is data


@pytest.mark.peers
@pytest.mark.parametrize("n", [2, 3, 6])
def test_multi_step_against_torchrl(n: int) -> None:
    theirs = pytest.importorskip("torchrl.envs.transforms").MultiStepTransform(n, 0.97)
    ours = MultiStepTransform(n, 0.97)
    data = walk(60)
    for part in data.split(20, -1):
        expected, found = theirs._inv_call(part.copy()), ours.inv(part)
        assert set(found.keys(True, True)) == set(expected.keys(True, True))
        for key in expected.keys(True, True):
            if key not in (("next", "done"), ("next", "terminated"), ("next", "truncated")):
                assert torch.allclose(found[key].float(), expected[key].float(), atol=1e-5), key
                assert found[key].dtype == expected[key].dtype


@pytest.mark.peers
def test_multi_step_in_a_replay_buffer() -> None:
    rl = pytest.importorskip("torchrl.data")
    from specgen_runtime.interop import transform_to_torchrl

    buffer = rl.ReplayBuffer(
        storage=rl.LazyTensorStorage(100), transform=transform_to_torchrl(MultiStepTransform(3, 0.9))
    )
    data = walk(20, rows=1)[0]
    for moment in data.unbind(0):
        buffer.add(moment)
    stored = buffer.storage[:]
    assert stored.shape == (17,)
    assert torch.allclose(stored["next", "reward"][:, 0], by_hand(data, 3, 0.9)[0], atol=1e-5)


def sequences(*batch: int) -> TensorDict:
    time = torch.arange(batch[-1]).expand(batch)
    return TensorDict(a=time, b=TensorDict(c=time.unsqueeze(-1), batch_size=[*batch, 1]), batch_size=batch)


def test_crops() -> None:
    data = sequences(3, 4, 20)
    torch.manual_seed(0)
    crop = RandomCropTensorDict(11)(data)
    assert crop.shape == (3, 4, 11)
    assert crop["b"].batch_size == (3, 4, 11, 1)
    assert torch.equal(crop["a"][..., 1:], crop["a"][..., :-1] + 1)
    assert torch.equal(crop["b", "c"][..., 0], crop["a"])
    assert crop["a"][..., 0].unique().numel() > 3
    turned = RandomCropTensorDict(11, sample_dim=-2)(data.transpose(-1, -2))
    assert turned.shape == (3, 11, 4)
    assert torch.equal(turned["a"][:, 1:], turned["a"][:, :-1] + 1)


def test_crops_reach_both_ends() -> None:
    """TorchRL never draws the last start, and fails where the part is the whole."""
    torch.manual_seed(0)
    starts = torch.cat([RandomCropTensorDict(3)(sequences(50, 5))["a"][:, 0] for _ in range(4)])
    assert starts.unique().tolist() == [0, 1, 2]
    counts = torch.bincount(starts)
    assert counts.min() > 40  # of 200; 67 are expected
    assert torch.equal(RandomCropTensorDict(5)(sequences(2, 5))["a"], sequences(2, 5)["a"])


def test_crops_keep_to_masks() -> None:
    data = sequences(4, 20)
    data["mask"] = data["a"] < torch.tensor([[20], [15], [13], [14]])
    torch.manual_seed(0)
    for _ in range(20):
        assert RandomCropTensorDict(13, mask_key="mask")(data)["mask"].all()
    with pytest.raises(RuntimeError, match=r"Cannot sample trajectories of length 14 .* one of length 13"):
        RandomCropTensorDict(14, mask_key="mask")(data)
    with pytest.raises(RuntimeError, match="Cannot sample trajectories of length 21"):
        RandomCropTensorDict(21)(data)
    with pytest.raises(RuntimeError, match=r"the data have the batch size \[\]"):
        RandomCropTensorDict(2)(TensorDict(a=torch.zeros(3)))
    with pytest.raises(ValueError, match="sub_seq_len is at least 1"):
        RandomCropTensorDict(0)


class Sum(nn.Module):
    """Adds up along time, from a state: the simplest recurrent network."""

    def __init__(self) -> None:
        super().__init__()
        self.in_keys = ["x", "state"]
        self.out_keys = ["y", ("next", "state")]
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, data: TensorDictBase) -> TensorDictBase:
        start = data.get("state", None)
        first = 0 if start is None else start[..., :1, :]
        states = first + (data["x"] * self.scale).cumsum(-2)
        return data.set("y", states).set(("next", "state"), states)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("given", [True, False])
def test_burn_in(batch: tuple[int, ...], given: bool) -> None:
    x = torch.rand(*batch, 10, 4)
    data = TensorDict(x=x, next=TensorDict(batch_size=[*batch, 10]), batch_size=[*batch, 10])
    if given:
        data["state"] = torch.ones(*batch, 10, 4)
    kept = data.clone()
    out = BurnInTransform([Sum()], burn_in=6)(data)
    assert out.shape == (*batch, 4)
    expected = x[..., :6, :].sum(-2) + (1 if given else 0)
    assert torch.allclose(out["state"][..., 0, :], expected)
    assert out["state"][..., 1:, :].eq(1.0 if given else 0.0).all()
    assert not out["state"].requires_grad
    assert torch.equal(out["x"], x[..., 6:, :])
    assert (data == kept).all()
    assert set(data.keys(True, True)) == set(kept.keys(True, True))


def test_burn_in_of_other_keys() -> None:
    data = TensorDict(x=torch.ones(2, 5, 1), batch_size=[2, 5])
    for keys in (["state"], [("next", "state")]):
        burn = BurnInTransform(Sum(), 3, out_keys=keys)
        assert burn.out_keys == ["state"]
        assert burn(data.copy())["state"][:, 0].tolist() == [[3.0], [3.0]]
    assert BurnInTransform(Sum(), 0)(data) is data
    with pytest.raises(ValueError, match="cuts off 5 moments, and the data have 5"):
        BurnInTransform(Sum(), 5)(data)
    with pytest.raises(KeyError, match=r"has written \('next', 'other'\)"):
        BurnInTransform(Sum(), 2, out_keys=["other"])(data)
    with pytest.raises(TypeError, match="runs TensorDictModules, got Linear"):
        BurnInTransform([nn.Linear(2, 2)], 2)


@pytest.mark.peers
def test_burn_in_against_torchrl() -> None:
    rl = pytest.importorskip("torchrl.envs.transforms")
    modules = pytest.importorskip("torchrl.modules")
    torch.manual_seed(0)
    gru = modules.GRUModule(
        input_size=3,
        hidden_size=4,
        in_keys=["x", "h"],
        out_keys=["y", ("next", "h")],
        default_recurrent_mode=True,
    )
    data = TensorDict(
        x=torch.randn(2, 10, 3),
        h=torch.randn(2, 10, 1, 4),
        is_init=torch.zeros(2, 10, 1, dtype=torch.bool),
        batch_size=[2, 10],
    )
    expected = rl.BurnInTransform([gru], 5)(data.clone())
    found = BurnInTransform([gru], 5)(data.clone())
    assert torch.equal(found["h"], expected["h"])
    assert torch.equal(found["x"], expected["x"])


def test_flatten() -> None:
    data = sequences(2, 5)
    flatten = FlattenTensorDict()
    assert flatten(data).shape == (2, 5)
    assert flatten.inv(data).shape == (10,)
    assert FlattenTensorDict(inverse=False)(data).shape == (10,)
    assert FlattenTensorDict(inverse=False).inv(data).shape == (2, 5)


@pytest.mark.parametrize(
    "transform",
    [
        lambda: FlattenTensorDict(),
        lambda: MultiStepTransform(3, 0.9),
        lambda: RandomCropTensorDict(3),
        lambda: BurnInTransform([TensorDictModule(nn.Identity(), ["position"], [("next", "state")])], 2),
    ],
)
def test_environments_refuse_them(transform: Any) -> None:
    made = transform()
    assert isinstance(made, ReplayTransform)
    with pytest.raises(RuntimeError, match=f"{type(made).__name__} works on recorded data"):
        TransformedEnv(SerialEnv(1, Walk), made).reset()
    with pytest.raises(RuntimeError, match="works on recorded data"):
        made._call(TensorDict())
