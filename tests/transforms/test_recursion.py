"""Recursions over recorded data: Reward2GoTransform, and those of the case folder `good/transform_over_recorded_data`."""

from __future__ import annotations

import importlib
from collections.abc import Generator, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import Reward2GoTransform, RewardScaling, StepCounter
from tensordict import TensorDict

from tests.compiled_cases import ROOT
from tests.support import generate, imported
from tests.transforms.envs import Team, Walk


def generated(name: str, folder: Path) -> Generator[ModuleType, None, None]:
    schema = ROOT / "good" / name / "transforms.yaml"
    with imported(generate({"transforms.yaml": schema.read_text(encoding="utf-8")}, name), name, folder):
        yield importlib.import_module(f"{name}.transforms")


@pytest.fixture(scope="module")
def recursions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    yield from generated("transform_over_recorded_data", tmp_path_factory.mktemp("generated"))


def episodes(
    *batch: int, steps: int = 12, dtype: torch.dtype = torch.float32, closed: bool = True
) -> TensorDict:
    """Rewards with ends drawn at random, another one in each row; the last moment ends if `closed`."""
    torch.manual_seed(0)
    done = torch.rand(*batch, steps, 1) < 0.25
    if closed:
        done[..., -1, :] = True
    data = {"reward": torch.randn(*batch, steps, 1, dtype=dtype), "done": done}
    return TensorDict({"next": data}, [*batch, steps], names=[*([None] * len(batch)), "time"])


def returns(
    reward: torch.Tensor, done: torch.Tensor, gamma: float, open: torch.Tensor | None = None
) -> torch.Tensor:
    """Sums to the end of each episode, one row and moment after the other; `reward` is [rows, time]."""
    expected = torch.zeros_like(reward)
    for row in range(reward.shape[0]):
        later = torch.zeros((), dtype=reward.dtype) if open is None else open[row]
        for moment in reversed(range(reward.shape[1])):
            later = reward[row, moment] + gamma * (torch.zeros_like(later) if done[row, moment] else later)
            expected[row, moment] = later
    return expected


@pytest.mark.parametrize("column", [False, True])
def test_ends_of_agents_are_none_of_the_team(column: bool) -> None:
    reward = torch.ones(2, 4, 1)
    agents = TensorDict({"done": torch.ones(2, 4, 3, 1, dtype=torch.bool)}, [2, 4, 3])
    data = TensorDict(
        {"next": {"reward": reward if column else reward.squeeze(-1), "agents": agents}}, [2, 4]
    )
    with pytest.raises(ValueError, match=r"'reward' \[4, 2.*no end of its own for each \('agents', 'done'\)"):
        Reward2GoTransform(done_key=("agents", "done"))(data)


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reward_to_go(batch: tuple[int, ...], gamma: float, dtype: torch.dtype) -> None:
    data = episodes(*batch, dtype=dtype)
    flat = data.reshape(-1, 12)["next"]
    expected = returns(flat["reward"][..., 0], flat["done"][..., 0], gamma).reshape(*batch, 12, 1)
    assert torch.equal(Reward2GoTransform(gamma)(data.copy())["next", "reward"], expected)
    beside = Reward2GoTransform(gamma, out_keys=["togo"])(data.copy())
    assert torch.equal(beside["togo"], expected)
    assert torch.equal(beside["next", "reward"], data["next", "reward"])
    below = Reward2GoTransform(gamma, in_keys=[("next", "reward")], out_keys=[("next", "togo")])(data.copy())
    assert torch.equal(below["next", "togo"], expected)


def test_data_that_end_inside_an_episode_are_refused() -> None:
    data = episodes(4, 3, closed=False)
    open_ends = ~data["next", "done"][:, :, -1]
    assert open_ends.any()
    assert data["next", "done"].any(-2).all()  # there is an end in each row
    first = tuple(open_ends.nonzero()[0].tolist())
    with pytest.raises(ValueError) as caught:
        Reward2GoTransform()(data)
    assert f"{int(open_ends.sum())} of 12 rows end without 'done', the first at {first}" in str(caught.value)


def test_flags_at_the_root_end_rewards_of_a_group() -> None:
    torch.manual_seed(0)
    env = TransformedEnv(Team(3), StepCounter(max_steps=4))
    data = env.rollout(8, break_when_any_done=False)
    data["next", "agents", "over"] = torch.rand(3, 8, 2, 1) < 0.3
    data["next", "agents", "over"][:, -1] = True
    key = ("agents", "reward")
    flat = data["next", "agents", "reward"].movedim(1, -2).reshape(-1, 8)
    ends = torch.arange(8).remainder(4).eq(3).expand(6, 8)
    expected = returns(flat, ends, 0.9).reshape(3, 2, 8, 1).movedim(-2, 1)
    assert torch.equal(Reward2GoTransform(0.9, [key], ["togo"])(data.copy())["togo"], expected)
    own = Reward2GoTransform(0.9, [key], ["togo"], done_key=("agents", "over"))(data.copy())["togo"]
    ends = data["next", "agents", "over"].movedim(1, -2).reshape(-1, 8)
    assert torch.equal(own, returns(flat, ends, 0.9).reshape(3, 2, 8, 1).movedim(-2, 1))


def test_a_flag_of_another_name() -> None:
    data = episodes(3)
    data["next", "over"] = data["next", "done"].clone()
    expected = Reward2GoTransform()(data.copy())["next", "reward"]
    data["next", "done"] = torch.ones_like(data["next", "done"])
    assert torch.equal(Reward2GoTransform(done_key="over")(data.copy())["next", "reward"], expected)
    with pytest.raises(KeyError, match="'ended'"):
        Reward2GoTransform(done_key="ended")(data)


def test_only_recorded_data() -> None:
    with pytest.raises(ValueError, match="Reward2GoTransform needs whole episodes"):
        TransformedEnv(Walk(3), Reward2GoTransform())
    chain = TransformedEnv(Walk(3), Compose(StepCounter(), Reward2GoTransform()))
    with pytest.raises(ValueError, match="can't be part of an environment"):
        chain.reset()
    with pytest.raises(ValueError, match="must be named 'time'"):
        Reward2GoTransform()(TensorDict({"next": {"reward": torch.ones(3, 1)}}, [3]))
    with pytest.raises(KeyError, match="next"):
        Reward2GoTransform()(episodes(3).exclude(("next", "reward")))
    assert Reward2GoTransform()(episodes(3)[:, :0]).shape == (3, 0)


def test_it_follows_maps_in_a_row_of_transforms() -> None:
    data = episodes(3)
    chain = Compose(RewardScaling(0.0, 2.0), Reward2GoTransform())
    expected = 2.0 * Reward2GoTransform()(data.copy())["next", "reward"]
    assert torch.allclose(chain(data.copy())["next", "reward"], expected)


def test_open_ends_and_places(recursions: ModuleType) -> None:
    data = episodes(4, 3, closed=False)
    result = recursions.Returns(gamma=0.9)(data.copy())
    flat = data.reshape(-1, 12)["next"]
    reward, done = flat["reward"][..., 0], flat["done"][..., 0]
    expected = returns(reward, done, 0.9, reward[:, -1] / (1.0 - 0.9 + 1.0e-6)).reshape(4, 3, 12, 1)
    assert torch.equal(result["reward_to_go"], expected)
    assert torch.equal(result["next", "reward_to_go"], expected)
    ones = torch.ones_like(reward, dtype=torch.int64)
    steps = returns(ones, done, 1, torch.full((12,), 100)).reshape(4, 3, 12, 1)
    assert torch.equal(result["reward_steps"], steps)
    assert result["reward_steps"].dtype == torch.int64


def test_forward_in_time(recursions: ModuleType) -> None:
    torch.manual_seed(0)
    data = episodes(3)
    data["observation"], data["next", "observation"] = torch.randn(3, 12, 3), torch.randn(3, 12, 3)
    result = recursions.Elapsed()(data.copy())
    mean = torch.zeros(3, 3)
    for moment in range(12):
        if moment:
            mean = torch.where(data["next", "done"][:, moment - 1], 0.0, mean)
        mean = 0.5 * mean + data["observation"][:, moment]
        assert torch.equal(result["mean_observation"][:, moment], mean)
    assert torch.equal(result["change_observation"], data["next", "observation"] - data["observation"])
    assert ("next", "mean_observation") not in result.keys(True)


def test_recorded_data_may_be_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    made = generated("transform_without_offline", tmp_path_factory.mktemp("generated"))
    module = next(made)
    assert "observation" in TensorDict({"observation": torch.ones(3)}, [])
    with pytest.raises(NotImplementedError, match="Live works in environments only"):
        module.Live()(TensorDict({"observation": torch.ones(3)}, []))
    env = TransformedEnv(Walk(3), module.Live(["position"]))
    assert env.rollout(3)["position"].shape == (3, 3, 3)
    made.close()


@pytest.mark.peers
@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("batch", [(3,), (4, 3)])
def test_agrees_with_torchrl(gamma: float, batch: tuple[int, ...]) -> None:
    theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
    data = episodes(*batch)
    keys = ([("next", "reward")], ["reward_to_go"])
    expected = theirs.Reward2GoTransform(gamma, *keys).inv(data.copy())
    ours = Reward2GoTransform(gamma, *keys)(data.copy())
    torch.testing.assert_close(ours["reward_to_go"], expected["reward_to_go"])
    replaced = theirs.Reward2GoTransform(gamma).inv(data.copy())
    torch.testing.assert_close(
        Reward2GoTransform(gamma)(data.copy())["next", "reward"], replaced["next", "reward"]
    )


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    yield from generated("recursion_with_named_sizes", tmp_path_factory.mktemp("generated"))


@pytest.mark.parametrize("batch", [(), (4,)])
def test_sizes_that_have_names(sized: ModuleType, batch: tuple[int, ...]) -> None:
    data = episodes(*batch, closed=False)
    observed = torch.randn(*data.shape, 3)
    data["observation"], data["next", "observation"] = observed, observed + 1
    spread = sized.Spread()(data.clone())["next", "spread"]
    over = data["next", "done"].clone()
    over[..., -1, :] = True
    data["next", "over"] = over
    sums = sized.Shared(done_key="over")(data.clone())["next", "shared"]
    rows = data.reshape(-1, data.shape[-1])
    done = rows["next", "done"].squeeze(-1)
    for number in range(3):
        expected = returns(
            rows["next", "observation"][..., number], done, 1 / 3, rows["observation"][:, -1, number] / 3
        )
        torch.testing.assert_close(spread[..., number].reshape(done.shape), expected)
    expected = returns(rows["next", "reward"].squeeze(-1), rows["next", "over"].squeeze(-1), 1 / 3)
    torch.testing.assert_close(sums.reshape(done.shape), expected)
