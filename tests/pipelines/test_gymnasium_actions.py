"""Pipelines over Gymnasium environments whose actions are a MultiDiscrete, a Dict or a Tuple."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.modules import Categorical, MultiCategorical, MultiOneHotCategorical, TanhNormal
from specgen_runtime.training import read_log
from tensordict import TensorDict

from specgen.project.gymnasium_lock import record
from tests.pipelines.small import small_config
from tests.support import generate, imported

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces

MOVE, FORCE = spaces.Discrete(3), spaces.Box(0, 1, (1,), np.float32)
SPACES = {
    "Dict": spaces.Dict({"engine": spaces.Dict({"move": MOVE, "force": FORCE}), "lamps": spaces.MultiBinary(2)}),
    "Tuple": spaces.Tuple((MOVE, FORCE)),
    "Unequal": spaces.MultiDiscrete([3, 5]),
    "Equal": spaces.MultiDiscrete([3, 3]),
}  # fmt: skip


class Harbor(gymnasium.Env):  # type: ignore[misc, name-defined]
    """A boat is moved to the middle of a harbor, by a direction and a force."""

    observation_space = spaces.Box(-2, 2, (1,), np.float32)

    def __init__(self, form: str) -> None:
        self.action_space = SPACES[form]
        self.form = form

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-2, 2, 1).astype(np.float32)
        return self.place.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        if self.form == "Dict":
            move, force = action["engine"]["move"], action["engine"]["force"]
        else:
            move, force = action
            force = force if self.form == "Tuple" else force / (self.action_space.nvec[1] - 1)
        self.place = np.clip(self.place + (int(move) - 1) * force, -2, 2).astype(np.float32)
        return self.place.copy(), -float(abs(self.place[0])), False, False, {}


for form in SPACES:
    gymnasium.register(f"{form}HarborOfTests-v0", Harbor, kwargs={"form": form}, max_episode_steps=8)

SCHEMA = """\
specgen: 1
import: [specgen_std/losses/ppo, specgen_std/transforms/reward_sum]
envs:
  FORMHarbor:
    doc: A boat.
    gymnasium: {id: FORMHarborOfTests-v0CATEGORICAL}
chains:
  FORMTrain: {env: FORMHarbor, transforms: [RewardSum]}
pipelines:
  PPOFORM:
    doc: Proximal policy optimization in a harbor.
    env: FORMTrain
    networks: {actor_network: {mlp: [64, 64], activation: tanh}, critic_network: {mlp: [64, 64], activation: tanh}}
    loss: {ClipPPOLoss: {entropy_coeff: 0.01, normalize_advantage: true}}
    value_estimator: {gae: {gamma: 0.9, lmbda: 0.95}}
    data: {on_policy: {num_envs: 16, num_steps: 32, epochs: 10, minibatch_size: 128}}
    optimizer: {adam: {lr: 3.0e-3}, max_grad_norm: 0.5}
    evaluate: {every: 6_144, episodes: 20}
    stop: {frames: 6_144}
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    ids = [f"{form}HarborOfTests-v0" for form in SPACES]
    texts = {
        f"{form.lower()}_form.yaml": SCHEMA.replace("FORM", form).replace(
            "CATEGORICAL", "" if form == "Equal" else ", categorical_action_encoding: true"
        )
        for form in SPACES
    }
    files = generate(texts, "gym_harbor", {id: record(id, {}) for id in ids})
    with imported(files, "gym_harbor", tmp_path_factory.mktemp("gym_harbor")) as made:
        yield made


def module_of(package: ModuleType, form: str) -> Any:
    return importlib.import_module(f"{package.__name__}.{form.lower()}_form")


@pytest.mark.parametrize("form", SPACES)
def test_it_learns_all_parts(package: ModuleType, form: str, tmp_path: Path) -> None:
    """Random actions have a mean return of -8; it is to go to the middle, and to stay there."""
    module = module_of(package, form)
    config = getattr(module, f"PPO{form}Config")()
    parts = module.train(config, folder=tmp_path / "run")
    assert read_log(tmp_path / "run" / "log.csv")[-1]["evaluation"] > -2.2
    dist = parts.policy.get_dist(TensorDict({"observation": torch.tensor([[-1.5], [1.5]])}, [2]))
    if form in ("Unequal", "Equal"):
        assert type(dist) is (MultiCategorical if form == "Unequal" else MultiOneHotCategorical)
        assert dist.choices.mode[:, 0].tolist() == [2, 0]
        return
    names = ["move", "force"] if form == "Dict" else ["part_0", "part_1"]
    held = ("action", "engine") if form == "Dict" else ("action",)
    move, force = (dist.dists[(*held, name)] for name in names)
    assert isinstance(move, Categorical)
    assert move.mode.tolist() == [2, 0]
    assert isinstance(force, TanhNormal)
    assert (force.deterministic_sample > 0.5).all()


class Walled(Harbor):
    """A harbor that allows no move away from the middle, and not the greatest force; the mask is observed, in bits."""

    observation_space = spaces.Dict({"place": Harbor.observation_space, "action_mask": spaces.MultiBinary(8)})

    def __init__(self) -> None:
        super().__init__("Unequal")

    def _observed(self) -> dict[str, Any]:
        mask = np.array([self.place[0] > 0, 1, self.place[0] <= 0, 1, 1, 1, 1, 0], np.int8)
        return {"place": self.place.copy(), "action_mask": mask}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._observed(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        allowed = self._observed()["action_mask"]
        assert allowed[action[0]], action
        assert allowed[3 + action[1]], action
        _, *rest = super().step(action)
        return self._observed(), *rest


gymnasium.register("WalledHarborOfTests-v0", Walled, max_episode_steps=8)


def test_a_mask_of_bits_is_kept_to(tmp_path: Path) -> None:
    """The environment raises where a choice is not allowed: random ones, those of the policy, those of evaluations."""
    id = "WalledHarborOfTests-v0"
    cast = "{DTypeCastTransform: {dtype_in: int8, dtype_out: bool, in_keys: [action_mask]}}, ActionMask, "
    text = (
        SCHEMA.replace("FORM", "Walled")
        .replace("CATEGORICAL", ", categorical_action_encoding: true")
        .replace(
            "reward_sum]", "reward_sum, specgen_std/transforms/actions, specgen_std/transforms/dtype_cast]"
        )
        .replace("[RewardSum]", f"[{cast}RewardSum]")
        .replace("activation: tanh", "activation: tanh, in: [place]")
    )
    with imported(
        generate({"walled.yaml": text}, "walled", {id: record(id, {})}), "walled", tmp_path
    ) as made:
        module = importlib.import_module(f"{made.__name__}.walled")
        module.WalledTrain().rollout(40, break_when_any_done=False)
        parts = module.train(small_config(module), folder=tmp_path / "run")
        batch = next(iter(parts.collector))
        assert batch["action_mask"].dtype == torch.bool
        assert batch["action_log_prob"].isfinite().all()


@pytest.mark.parametrize("form", SPACES)
def test_a_resumed_training_is_one_training(package: ModuleType, form: str, tmp_path: Path) -> None:
    """Two that go on from the same checkpoint are the same."""
    module = module_of(package, form)
    module.train(small_config(module, total_frames=24), folder=tmp_path / "run")
    ends = []
    for name in ("one", "other"):
        folder = tmp_path / name
        shutil.copytree(tmp_path / "run", folder)
        with pytest.warns(UserWarning, match="new episodes"):
            ends.append(module.train(small_config(module), folder=folder, resume=True).policy.state_dict())
    for key, value in ends[0].items():
        torch.testing.assert_close(ends[1][key], value, rtol=0, atol=0)
