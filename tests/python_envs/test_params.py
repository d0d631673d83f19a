"""Parameters of each environment beside a user's class: given, drawn, told in rows, and kept until the next reset."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.testing import assert_identical, check_env
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import ObservationNorm, StepCounter

from tests.python_envs.support import envs

BATCHES: list[tuple[int, ...]] = [(), (2,), (4, 3)]

SCHEMA = """
specgen: 1
import: [specgen_std/transforms/observation_norm, specgen_std/transforms/step_counter]
envs:
  Slide:
    doc: A block on a plane, heavier or lighter in each episode.
    python: python_envs_user:Slide
    dims: {n: 2}
    params:
      dt: {default: 0.5, above: 0}
      mass: {draw: "weights[randint(0, 2)] + uniform(-0.25, 0.25)", above: 0, doc: in kg}
      gains: {type: "float64[n]", default: [1.0, 2.0], per_env: true}
      slow: {draw: mass > 1}
    consts:
      weights: {type: "float32[2]", value: [0.5, 1.5]}
    state:
      x: float32
    action:
      push: float64[n] in [-1, 1]
    observation:
      seen: float32[2]
  Crane:
    doc: A crane whose load differs between episodes.
    python: {class: "python_envs_user:Crane", stateful: true}
    params:
      most: {default: 3.0, min: 2}
      load: {draw: "uniform(1, most)", above: 0, doc: in tons}
      wind: {default: [0.0, 0.5], per_env: true}
    action:
      lift: categorical(2)
    observation:
      height: float32
chains:
  SlideTrain:
    env: Slide
    transforms:
      - ObservationNorm: {in_keys: [mass], out_keys: [told], loc: 1.0, scale: 2.0}
      - StepCounter: {max_steps: 5}
  CraneTrain:
    env: Crane
    transforms:
      - ObservationNorm: {in_keys: [load], loc: 1.0, scale: 2.0}
      - StepCounter: {max_steps: 4}
"""

CLASSES = """
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from python_envs_rl.envs import (
    CraneEpisodeParams, CraneReset, CraneSetup, CraneStep,
    SlideEpisodeParams, SlideProtocol, SlideReset, SlideSetup, SlideState, SlideStep,
)


class Slide(SlideProtocol):
    given: list[Any] = []

    def __init__(self, setup: SlideSetup) -> None:
        self.setup = setup

    def reset(self, rows: int, params: SlideEpisodeParams, generator: torch.Generator) -> SlideReset:
        self.given.append(params)
        x = torch.rand(rows, generator=generator)
        return SlideReset(x=x, seen=torch.stack([x, params.mass], -1))

    def step(
        self, state: SlideState, push: Tensor, params: SlideEpisodeParams, generator: torch.Generator
    ) -> SlideStep:
        self.given.append(params)
        force = (params.gains * push).sum(-1).float()
        x = state.x + self.setup.params.dt * force / params.mass * torch.where(params.slow, 0.5, 1.0)
        return SlideStep(
            x=x,
            seen=torch.stack([x, params.mass], -1),
            reward=-x.abs() * params.mass,
            terminated=x.abs() > 2,
            truncated=torch.zeros_like(x, dtype=torch.bool),
        )


class Crane:
    told: list[Any] = []

    def __init__(self, setup: CraneSetup) -> None:
        self.most = setup.params.most

    def reset(self, seed: int | None, params: CraneEpisodeParams) -> CraneReset:
        self.told.append(params)
        self.load, self.height = float(params.load), float(params.wind[1])
        params.load.fill_(100.0)  # it is a copy
        return CraneReset(height=self.height)

    def step(self, lift: Tensor) -> CraneStep:
        self.height += int(lift) / self.load
        return CraneStep(height=self.height, reward=self.load, terminated=self.height > 2)
"""

Modules = tuple[ModuleType, ModuleType]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Modules]:
    folder: Path = tmp_path_factory.mktemp("python_params")
    with envs(folder, CLASSES, schema=SCHEMA) as made:
        yield made


@pytest.mark.parametrize("name", ["Slide", "SlideTrain"])
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_vectorised(modules: Modules, name: str, batch: tuple[int, ...]) -> None:
    check_env(partial(getattr(modules[0], name), batch_size=batch), steps=15)


@pytest.mark.parametrize("name", ["Crane", "CraneTrain"])
def test_stateful(modules: Modules, name: str) -> None:
    check_env(getattr(modules[0], name))


@pytest.mark.parametrize(
    ("name", "batch", "norm", "steps"),
    [
        ("Slide", {"batch_size": (3,)}, {"in_keys": ["mass"], "out_keys": ["told"]}, 5),
        ("Crane", {}, {"in_keys": ["load"]}, 4),
    ],
)
def test_the_chain_is_the_environment_with_its_transforms(
    modules: Modules, name: str, batch: dict[str, Any], norm: dict[str, Any], steps: int
) -> None:
    transforms = [ObservationNorm(loc=1.0, scale=2.0, **norm), StepCounter(max_steps=steps)]
    chain = getattr(modules[0], f"{name}Train")(**batch)
    dynamic = TransformedEnv(getattr(modules[0], name)(**batch), Compose(*transforms))
    found = []
    for env in (chain, dynamic):
        torch.manual_seed(0)
        env.set_seed(3)
        found.append(env.rollout(20, break_when_any_done=False).exclude("_carry", ("next", "_carry")))
    assert_identical(found[0], found[1])


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_draws_are_in_their_range_and_told_in_rows(modules: Modules, batch: tuple[int, ...]) -> None:
    given = modules[1].Slide.given
    env = modules[0].Slide(batch_size=batch)
    given.clear()
    root = env.reset()
    env.step(env.rand_action(root))
    rows = root.numel()
    for params in given:
        assert type(params).__name__ == "SlideEpisodeParams"
        assert torch.equal(params.mass, root["mass"].reshape(rows))
        assert torch.equal(params.gains, root["gains"].reshape(rows, 2))
        assert torch.equal(params.slow, root["mass"].reshape(rows) > 1)
    assert len(given) == 2
    mass = modules[0].Slide(batch_size=(1000,)).reset()["mass"]
    assert ((mass - 0.5).abs() <= 0.25).logical_or((mass - 1.5).abs() <= 0.25).all()
    assert (mass < 1).any()
    assert (mass > 1).any()


def test_a_given_value_is_spread_over_the_batch(modules: Modules) -> None:
    mass = torch.tensor([1.0, 2.0, 3.0])
    env = modules[0].Slide(batch_size=(4, 3), mass=mass, slow=False)
    root = env.reset()
    assert torch.equal(root["mass"], mass.expand(4, 3))
    assert torch.equal(root["gains"], torch.tensor([1.0, 2.0], dtype=torch.float64).expand(4, 3, 2))
    root["push"] = torch.full((4, 3, 2), 0.1, dtype=torch.float64)
    after = env.step(root)["next"]
    assert torch.allclose(after["x"], root["x"] + 0.5 * 0.3 / mass)
    assert torch.equal(after["reward"].squeeze(-1), -after["x"].abs() * mass)
    with pytest.raises(ValueError, match="mass must be > 0"):
        modules[0].Slide(mass=-1.0)


def test_parameters_are_drawn_anew_where_the_environment_is_reset(modules: Modules) -> None:
    env = modules[0].Slide(batch_size=(64,))
    root = env.reset()
    mask = torch.arange(64)[:, None] % 2 == 0
    again = env.reset(root.clone().set("_reset", mask))
    same = again["mass"] == root["mass"]
    assert same[1::2].all()
    assert not same[::2].any()
    assert torch.equal(again["seen"][:, 1], again["mass"])


def test_a_rollout_keeps_them_within_an_episode(modules: Modules) -> None:
    data = modules[0].SlideTrain(batch_size=(8,)).rollout(30, break_when_any_done=False)
    assert torch.equal(data["next", "mass"], data["mass"])
    ended = data["next", "done"].squeeze(-1)[:, :-1]
    changed = data["mass"][:, 1:] != data["mass"][:, :-1]
    assert ended.any()
    assert torch.equal(changed, ended)


def test_gradients_flow_to_them(modules: Modules) -> None:
    mass = torch.ones(3, requires_grad=True)
    env = modules[0].Slide(batch_size=(3,), mass=mass)
    env.rollout(2)["next", "x"].sum().backward()
    assert mass.grad is not None
    assert mass.grad.abs().min() > 0


def test_the_class_is_made_from_the_others_only(modules: Modules) -> None:
    setup = modules[0].SlideTrain(dt=0.25, mass=2.0).dynamics.python.setup
    assert setup.params._asdict() == {"dt": 0.25}
    assert setup.consts.weights.tolist() == [0.5, 1.5]


@pytest.mark.parametrize("method", ["reset", "step"])
def test_they_must_not_be_changed_in_place(
    modules: Modules, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    right = getattr(modules[1].Slide, method)

    def greedy(self: Any, *args: Any) -> Any:
        found = right(self, *args)
        args[-2].mass.add_(1.0)
        return found

    env = modules[0].Slide(batch_size=(3,))
    root = env.rand_action(env.reset())
    monkeypatch.setattr(modules[1].Slide, method, greedy)
    with pytest.raises(RuntimeError, match=rf"Slide\.{method} changed mass in place; make new tensors"):
        env.step(root) if method == "step" else env.reset()


@pytest.mark.parametrize("name", ["SlideTrain", "CraneTrain"])
def test_a_pickled_environment_goes_on_alike(modules: Modules, name: str) -> None:
    env = getattr(modules[0], name)()
    env.reset()
    other = pickle.loads(pickle.dumps(env))
    found = []
    for each in (env, other):
        torch.manual_seed(1)
        found.append(each.rollout(12, break_when_any_done=False))
    assert_identical(found[0], found[1])


def test_a_simulator_is_told_at_each_reset(modules: Modules) -> None:
    told = modules[1].Crane.told
    env = modules[0].Crane(wind=[0.0, 1.0])
    told.clear()
    root = env.reset()
    assert root["height"] == 1.0
    assert 1 <= root["load"] <= 3
    assert root["wind"].tolist() == [0.0, 1.0]
    again = env.reset()
    assert again["load"] != root["load"]
    assert len(told) == 2


def test_a_simulator_goes_on_with_what_it_was_told(modules: Modules) -> None:
    env = modules[0].Crane(load=2.0)
    root = env.reset()
    root["load"].fill_(9.0)
    root["lift"] = torch.tensor(1)
    after = env.step(root)["next"]
    assert after["load"] == 2.0
    assert after["height"] == 1.0
    assert after["reward"] == 2.0
    assert "load" not in env.state_keys
    env.to("cpu")
    assert env.step(root)["next", "load"] == 2.0


def test_a_step_before_the_first_reset(modules: Modules) -> None:
    root = modules[0].Crane().reset()
    root["lift"] = torch.tensor(1)
    with pytest.raises(RuntimeError, match=r"Crane\.step: reset the environment before the first step"):
        modules[0].Crane().step(root)
