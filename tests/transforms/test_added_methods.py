"""Methods that transforms have besides their own: those of TorchRL's, beside TorchRL's, and those of a class of one's own."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from specgen_runtime.data import LazyTensorStorage, ReplayBuffer
from specgen_runtime.transforms import Compose, GeneratedTransform, TransformedEnv
from specgen_std.envs.pendulum import Pendulum
from specgen_std.losses import DQNLoss
from specgen_std.transforms import ActionScaling, CatFrames, EndOfLifeTransform, StepCounter, VecNorm
from tensordict import TensorDict, TensorDictBase
from torch import nn

from tests.transforms.screens import Screen

MEAN, STD = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0])
STATISTICS: list[dict[str, Any]] = [
    {"mean": MEAN, "std": STD},
    {"low": -STD, "high": MEAN},
    {"mean": MEAN, "std": torch.zeros(2), "eps": 0.5},
]


def theirs() -> Any:
    return pytest.importorskip("torchrl.envs.transforms", reason="the extra `peers`")


def equal(ours: TensorDictBase, peer: TensorDictBase) -> bool:
    keys = {*ours.keys(True, True)}
    return keys == {*peer.keys(True, True)} and all(torch.equal(ours[key], peer[key]) for key in keys)


@pytest.mark.peers
@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize(
    "keywords",
    [{}, {"standard_normal": False}, {"in_keys_inv": []}, {"in_keys_inv": ["a"], "out_keys": ["b"]}],
)
def test_actions_scaled_by_statistics(statistics: dict[str, Any], keywords: dict[str, Any]) -> None:
    data = TensorDict({"action": torch.randn(5, 2), "a": torch.randn(5, 2)}, [5])
    ours, peer = (
        kind.from_stats(**statistics, **keywords) for kind in (ActionScaling, theirs().ActionScaling)
    )
    assert equal(ours(data.copy()), peer(data.copy()))
    assert equal(ours.inv(data.copy()), peer.inv(data.copy()))
    torch.testing.assert_close(ours.normalize(data["a"]), peer.normalize(data["a"]))
    torch.testing.assert_close(ours.denormalize(data["a"]), peer.denormalize(data["a"]))


def test_whole_numbers_and_other_shapes_of_actions() -> None:
    scaling = ActionScaling.from_stats(mean=[0.5, 1.5], std=[0.5, 2.0])
    whole = torch.tensor([[1, 2]])  # whose dtype would round the statistics
    torch.testing.assert_close(scaling.normalize(whole), torch.tensor([[1.0, 0.25]]))
    torch.testing.assert_close(scaling.denormalize(whole), torch.tensor([[1.0, 5.5]]))
    for method in (scaling.normalize, scaling.denormalize):
        with pytest.raises(
            ValueError, match=r"loc and scale of the shape \[2\], for actions .*, got \[4, 1\]"
        ):
            method(torch.ones(4, 1))
        with pytest.raises(ValueError, match=r"got \[4, 3\]"):
            method(torch.ones(4, 3))


@pytest.mark.peers
def test_actions_scaled_by_what_a_data_set_says() -> None:
    from torchrl.data.vla import RobotDatasetMetadata

    data = TensorDict({"act": torch.randn(5, 2)}, [5])
    for said in ({"action_low": -STD, "action_high": MEAN}, {"action_mean": MEAN, "action_std": STD}):
        for keywords in ({}, {"in_keys_inv": []}):
            metadata = RobotDatasetMetadata("robots", action_key="act", **said)
            ours, peer = (
                kind.from_metadata(metadata, **keywords) for kind in (ActionScaling, theirs().ActionScaling)
            )
            assert equal(ours(data.copy()), peer(data.copy()))
    with pytest.raises(ValueError, match="has neither action_mean and action_std nor"):
        ActionScaling.from_metadata(RobotDatasetMetadata("robots"))


def test_statistics_in_a_replay_buffer() -> None:
    data = TensorDict({"action": torch.randn(6, 2)}, [6])
    scaling = ActionScaling.from_stats(mean=MEAN, std=STD, in_keys_inv=[])
    buffer = ReplayBuffer(storage=LazyTensorStorage(6), transform=scaling, batch_size=6)
    buffer.extend(data)
    assert torch.equal(buffer.storage[:]["action"], data["action"])
    assert torch.equal(buffer[:]["action"], (data["action"] - MEAN) / STD)


def test_half_of_two_statistics() -> None:
    for given in ({"mean": MEAN}, {"low": MEAN}, {}, {"mean": MEAN, "std": STD, "low": MEAN, "high": STD}):
        with pytest.raises(ValueError, match="give mean and std, or low and high"):
            ActionScaling.from_stats(**given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"the same shape, got \(2,\) and \(\)"):
        ActionScaling.from_stats(mean=MEAN, std=1.0)


def test_statistics_that_no_data_have() -> None:
    for given, message in (
        ({"mean": MEAN, "std": [1.0, -2.0]}, r"std must be >= 0, got \[1.0, -2.0\]"),
        ({"mean": MEAN, "std": [1.0, float("nan")]}, r"std must be finite, got \[1.0, nan\]"),
        ({"mean": [0.0, float("inf")], "std": STD}, r"mean must be finite, got \[0.0, inf\]"),
        ({"low": [0.0, float("nan")], "high": STD}, r"low must be finite, got \[0.0, nan\]"),
        ({"low": [0.0, 1.0], "high": [1.0, 0.5]}, r"high must be >= low, \[0.0, 1.0\], got \[1.0, 0.5\]"),
    ):
        with pytest.raises(ValueError, match=message):
            ActionScaling.from_stats(**given)  # type: ignore[arg-type]
    constant = ActionScaling.from_stats(mean=MEAN, std=[0.0, 1.0], eps=0.5)  # a number that never changes
    assert constant.scale is not None
    assert constant.scale.tolist() == [0.5, 1.0]


@pytest.mark.parametrize("standard_normal", [True, False])
def test_actions_scaled_by_the_bounds_of_an_environment(standard_normal: bool) -> None:
    env = TransformedEnv(Pendulum(), ActionScaling(standard_normal=standard_normal))
    low = -1.0 if standard_normal else 0.0
    scaling = env.transform
    assert torch.equal(scaling.normalize(torch.tensor([-2.0])), torch.tensor([low]))
    assert torch.equal(scaling.denormalize(torch.tensor([low])), torch.tensor([-2.0]))
    with pytest.raises(RuntimeError, match="neither loc and scale nor an environment"):
        ActionScaling().normalize(torch.zeros(1))


@pytest.mark.parametrize("padding", ["same", "constant"])
def test_frames_are_stacked_when_they_are_sampled(padding: Literal["same", "constant"]) -> None:
    frames = CatFrames(4, -1, ["observation"], ["stack"], padding=padding)
    env = TransformedEnv(Pendulum(), Compose(StepCounter(25), frames))
    data = env.rollout(100, break_when_any_done=False)
    transform, sampler = frames.make_rb_transform_and_sampler(8)
    memory = ReplayBuffer(storage=LazyTensorStorage(100), sampler=sampler, batch_size=8, transform=transform)
    memory.extend(data)
    stored = memory.storage[:]
    assert not {"stack", ("next", "stack")} & {*stored.keys(True)}
    seen = set()
    for _ in range(5):
        sample = memory.sample()
        assert sample.shape == (8,)
        for row in sample.unbind(0):
            at = int((data["observation"] == row["observation"]).all(-1).nonzero()[0, 0])
            seen.add(at)
            assert torch.equal(row["stack"], data["stack"][at])
            assert torch.equal(row["next", "stack"], data["next", "stack"][at])
    assert len(seen) > 20
    assert min(at % 25 for at in seen) >= 3  # parts are whole


@pytest.mark.peers
def test_frames_that_are_sampled_are_those_of_torchrl() -> None:
    from torchrl.data import LazyTensorStorage as Storage
    from torchrl.data import ReplayBuffer as Buffer

    env = TransformedEnv(Pendulum(), StepCounter(25))
    data = env.rollout(100, break_when_any_done=False)
    samples = []
    for kind, storage, memory, keywords in (
        (CatFrames, LazyTensorStorage(100), ReplayBuffer, {}),
        (theirs().CatFrames, Storage(100), Buffer, {"reset_key": "_reset"}),
    ):
        frames = kind(4, -1, ["observation"], ["stack"], **keywords)
        transform, sampler = frames.make_rb_transform_and_sampler(8)
        made: Any = memory(storage=storage, sampler=sampler, batch_size=8, transform=transform)
        made.extend(data)
        torch.manual_seed(0)
        samples.append(made.sample())
    assert samples[0].shape == (8,)
    for key in ("observation", "stack", ("next", "stack"), ("next", "done")):
        assert torch.equal(samples[0][key], samples[1][key])


def test_frames_in_place_cannot_be_stored() -> None:
    with pytest.raises(
        ValueError, match="writes 'observation' in place of the frames: name other `out_keys`"
    ):
        CatFrames(4, -1, ["observation"]).make_rb_transform_and_sampler(8)


def test_the_way_back_of_running_statistics() -> None:
    env = TransformedEnv(Pendulum(batch_size=(3,)), VecNorm(["observation", "reward"], ["x", "r"]))
    data = env.rollout(20)
    norm = env.transform.freeze()
    normed = norm(data.exclude("x", ("next", "x"), ("next", "r")))
    bare = normed.exclude("observation", ("next", "observation"), ("next", "reward"))
    for one in (norm, norm.frozen_copy()):
        back = one.denorm(bare)
        for key in ("observation", ("next", "observation"), ("next", "reward")):
            torch.testing.assert_close(back[key], data[key])
    assert "observation" not in bare.keys()  # noqa: SIM118
    fixed = norm.to_observation_norm()(data.exclude("x", ("next", "x"), ("next", "r")))
    for key in ("x", ("next", "x"), ("next", "r")):
        assert torch.equal(fixed[key], normed[key])
    assert torch.equal(norm.loc["observation"], norm.state_dict()["loc|observation"])
    with pytest.raises(RuntimeError, match="has seen nothing of 'observation' yet"):
        TransformedEnv(Pendulum(), VecNorm(["observation"])).transform.denorm(data)
    loaded = VecNorm(["observation", "reward"], ["x", "r"])
    with pytest.raises(RuntimeError):
        loaded.denorm(data)
    loaded.load_state_dict(norm.state_dict())
    assert torch.equal(loaded.scale["reward"], norm.scale["reward"])


def test_data_stay_as_they_are_before_running_statistics_have_seen_a_row() -> None:
    data = TensorDict({"observation": 5 + 3 * torch.randn(4, 3)}, [4])
    transform = VecNorm(["observation"], ["x"])
    assert torch.equal(transform(data.clone())["x"], data["observation"])
    assert torch.equal(transform._step(data.clone(), data.clone())["x"], data["observation"])
    with pytest.raises(RuntimeError, match="has seen nothing of 'observation' yet"):
        _ = transform.loc
    frozen = TransformedEnv(Pendulum(batch_size=(3,)), transform.freeze()).rollout(5)
    assert torch.equal(frozen["x"], frozen["observation"])


@pytest.mark.parametrize("decay", [1.0, 0.9])
def test_what_a_first_row_is_compared_with_counts_for_nothing(decay: float) -> None:
    env = TransformedEnv(Pendulum(batch_size=(64,)), VecNorm(["observation"], ["x"], decay=decay))
    seen = env.reset()["observation"].double()
    torch.testing.assert_close(env.transform.loc["observation"], seen.mean(0))
    torch.testing.assert_close(env.transform.scale["observation"], seen.std(0, correction=0))


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:This class is to be deprecated")
def test_running_statistics_are_those_of_torchrl() -> None:
    data = TensorDict({"observation": torch.randn(64, 3) * 3 + 2}, [64])
    peer = theirs().VecNorm(["observation"], ["x"], decay=1.0)
    normed = peer(data.copy())
    env = TransformedEnv(Pendulum(batch_size=(64,)), VecNorm(["observation"], ["x"], decay=1.0))
    ours = env.transform
    ours._step(data, data.copy())
    torch.testing.assert_close(ours.loc["observation"].float(), peer.loc["observation"])
    torch.testing.assert_close(
        ours.scale["observation"].float(), peer.scale["observation"], rtol=1e-4, atol=0
    )
    bare = normed.exclude("observation")
    torch.testing.assert_close(
        ours.denorm(bare)["observation"], peer.denorm(bare)["observation"], rtol=1e-3, atol=1e-4
    )


def test_a_lost_life_is_an_end_for_a_loss() -> None:
    loss = DQNLoss(nn.Linear(3, 2), action_space="categorical")
    EndOfLifeTransform(eol_key="lost").register_keys(loss)
    assert (loss.tensor_keys.done, loss.tensor_keys.terminated) == ("lost", "lost")
    env = TransformedEnv(Screen(), EndOfLifeTransform())
    env.transform.register_keys(loss)
    assert loss.tensor_keys.done == "end_of_life"


def test_a_method_that_is_there_already() -> None:
    class Hides:
        def forward(self) -> None: ...

    class Param:
        def size(self) -> int:
            return 1

    with pytest.raises(
        TypeError, match=r"Hides is to add methods to Made, where 'forward' is what \w+ has already"
    ):

        class Made(GeneratedTransform[Any], Hides):  # type: ignore[misc]
            _methods = Hides

    with pytest.raises(TypeError, match="'size' is a parameter already: give it another name"):

        class Sized(GeneratedTransform[Any], Param):
            _methods = Param

            def __init__(self, size: int) -> None:
                super().__init__()
