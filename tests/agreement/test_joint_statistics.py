"""What transforms learn of several keys together: of the rows that are new, fused as dynamic, saved, of recorded data."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase
from specgen_runtime.testing import assert_identical, check_env
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import CartPoleGym, Pendulum
from specgen_std.transforms import RewardSum, StepCounter
from tensordict import TensorDict

from tests.support import generate, imported

SCHEMA = Path(__file__).parent / "schemas" / "joint_statistics.yaml"
PACKAGE = "joint_statistics_package"
BATCHES = [(), (3,), (4, 3)]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"joint.yaml": SCHEMA.read_text(encoding="utf-8")}, PACKAGE)
    with imported(files, PACKAGE, tmp_path_factory.mktemp("generated")):
        yield importlib.import_module(f"{PACKAGE}.joint")


def joint(package: ModuleType, *batch: int) -> EnvBase[Any]:
    transforms = [
        StepCounter(max_steps=6),
        package.JointNorm(["thdot", "observation", "th"]),
        package.JointNorm(["joint", "thdot"], out_key="all"),
    ]
    return TransformedEnv(Pendulum(batch_size=batch), Compose(*transforms))


def rolled(env: EnvBase[Any], seed: int, steps: int = 25) -> Any:
    env.set_seed(seed)
    torch.manual_seed(seed)
    return env.rollout(steps, break_when_any_done=False)


def state_of(env: EnvBase[Any]) -> dict[str, torch.Tensor]:
    return {key.replace("transform.", "transforms."): value for key, value in env.state_dict().items()}


def assert_same_state(env: EnvBase[Any], other: EnvBase[Any]) -> None:
    mine, theirs = state_of(env), state_of(other)
    assert mine
    for key, value in mine.items():
        assert torch.equal(value, theirs[key]), key


@pytest.mark.parametrize("batch", BATCHES)
def test_fused_as_dynamic(package: ModuleType, batch: tuple[int, ...]) -> None:
    env, other = package.Joint(batch_size=batch), joint(package, *batch)
    for seed in range(2):
        assert_identical(rolled(env, seed), rolled(other, seed))
    assert_same_state(env, other)
    assert env.full_observation_spec["joint"] == other.full_observation_spec["joint"]
    assert env.full_observation_spec["joint"].shape == (*batch, 5)
    again = package.Joint(batch_size=batch)
    again.load_state_dict(other.state_dict(), strict=False)
    for each in (again, other):
        each.freeze() if each is again else [each.transform[at].freeze() for at in (1, 2)]
    assert_identical(rolled(again, 5), rolled(other, 5))


@pytest.mark.parametrize("batch", BATCHES)
def test_one_of_all_and_one_of_each(package: ModuleType, batch: tuple[int, ...]) -> None:
    transforms = [StepCounter(max_steps=6), package.SharedScale(["th", "reward", "thdot"]), RewardSum()]
    env, other = (
        package.Scaled(batch_size=batch),
        TransformedEnv(Pendulum(batch_size=batch), Compose(*transforms)),
    )
    assert_identical(rolled(env, 0), rolled(other, 0))
    assert_same_state(env, other)


def test_gymnasium(package: ModuleType) -> None:
    transforms = [StepCounter(max_steps=12), package.JointNorm(["observation"])]
    env, other = package.JointOfGymnasium(), TransformedEnv(CartPoleGym(), Compose(*transforms))
    assert_identical(rolled(env, 0, 40), rolled(other, 0, 40))
    assert_same_state(env, other)


@pytest.mark.parametrize("batch", BATCHES)
def test_the_mean_of_all_rows_that_were_new(package: ModuleType, batch: tuple[int, ...]) -> None:
    transform = package.JointNorm(["thdot", "observation", "th"])
    env = TransformedEnv(Pendulum(batch_size=batch), transform)
    data = rolled(env, 0, 30)
    names = ("thdot", "observation", "th")
    seen = {name: torch.cat([data[..., :1][name], data["next", name]], len(batch)) for name in names}
    rows = torch.cat([seen["thdot"][..., None], seen["observation"], seen["th"][..., None]], -1)
    rows = rows.reshape(-1, 5).double()
    learned = transform.state_dict()
    assert learned["count"] == len(rows)
    torch.testing.assert_close(learned["loc"], rows.mean(0))
    torch.testing.assert_close(learned["spread"] / len(rows), rows.var(0, correction=0))


def test_recorded_data_teach_nothing(package: ModuleType) -> None:
    env = joint(package, 3)
    rolled(env, 0)
    learned = env.transform[1].frozen_copy()
    before = dict(learned.state_dict())
    data = TensorDict(
        {"thdot": torch.zeros(2), "th": torch.ones(2), "observation": torch.zeros(2, 3)}, batch_size=[2]
    )
    made = learned.unfreeze()(data)["joint"]
    deviation = (before["spread"] / before["count"]).sqrt()
    torch.testing.assert_close(made[0], (torch.tensor([0.0, 0, 0, 0, 1]) - before["loc"]) / deviation)
    assert all(torch.equal(value, before[key]) for key, value in learned.state_dict().items())


@pytest.mark.parametrize("batch", BATCHES)
def test_learned_once(package: ModuleType, batch: tuple[int, ...]) -> None:
    transform = package.Centred(in_keys=["thdot", "observation", "th"])
    env = TransformedEnv(Pendulum(batch_size=batch), transform)
    env.set_seed(0)
    with pytest.raises(RuntimeError, match="has no 'mean'"):
        env.reset()
    data = rolled(Pendulum(batch_size=batch), 0, 20)
    transform.learn(data)
    rows = torch.cat([data["thdot"][..., None], data["observation"], data["th"][..., None]], -1)
    torch.testing.assert_close(transform.state_dict()["mean"], rows.reshape(-1, 5).double().mean(0))
    root = env.reset()
    now = torch.cat([root["thdot"][..., None], root["observation"], root["th"][..., None]], -1)
    torch.testing.assert_close(root["centred"], (now - transform.state_dict()["mean"]).abs().sum(-1))


def test_specs_teach_nothing(package: ModuleType) -> None:
    env = joint(package, 3)
    assert env.full_observation_spec["joint"].shape == (3, 5)
    assert env.transform[1].state_dict()["count"] == 0


def test_frozen_it_is_an_environment_like_others(package: ModuleType) -> None:
    def frozen() -> EnvBase[Any]:
        env = joint(package, 3)
        for at in (1, 2):
            env.transform[at].freeze()
        return env

    check_env(frozen)


def test_statistics_of_other_shapes_are_refused(package: ModuleType) -> None:
    env, narrow = joint(package), TransformedEnv(Pendulum(), package.JointNorm(["thdot", "th"]))
    narrow.reset()
    transform = env.transform[1]
    env.reset()
    with pytest.raises(RuntimeError, match=r"'loc' has the shape \[2\], where \[5\] is wanted"):
        transform.load_state_dict(narrow.transform.state_dict())
