"""Classes behind transforms of recorded data: what they are given, and what becomes of what they return."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import Pendulum
from specgen_std.transforms import Reward2GoTransform, RewardSum, StepCounter
from tensordict import TensorDict

from tests.support import generate, imported
from tests.transforms.envs import Team, Walk
from tests.transforms.test_recursion import episodes

SCHEMA = Path(__file__).parent / "schemas" / "python_offline.yaml"
BATCHES: list[tuple[int, ...]] = [(), (3,), (4, 3)]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"a.yaml": SCHEMA.read_text(encoding="utf-8")}, "python_offline")
    with imported(files, "python_offline", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("python_offline.a")


def valued(*batch: int, goals: tuple[str, ...] = ()) -> TensorDict:
    """Episodes that may go on behind the data, with a value at each moment, and goals at some places."""
    data = episodes(*batch, closed=False)
    shape = data.batch_size
    data["state_value"], data["next", "state_value"] = torch.randn(*shape, 1), torch.randn(*shape, 1)
    for place in goals:
        (data if place == "root" else data["next"])["goal"] = torch.randn(*shape, 2)
    return data


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_a_class_gives_what_a_recursion_gives(
    generated: ModuleType, batch: tuple[int, ...], gamma: float
) -> None:
    data = episodes(*batch)
    expected = Reward2GoTransform(gamma)(data.copy())["next", "reward"]
    assert torch.equal(generated.ToGo(gamma=gamma)(data.copy())["next", "reward"], expected)
    beside = generated.ToGo(gamma=gamma, out_keys=["togo"])(data.copy())
    assert torch.equal(beside["togo"], expected)
    assert torch.equal(beside["next", "reward"], data["next", "reward"])


@pytest.mark.parametrize("batch", BATCHES)
def test_recorded_data_get_what_they_would_have_got(generated: ModuleType, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Pendulum(batch_size=batch), Compose(RewardSum(), StepCounter(5)))
    data = env.rollout(17, break_when_any_done=False)
    plain = data.exclude("episode_reward", ("next", "episode_reward"))
    assert torch.equal(generated.SoFar()(plain)["next", "episode_reward"], data["next", "episode_reward"])


@pytest.mark.parametrize("batch", BATCHES)
def test_episodes_of_a_group_end_with_the_environment(generated: ModuleType, batch: tuple[int, ...]) -> None:
    data = TransformedEnv(Team(*batch), StepCounter(4)).rollout(10, break_when_any_done=False)
    time = len(batch)
    found = generated.Last([("agents", "x")])(data.copy())
    ends = [3, 3, 3, 3, 7, 7, 7, 7, 9, 9]
    expected = data["next", "agents", "x"].index_select(time, torch.tensor(ends))
    assert torch.equal(found["agents", "x_last"], expected)
    assert torch.equal(found["next", "agents", "x_last"], expected)
    flags = torch.zeros(data["next", "agents", "done"].shape, dtype=torch.bool)
    flags[..., 0, :] = True
    data["next", "agents", "over"] = flags  # the first agent's episodes are of one step each
    own = generated.Last([("agents", "x")], done_key=("agents", "over"))(data.copy())["agents", "x_last"]
    assert torch.equal(own[..., 0, :], data["next", "agents", "x"][..., 0, :])
    final = data["next", "agents", "x"].select(time, -1)[..., 1, :]
    assert torch.equal(own[..., 1, :], final.unsqueeze(time).expand(own[..., 1, :].shape))


@pytest.mark.parametrize("batch", BATCHES)
def test_data_may_end_inside_of_an_episode(generated: ModuleType, batch: tuple[int, ...]) -> None:
    data = valued(*batch)
    expected = generated.Gained()(data.copy())
    found = generated.Gain(0.9)(data.copy())
    for key in ("gain", "value_target"):
        torch.testing.assert_close(found[key], expected[key])
        assert found[key].shape == data.shape, (
            "a type that says all dimensions, beside rewards with a trailing 1"
        )
    assert {"goal_near", "count", "length"}.isdisjoint(found.keys(True, True))
    assert {*found["next"].keys()} == {*data["next"].keys()}


@pytest.mark.parametrize("goals", [("root",), ("next",), ("root", "next")])
def test_keys_may_be_missing_at_each_place(generated: ModuleType, goals: tuple[str, ...]) -> None:
    data = valued(3, goals=goals)
    found = generated.Gain(0.9, length_key=("more", "length"))(data.copy())
    assert (found["count"] == len(goals)).all()
    there = [(data if place == "root" else data["next"])["goal"] for place in goals]
    torch.testing.assert_close(found["goal_near"], torch.stack(there).sum(0))
    assert (found["more", "length"] == data.shape[-1]).all()


def test_each_row_has_its_own_numbers(generated: ModuleType) -> None:
    data = valued(4, 3)
    gamma = torch.rand(4, 3)
    found = generated.Gain(gamma)(data.copy())["gain"]
    for row in range(4):
        for column in range(3):
            alone = generated.Gained(gamma=float(gamma[row, column]))(data[row, column].copy())["gain"]
            torch.testing.assert_close(found[row, column], alone)


def test_a_replay_buffer_gives_it_slices(generated: ModuleType) -> None:
    data = TransformedEnv(Pendulum(batch_size=()), StepCounter(6)).rollout(60, break_when_any_done=False)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(60),
        sampler=SliceSampler(slice_len=6, end_key=("next", "done")),
        batch_size=24,
    )
    buffer.extend(data)
    sample = buffer.sample().reshape(4, 6).refine_names(None, "time")
    expected = Reward2GoTransform(0.9)(sample.copy())["next", "reward"]
    assert torch.equal(generated.ToGo()(sample)["next", "reward"], expected)


def test_an_environment_has_no_whole_episodes(generated: ModuleType) -> None:
    with pytest.raises(ValueError, match="ToGo needs whole episodes"):
        TransformedEnv(Walk(3), generated.ToGo())


def test_what_is_missing_is_named(generated: ModuleType) -> None:
    with pytest.raises(KeyError, match=r"'state_value' is not in the recorded data"):
        generated.Gain(0.9)(valued(3).exclude("state_value"))
    with pytest.raises(KeyError, match="done"):
        generated.ToGo()(episodes(3).exclude(("next", "done")))
    with pytest.raises(ValueError, match="must be named 'time'"):
        generated.ToGo()(episodes(3).reshape(-1))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            lambda togo: togo[:, :-1],
            r"must return 'togo' as torch.float32 \[3, 12\] on cpu, found .*\[3, 11\]",
        ),
        (
            lambda togo: togo.double(),
            r"must return 'togo' as torch.float32 \[3, 12\] on cpu, found torch.float64",
        ),
        (lambda togo: togo[0], r"must return 'togo' as torch.float32 \[3, 12\]"),
    ],
)
def test_what_is_returned_is_checked(generated: ModuleType, returned: Any, message: str) -> None:
    transform = generated.ToGo()
    offline = transform.python.offline
    transform.python.offline = lambda recorded: (record := offline(recorded))._replace(
        togo=returned(record.togo)
    )
    with pytest.raises(RuntimeError, match=message):
        transform(episodes(3))


def test_recorded_data_must_not_be_changed_in_place(generated: ModuleType) -> None:
    transform = generated.ToGo()
    offline = transform.python.offline

    def changing(recorded: Any) -> Any:
        recorded.next.reward.mul_(2)
        return offline(recorded)

    transform.python.offline = changing
    with pytest.raises(RuntimeError, match=r"ToGo.offline changed reward in place"):
        transform(episodes(3))
