"""Transforms on recorded data: rollouts, stacks of them, samples of a replay buffer, single moments."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.transforms import (
    CatFrames,
    CatTensors,
    DoubleToFloat,
    ExcludeTransform,
    InitTracker,
    ObservationNorm,
    RewardScaling,
    RewardSum,
    SelectTransform,
    Stack,
    StepCounter,
)
from tensordict import TensorDict, TensorDictBase

from tests.support import generate, imported
from tests.transforms.envs import Team, Walk

BATCHES = [(), (3,), (4, 3)]

SCHEMA = """
specgen: 1
transforms:
  Start:
    in: {x: {each: [], type: "float[...]"}}
    out: {start: {each: x, name: "first_{}"}}
    carry: [start]
    reset: {start: x}
    step: {next.start: start}
  Smooth:
    in: {x: {each: [], type: "float[...]"}}
    out: {mean: {each: x, name: "mean_{}", keyword: mean_key}, change: {each: x, name: "change_{}"}}
    carry: [mean]
    reset: {mean: 2 * x, change: zeros_like(x)}
    step: {next.mean: 0.5 * mean + next.x, next.change: next.x - x}
"""


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"transforms.yaml": SCHEMA}, "offline_transforms")
    with imported(files, "offline_transforms", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("offline_transforms.transforms")


def recorded(env: Any, steps: int = 30) -> TensorDictBase:
    torch.manual_seed(0)
    data: TensorDictBase = env.rollout(steps, break_when_any_done=False)
    assert data["next", "done"].any()
    return data


def assert_same(data: TensorDictBase, expected: TensorDictBase) -> None:
    for key, value in expected.items(True, True):
        assert data[key].dtype == value.dtype, key
        assert torch.equal(data[key], value), key


# ------------------------------------------------------------------------------------------------------- map


def norm() -> ObservationNorm:
    return ObservationNorm([0.0, 1.0, 2.0], 2.0, ["position"])


@pytest.mark.parametrize("batch", BATCHES)
def test_a_map_is_applied_at_the_root_and_under_next(batch: tuple[int, ...]) -> None:
    data = recorded(Walk(*batch))
    both = recorded(TransformedEnv(Walk(*batch), Compose(norm(), RewardScaling(0.5, 0.1))))
    replayed = Compose(norm(), RewardScaling(0.5, 0.1))(data.copy())
    for key in ("position", ("next", "position"), ("next", "reward")):
        assert torch.equal(replayed[key], both[key]), key
    assert "reward" not in replayed


def test_stacked_rollouts_and_samples_of_them() -> None:
    data = torch.stack([recorded(Walk(3)), recorded(Walk(3))])
    flat = data.reshape(-1)[torch.randperm(data.numel())]
    for moments in (data, flat):
        scaled = norm()(moments.copy())
        for key in ("position", ("next", "position")):
            assert torch.equal(scaled[key], moments[key] * 2.0 + torch.tensor([0.0, 1.0, 2.0])), key


def test_one_moment() -> None:
    fresh = Walk(3).reset()
    scaled = norm()(fresh.copy())
    assert torch.equal(scaled["position"], fresh["position"] * 2.0 + torch.tensor([0.0, 1.0, 2.0]))
    assert "next" not in scaled


def test_nested_keys() -> None:
    data = recorded(TransformedEnv(Team(3), StepCounter(max_steps=4)))
    key = ("agents", "x")
    scaled = Compose(ObservationNorm(1.0, 2.0, [key]), RewardScaling(1.0, 2.0, [("agents", "reward")]))(
        data.copy()
    )
    for place in (key, ("next", *key), ("next", "agents", "reward")):
        assert torch.equal(scaled[place], data[place] * 2.0 + 1.0), place


def test_a_key_that_is_named_under_next_is_mapped_once() -> None:
    data = recorded(Walk(3))
    assert_same(
        ObservationNorm(1.0, 2.0, ["position", ("next", "position")])(data.copy()),
        ObservationNorm(1.0, 2.0, ["position"])(data.copy()),
    )
    renamed = ObservationNorm(1.0, 2.0, ["position", ("next", "position")], ["x", "y"])(data.copy())
    assert torch.equal(renamed["y"], data["next", "position"] * 2.0 + 1.0)
    assert ("next", "x") not in renamed.keys(True)


@pytest.mark.parametrize(
    "transform",
    [
        CatTensors(["x", "y"], "v"),
        Stack(["x", "y"], "v"),
        SelectTransform("x"),
        ExcludeTransform("x", "y"),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_roles_of_several_keys(transform: Transform) -> None:
    """What is read together is mapped at the root and under `"next"` as in either alone."""
    moment = TensorDict({"x": torch.rand(3, 2), "y": torch.rand(3, 2), "z": torch.rand(3)}, [3])
    following = moment.apply(torch.rand_like)
    assert following is not None
    mapped = transform(TensorDict({**moment, "next": following.copy()}, [3]))
    assert set(mapped.keys()) - {"next"} == set(mapped["next"].keys())
    assert_same(mapped["next"], transform(following))
    assert_same(mapped.exclude("next"), transform(moment))


@pytest.mark.parametrize("keep_rewards", [True, False])
def test_selecting_keeps_flags_and_rewards_as_in_the_environment(keep_rewards: bool) -> None:
    data = recorded(Walk(3))
    selected = SelectTransform("position", keep_rewards=keep_rewards)(data.copy())
    flags = {"done", "terminated", "truncated"} & set(data["next"].keys())
    assert flags
    assert flags <= set(selected["next"].keys()) & set(selected.keys())
    assert ("reward" in selected["next"]) == keep_rewards


def test_keys_that_nobody_chose() -> None:
    data = recorded(Walk(3, dtype=torch.float64))
    cast = DoubleToFloat()(data.copy())
    for key in ("position", "action", ("next", "position"), ("next", "reward")):
        assert cast[key].dtype == torch.float32, key
    assert cast["next", "done"].dtype == torch.bool
    assert "reward" not in cast


def test_a_key_that_stands_nowhere() -> None:
    data = recorded(Walk(3))
    with pytest.raises(KeyError, match="ObservationNorm reads 'speed', which is not in the tensordict"):
        ObservationNorm(0.0, 1.0, ["speed"])(data.copy())
    with pytest.raises(KeyError, match="RewardScaling reads 'reward'"):
        RewardScaling(0.0, 1.0)(data.select("position"))
    tolerant = ObservationNorm(0.0, 1.0, ["speed"])
    tolerant.set_missing_tolerance(True)
    assert_same(tolerant(data.copy()), data)


def test_a_transform_written_by_hand() -> None:
    class Double(Transform):
        def _apply_transform(self, obs: torch.Tensor, /) -> torch.Tensor:
            return obs * 2

    data = recorded(Walk(3))
    doubled = Double(["position"], ["twice"])(data.copy())
    assert torch.equal(doubled["twice"], data["position"] * 2)
    assert torch.equal(doubled["next", "twice"], data["next", "position"] * 2)


def test_the_inverse_changes_what_the_policy_wrote() -> None:
    data = recorded(Walk(3))
    cast = DoubleToFloat(in_keys_inv=["action"])
    inner = cast.inv(data)
    assert inner["action"].dtype == torch.float64
    assert data["action"].dtype == torch.float32
    assert_same(inner.exclude("action"), data.exclude("action"))


# ---------------------------------------------------------------------------------------------------- replay


@pytest.mark.parametrize("batch", [*BATCHES, (1,)])
@pytest.mark.parametrize("make", [lambda: Walk, lambda: Team], ids=["walk", "team"])
def test_offline_equals_online(batch: tuple[int, ...], make: Callable[[], Any]) -> None:
    chain = Compose(InitTracker(), StepCounter(max_steps=5), RewardSum())
    env = TransformedEnv(make()(*batch), chain)
    data = recorded(env)
    added = [key for key in env.observation_keys if key not in env.base_env.observation_keys]
    assert len(added) == 3
    raw = data.exclude(*added, *(("next", *((key,) if isinstance(key, str) else key)) for key in added))
    assert_same(Compose(InitTracker(), StepCounter(max_steps=5), RewardSum())(raw.copy()), data)
    assert_same(env.transform(raw.copy()), data)


def test_every_episode_begins_with_its_own_root(declared: ModuleType) -> None:
    # Rows of data begin anew at moments of their own; no two episodes begin with the same position.
    torch.manual_seed(0)
    position, done = torch.randn(4, 3, 20, 3), torch.rand(4, 3, 20, 1) < 0.3
    following = torch.randn(4, 3, 20, 3)
    data = TensorDict(
        {"position": position, "next": {"position": following, "done": done}},
        [4, 3, 20],
        names=[None, None, "time"],
    )
    replayed = Compose(declared.Start(["position"]), declared.Smooth(["position"]))(data.copy())
    first, mean = position[:, :, 0], 2 * position[:, :, 0]
    change = torch.zeros_like(first)
    for moment in range(20):
        if moment:
            new = done[:, :, moment - 1]
            first = torch.where(new, position[:, :, moment], first)
            mean = torch.where(new, 2 * position[:, :, moment], mean)
            change = torch.where(new, 0.0, change)
        at = replayed[:, :, moment]
        assert torch.equal(at["first_position"], first)
        assert torch.equal(at["mean_position"], mean)
        assert torch.equal(at["change_position"], change)
        mean = 0.5 * mean + following[:, :, moment]
        change = following[:, :, moment] - position[:, :, moment]
        assert torch.equal(at["next", "first_position"], first)
        assert torch.equal(at["next", "mean_position"], mean)
        assert torch.equal(at["next", "change_position"], change)


@pytest.mark.parametrize("batch", BATCHES)
def test_resets_that_read_their_input(declared: ModuleType, batch: tuple[int, ...]) -> None:
    def chain() -> Compose:
        return Compose(declared.Smooth(["position"]), declared.Start(["mean_position"]))

    data = recorded(TransformedEnv(Walk(*batch), chain()))
    assert_same(chain()(recorded(Walk(*batch))), data)


def test_an_output_in_its_inputs_place_takes_nothing_from_the_data(declared: ModuleType) -> None:
    data = recorded(Walk(3))
    beside = declared.Smooth(["position"])(data.copy())
    replaced = declared.Smooth(["position"], mean_key="position")(data.copy())
    assert torch.equal(replaced["position"], beside["mean_position"])
    assert torch.equal(replaced["next", "position"], beside["next", "mean_position"])


def test_an_episode_that_began_before_the_data_continues(declared: ModuleType) -> None:
    for transform in (RewardSum(), declared.Start(["position"])):
        data = recorded(TransformedEnv(Walk(3), transform))
        later = data[:, 2:].clone()
        for key in transform.out_keys:
            later[key][:, 1:] = torch.nan
        later = later.exclude(*(("next", key) for key in transform.out_keys))
        assert_same(transform(later), data[:, 2:])


def test_any_data_one_after_the_other() -> None:
    total = RewardSum()
    for batch in BATCHES:
        data = recorded(TransformedEnv(Walk(*batch), RewardSum()))
        raw = data.exclude("episode_reward", ("next", "episode_reward"))
        assert_same(total(raw), data)


def test_an_environment_says_the_keys_and_the_data_the_shapes() -> None:
    env = TransformedEnv(Walk(), RewardSum(out_keys=["total"]))
    data = recorded(TransformedEnv(Walk(4, 3), RewardSum(out_keys=["total"])))
    assert_same(env.transform(data.exclude("total", ("next", "total"))), data)


def test_keys_under_next_are_those_of_a_moment() -> None:
    data = recorded(TransformedEnv(Walk(3), Compose(RewardSum(), CatFrames(3, -1, ["position"], ["frames"]))))
    raw = data.exclude("episode_reward", "frames", ("next", "episode_reward"), ("next", "frames"))
    total = RewardSum([("next", "reward")], [("next", "episode_reward")])
    keys = ["position", ("next", "position")]
    frames = CatFrames(3, -1, in_keys=keys, out_keys=["frames", ("next", "frames")])
    assert_same(Compose(total, frames)(raw.copy()), data)
    inside = CatFrames(3, -1, in_keys=keys)(raw.copy())
    assert torch.equal(inside["position"], data["frames"])
    assert torch.equal(inside["next", "position"], data["next", "frames"])


def test_no_moment_at_all() -> None:
    data = recorded(TransformedEnv(Walk(3), RewardSum()))[:, :0]
    assert RewardSum()(data.copy())["next", "episode_reward"].shape == (3, 0, 1)


@pytest.mark.parametrize("future", [False, True])
def test_what_is_made_of_no_moment_has_its_shape(future: bool) -> None:
    after = TensorDict(
        {"pixels": torch.zeros(2, 0, 4), "done": torch.zeros(2, 0, 1, dtype=torch.bool)}, [2, 0]
    )
    data = TensorDict({"pixels": torch.zeros(2, 0, 4), "next": after}, [2, 0], names=[None, "time"])
    found = CatFrames(3, -1, future=future)(data)
    assert found["pixels"].shape == (2, 0, 12)


def test_data_without_done() -> None:
    data = recorded(Walk(3)).exclude(("next", "done"), ("next", "terminated"))
    total = RewardSum()(data)["next", "episode_reward"]
    assert torch.allclose(total, data["next", "reward"].cumsum(1))


def test_sequences_without_names_have_time_behind() -> None:
    data = recorded(TransformedEnv(Walk(3), Compose(StepCounter(), RewardSum())))
    keys = ["step_count", "episode_reward"]
    bare = data.exclude(*keys, *(("next", key) for key in keys))
    bare.names = None
    again = Compose(StepCounter(), RewardSum())(bare)
    assert_same(again, data.select(*keys, *(("next", key) for key in keys)))
    turned = data.exclude(*keys, *(("next", key) for key in keys))
    turned.names = ["time", None]  # what is named is believed
    assert (RewardSum()(turned)["next", "episode_reward"][0] == turned["next", "reward"][0]).all()


def test_a_replay_needs_time() -> None:
    with pytest.raises(ValueError, match="must be named 'time'"):
        RewardSum()(TensorDict({"next": {"reward": torch.ones(3, 1)}}, [3]))
    with pytest.raises(ValueError, match="must be named 'time'"):
        RewardSum()(TensorDict({"next": {"reward": torch.ones(3, 2, 1)}}, [3, 2], names=["row", None]))
    with pytest.raises(ValueError, match="must be named 'time'"):
        RewardSum()(TensorDict({"next": {"reward": torch.ones(1)}}, []))
    with pytest.raises(KeyError, match="under 'next'"):
        RewardSum()(TensorDict({"reward": torch.ones(3, 1)}, [3], names=["time"]))
    with pytest.raises(KeyError, match="RewardSum reads 'prize'"):
        RewardSum(["prize"], ["total"])(recorded(Walk(3)))
