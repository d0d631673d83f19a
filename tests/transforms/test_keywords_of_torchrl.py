"""Keywords of TorchRL's transforms: on recorded data, in environments, in replay buffers, and beside TorchRL's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.data import LazyTensorStorage, ReplayBuffer
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import (
    ActionScaling,
    CatFrames,
    CatTensors,
    ExcludeTransform,
    FlattenAction,
    RandomTruncationTransform,
    SelectTransform,
    StepCounter,
)
from tensordict import TensorDict, TensorDictBase

from tests.transforms.envs import Team, Walk


def theirs() -> Any:
    return pytest.importorskip("torchrl.envs.transforms", reason="the extra `peers`")


def recorded() -> TensorDictBase:
    return Walk(2).rollout(8, break_when_any_done=False)


@pytest.mark.parametrize("by_name", [True, False])
def test_keys_in_their_order(by_name: bool) -> None:
    data = TensorDict({("b", "x"): torch.ones(2, 1), "c": torch.rand(2, 2), "a": torch.zeros(2, 2)}, [2])
    keys = ["c", ("b", "x"), "a"]
    cat = CatTensors(keys, sort=by_name, del_keys=False)
    assert cat.in_keys == (["a", ("b", "x"), "c"] if by_name else keys)
    expected = torch.cat([data[key] for key in cat.in_keys], -1)
    assert torch.equal(cat(data.copy())["observation_vector"], expected)
    assert not CatTensors().sort


@pytest.mark.peers
def test_keys_in_the_order_of_torchrl() -> None:
    data = TensorDict({("b", "x"): torch.ones(2, 1), "c": torch.rand(2, 2), "a": torch.zeros(2, 2)}, [2])
    data["b!"] = torch.full((2, 1), 2.0)  # before ("b", "x"), which is joined as text
    for by_name in (True, False):
        ours, peer = (
            make(["c", ("b", "x"), "a", "b!"], sort=by_name)(data.copy())
            for make in (CatTensors, theirs().CatTensors)
        )
        assert torch.equal(ours["observation_vector"], peer["observation_vector"])


def test_left_out_on_the_way_in() -> None:
    transform = ExcludeTransform("position", inverse=True)
    data = recorded()
    stored = transform.inv(data)
    assert "position" not in stored.keys()  # noqa: SIM118 - a tensordict
    assert {*stored["next"].keys()} == {"reward", "done", "terminated"}
    assert torch.equal(transform(data.copy())["position"], data["position"])
    buffer = ReplayBuffer(storage=LazyTensorStorage(10), transform=transform, batch_size=2)
    buffer.extend(data[0])
    assert "position" not in buffer.sample().keys()  # noqa: SIM118
    env = TransformedEnv(Team(2), ExcludeTransform(("agents", "reward"), inverse=True))
    check_env_specs(env)
    assert ("agents", "reward") in env.reward_keys


def test_recorded_data_without_flags() -> None:
    data = recorded()
    bare = SelectTransform("position", keep_dones=False, keep_rewards=False)(data.copy())
    assert {*bare.keys(True, True)} == {"position", ("next", "position")}
    some = SelectTransform("position", "done", keep_dones=False)(data.copy())
    assert {*some["next"].keys()} == {"position", "done", "reward"}
    agents = SelectTransform(("agents", "x"), keep_dones=False)(Team(2).rollout(3))
    assert {*agents["next"].keys(True, True)} == {("agents", "x"), ("agents", "reward")}
    env = TransformedEnv(Walk(2), SelectTransform("position", keep_dones=True))
    check_env_specs(env)


@pytest.mark.parametrize("padding", ["same", "constant"])
def test_frames_on_the_way_into_a_replay_buffer(padding: str) -> None:
    data = recorded()
    given: dict[str, Any] = {"N": 3, "dim": -1, "in_keys": ["position"], "out_keys": ["frames"]}
    early, late = (CatFrames(**given, padding=padding, as_inverse=early) for early in (True, False))
    expected = late(data.copy())
    stored = early.inv(data)
    for place in ("frames", ("next", "frames")):
        assert torch.equal(stored[place], expected[place])
    assert "frames" not in early(data.copy()).keys()  # noqa: SIM118
    assert "frames" not in late.inv(data).keys()  # noqa: SIM118
    buffer = ReplayBuffer(storage=LazyTensorStorage(8), transform=early, batch_size=8)
    buffer.extend(data[0])
    assert torch.equal(buffer[:]["frames"], expected[0]["frames"])
    with pytest.raises(ValueError, match="with as_inverse=True is for replay buffers only"):
        TransformedEnv(Walk(2), CatFrames(3, -1, ["position"], as_inverse=True)).reset()


@pytest.mark.peers
@pytest.mark.parametrize("padding", ["same", "constant"])
def test_frames_are_those_of_torchrl(padding: str) -> None:
    data = recorded()
    data["next", "over"] = data["next", "done"].clone()
    given: dict[str, Any] = {"N": 3, "dim": -1, "in_keys": ["position"], "out_keys": ["frames"]}
    for more in ({"as_inverse": True}, {"as_inverse": True, "done_key": "over"}):
        ours, peer = (
            make(**given, padding=padding, **more).inv(data.copy())
            for make in (CatFrames, theirs().CatFrames)
        )
        assert torch.equal(ours["frames"], peer["frames"])


def test_a_flag_of_the_user_ends_episodes() -> None:
    data = recorded()
    expected = CatFrames(3, -1, ["position"])(data.copy())
    data["next", "over"] = data["next", "done"].clone()
    data["next", "done"] = torch.zeros_like(data["next", "done"])
    assert torch.equal(
        CatFrames(3, -1, ["position"], done_key="over")(data)["position"], expected["position"]
    )
    check_env_specs(TransformedEnv(Walk(2), CatFrames(3, -1, ["position"], done_key="over")))
    with pytest.raises(KeyError, match=r"the done_key 'end' is not under 'next', which holds .*'over'"):
        CatFrames(3, -1, ["position"], done_key="end")(data)
    with pytest.raises(TypeError, match="a key is text or a tuple of text, got 3"):
        CatFrames(3, -1, ["position"], done_key=3)  # type: ignore[arg-type]


def test_recorded_actions() -> None:
    data = TensorDict({"action": torch.rand(4, 3, 5)}, [4])
    flatten = FlattenAction(in_keys=["action"])
    assert torch.equal(flatten(data.copy())["action"], data["action"].flatten(-2, -1))
    assert torch.equal(flatten(data["action"]), data["action"].flatten(-2, -1))
    assert flatten.in_keys_inv == ["action"]
    beside = FlattenAction(in_keys=["action"], out_keys=["flat"])(data.copy())
    assert torch.equal(beside["flat"], data["action"].flatten(-2, -1))
    assert torch.equal(FlattenAction()(data.copy())["action"], data["action"])
    loc, scale = torch.tensor(0.5), torch.tensor(2.0)
    scaling = ActionScaling(in_keys=["action"], loc=loc, scale=scale)
    assert torch.equal(scaling(data.copy())["action"], (data["action"] - loc) / scale)
    with pytest.raises(ValueError, match="with these parameters nothing is made of 'action'"):
        ActionScaling(in_keys=["action"])(data.copy())
    zero = torch.tensor(0.0)
    for out_keys in (None, ["scaled"]):
        env = TransformedEnv(
            Walk(2), ActionScaling(in_keys=["action"], out_keys=out_keys, loc=zero, scale=scale)
        )
        check_env_specs(env)
        taken = env.rollout(3)
        assert env.transform.in_keys == []
        assert (env.action_spec.low == -0.5).all()
        shown = env.transform(taken.copy())["action" if out_keys is None else "scaled"]
        assert torch.equal(shown, taken["action"] / scale)


@pytest.mark.peers
def test_recorded_actions_are_those_of_torchrl() -> None:
    data = TensorDict({"action": torch.rand(4, 3, 5)}, [4])
    numbers = {"loc": torch.tensor(0.5), "scale": torch.tensor(2.0)}
    for name, more in (("FlattenAction", {}), ("ActionScaling", numbers)):
        ours = {"FlattenAction": FlattenAction, "ActionScaling": ActionScaling}[name]
        found, wanted = (
            make(in_keys=["action"], **more)(data.copy()) for make in (ours, getattr(theirs(), name))
        )
        torch.testing.assert_close(found["action"], wanted["action"])


def lengths(transform: RandomTruncationTransform, rows: int, steps: int) -> list[list[int]]:
    """How long the episodes of each row were, in their order."""
    env = TransformedEnv(Still(rows), Compose(StepCounter(), transform))
    env.set_seed(0)
    data = env.rollout(steps, break_when_any_done=False)["next"]
    ends = [[int(n) for n in row["step_count"][row["done"]]] for row in data]
    return [[*row, 0] for row in ends]


class Still(Walk):
    """Stays where it is, so that nothing else ends an episode."""

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        tensordict = tensordict.copy().set("action", -0.25 * tensordict["position"])
        return super()._step(tensordict)


def test_episodes_behind_the_first_ones() -> None:
    second = lengths(RandomTruncationTransform(1, 10, 0.0, 1.0), 16, 60)
    behind = [length for row in second for length in row[1:-1]]
    short = [length for length in behind if length < 10]
    assert 10 <= len(short) <= 24  # as many episodes as there are rows have a random length
    never = lengths(RandomTruncationTransform(1, 10), 16, 60)
    assert all(length == 10 for row in never for length in row[1:-1])
    with pytest.raises(ValueError, match="first_episode_prob must be <= 1"):
        RandomTruncationTransform(1, 10, 0.0, 1.5)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_recorded_episodes_are_cut_off_as_in_an_environment(batch: tuple[int, ...]) -> None:
    data = TransformedEnv(Walk(*batch), StepCounter()).rollout(12, break_when_any_done=False)
    cut = RandomTruncationTransform(4, 4)(data.copy())
    truncated, late = cut["next", "truncated"], data["next", "step_count"] >= 4
    assert late.any()
    assert truncated.shape == late.shape  # with the trailing 1 of flags: the count is one of them
    assert truncated[late].all()
    assert torch.equal(cut["next", "done"], data["next", "terminated"] | truncated)
