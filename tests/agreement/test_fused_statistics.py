"""What a fused chain learns is what the dynamic classes learn, saved and loaded, frozen, and shared by processes."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, ParallelEnv
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import CartPoleGym, Pendulum
from specgen_std.transforms import (
    InitTracker,
    ObservationNorm,
    RewardSum,
    StepCounter,
    TrajCounter,
    VecNorm,
)

from tests.support import generate, imported

SCHEMA = Path(__file__).parent / "schemas" / "statistics.yaml"
PACKAGE = "statistics_package"


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"chains.yaml": SCHEMA.read_text(encoding="utf-8")}, PACKAGE)
    with imported(files, PACKAGE, tmp_path_factory.mktemp("generated")):
        yield importlib.import_module(f"{PACKAGE}.chains")


def dynamic(*batch: int) -> EnvBase[Any]:
    return TransformedEnv(
        Pendulum(batch_size=batch), Compose(StepCounter(max_steps=9), VecNorm(decay=0.99), RewardSum())
    )


def rolled(env: EnvBase[Any], seed: int = 0, steps: int = 25) -> Any:
    env.set_seed(seed)
    torch.manual_seed(seed)
    return env.rollout(steps, break_when_any_done=False)


def test_gymnasium(chains: ModuleType) -> None:
    transforms = [
        InitTracker(),
        StepCounter(max_steps=12),
        RewardSum(),
        VecNorm(["observation", "reward"], decay=0.99),
    ]
    env, other = chains.LearnedOfGymnasium(), TransformedEnv(CartPoleGym(), Compose(*transforms))
    for seed in range(3):
        assert_identical(rolled(env, seed, 60), rolled(other, seed, 60))
    assert_same_state(env, other)


def together(package: ModuleType, *batch: int) -> EnvBase[Any]:
    transforms = [
        StepCounter(max_steps=6),
        package.Together(["thdot", "th", "observation"]),
        RewardSum(),
        package.Shown(["reward", "observation"]),
        package.Spread(["observation"]),
        package.Counter(count_key="begun", least=1.0),
    ]
    return TransformedEnv(Pendulum(batch_size=batch), Compose(*transforms))


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_one_statistic_of_several_keys(chains: ModuleType, batch: tuple[int, ...]) -> None:
    env, other = chains.LearnedTogether(batch_size=batch), together(chains, *batch)
    for seed in range(2):
        assert_identical(rolled(env, seed), rolled(other, seed))
    assert_same_state(env, other)
    assert {"transforms.1.count", "transforms.3.count", "transforms.3.mean|reward"} < env.state_dict().keys()
    env.freeze()
    for position in (1, 3, 4, 5):
        other.transform[position].freeze()
    assert_identical(rolled(env, 3), rolled(other, 3))


def numbered(*batch: int) -> EnvBase[Any]:
    transforms = [StepCounter(max_steps=5), TrajCounter(), VecNorm(["observation"])]
    return TransformedEnv(Pendulum(batch_size=batch), Compose(*transforms))


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_numbers_of_episodes(chains: ModuleType, batch: tuple[int, ...]) -> None:
    env, other = chains.Numbered(batch_size=batch), numbered(*batch)
    for seed in range(2):
        assert_identical(rolled(env, seed), rolled(other, seed))
    assert_same_state(env, other)
    for each in (env, other):
        each.set_seed(0)
    root, following = env.reset(), other.reset()
    assert_identical(root, following)
    drawn = torch.Generator().manual_seed(1)
    for _ in range(4):
        rows = torch.randint(2, (*batch, 1), generator=drawn).bool()
        for each in (root, following):
            each["_reset"] = rows
        root, following = env.reset(root), other.reset(following)
        assert_identical(root, following)
    assert_same_state(env, other)


def test_numbers_of_episodes_of_gymnasium(chains: ModuleType) -> None:
    env = chains.NumberedOfGymnasium()
    other = TransformedEnv(CartPoleGym(), Compose(StepCounter(max_steps=5), TrajCounter(out_key="episode")))
    for seed in range(2):
        data = rolled(env, seed, 23)
        assert_identical(data, rolled(other, seed, 23))
        assert (data["episode"].diff(dim=0).sum()) == 4
    assert_same_state(env, other)


def test_frozen_numbers_repeat(chains: ModuleType) -> None:
    env = chains.Numbered(batch_size=(3,))
    env.reset()
    env.freeze()
    assert [env.reset()["traj_count"].flatten().tolist() for _ in range(2)] == [[3, 4, 5]] * 2


def test_processes_give_each_number_once(chains: ModuleType) -> None:
    env = chains.Numbered().share_memory()
    workers = ParallelEnv(4, [partial(copy.copy, env) for _ in range(4)])
    data = workers.rollout(20, break_when_any_done=False)
    workers.close()
    begins = torch.cat([torch.ones(4, 1).bool(), data["next", "done"].squeeze(-1)[:, :-1]], 1)
    given = data["traj_count"].squeeze(-1)[begins].tolist()
    assert len({*given}) == len(given) == 16


def assert_same_state(first: EnvBase[Any], second: EnvBase[Any]) -> None:
    found, expected = first.state_dict(), second.state_dict()
    assert found.keys() <= expected.keys()
    assert found
    for name, value in found.items():
        assert torch.equal(value, expected[name]), name


def test_rows_that_stand_still_do_not_count(chains: ModuleType) -> None:
    env, other = chains.Learned(batch_size=(4,)), dynamic(4)
    for each in (env, other):
        each.set_seed(0)
    root, following = env.reset(), other.reset()
    for mask in ([True, False, True, False], [False] * 4, [True] * 4, [False, False, False, True]):
        root, following = env.rand_action(root), following.set("action", root["action"].clone())
        rows = torch.tensor(mask)
        root, following = (
            each.step(data.set("_step", rows))["next"] for each, data in ((env, root), (other, following))
        )
        assert_identical(root, following)
        assert_same_state(env, other)
    assert (
        env.state_dict()["transforms.1.count|reward"]
        < env.state_dict()["transforms.1.count|observation"]
        < 11
    )


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_saved_and_loaded(chains: ModuleType, batch: tuple[int, ...]) -> None:
    env = chains.Learned(batch_size=batch)
    rolled(env)
    saved = copy.deepcopy(env.state_dict())
    names = {
        f"transforms.1.{name}|{key}" for name in ("count", "loc", "var") for key in ("observation", "reward")
    }
    assert set(saved) == names
    expected = rolled(env, 1)
    fresh, other = chains.Learned(batch_size=batch), dynamic(*batch)
    for loaded in (fresh, other):
        loaded.load_state_dict(saved)
        assert_identical(rolled(loaded, 1), expected)
    back = chains.Learned(batch_size=batch)
    back.load_state_dict(other.state_dict())
    assert_identical(rolled(back, 2), rolled(env, 2))
    with pytest.raises(RuntimeError, match=r"Missing key.*count\|observation"):
        chains.Learned(batch_size=batch).load_state_dict({})


def test_frozen(chains: ModuleType) -> None:
    env = chains.Learned(batch_size=(3,))
    rolled(env)
    kept, before = env.frozen_copy(), copy.deepcopy(env.state_dict())
    assert kept.frozen
    assert not env.frozen
    rolled(env)
    rolled(kept)
    assert not torch.equal(
        env.state_dict()["transforms.1.loc|observation"], before["transforms.1.loc|observation"]
    )
    assert all(torch.equal(value, before[name]) for name, value in kept.state_dict().items())
    data = rolled(kept)
    loc, var = (before[f"transforms.1.{name}|observation"] for name in ("loc", "var"))
    plain = Pendulum(batch_size=(3,))
    plain.set_seed(0)
    shown = ((plain.reset()["observation"].double() - loc) / var.sqrt()).float()
    torch.testing.assert_close(data["observation"][:, 0], shown)
    assert not kept.unfreeze().frozen
    rolled(kept)
    assert kept.state_dict()["transforms.1.count|reward"] > before["transforms.1.count|reward"]
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        now = copy.deepcopy(env.state_dict())
        rolled(twin)
        assert all(torch.equal(value, now[name]) for name, value in env.state_dict().items())


def test_learned_elsewhere(chains: ModuleType) -> None:
    env = chains.LearnedElsewhere(batch_size=(3,))
    with pytest.raises(RuntimeError, match=r"no 'shift' of 'observation' yet: .*load a state dict"):
        env.reset()
    norm = ObservationNorm()
    other = TransformedEnv(Pendulum(batch_size=(3,)), Compose(StepCounter(max_steps=9), norm))
    norm.init_stats(20)
    env.load_state_dict(other.state_dict())
    assert_identical(rolled(env), rolled(other))
    assert_same_state(env, other)


def test_traced_code_can_not_learn(chains: ModuleType) -> None:
    env = chains.Learned()
    roots = torch.stack([env.rand_action(env.reset()) for _ in range(3)])
    with pytest.raises(
        RuntimeError, match=r"VecNorm learns, which torch\.compile and torch\.vmap can't follow: freeze"
    ):
        torch.vmap(env.step)(roots)
    env.freeze()
    mapped = torch.vmap(env.step)(roots.clone())["next"]
    one_by_one = torch.stack([env.step(root)["next"] for root in roots.clone().unbind(0)])
    torch.testing.assert_close(mapped["observation"], one_by_one["observation"])


def test_processes_learn_together(chains: ModuleType) -> None:
    env = chains.LearnedTwice()
    assert env.share_memory() is env
    workers = ParallelEnv(4, [partial(copy.copy, env) for _ in range(4)])
    data = workers.rollout(20, break_when_any_done=False)
    workers.close()
    learned = env.state_dict()
    assert learned["transforms.2.count|reward"] == 80
    assert learned["transforms.2.count|normed"] > 80
    assert data["next", "reward"].isfinite().all()
