"""Inverses of states: the environment steps from its own, whatever is shown, in a chain as under the dynamic classes."""

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
from specgen_std.transforms import DoubleToFloat, RenameTransform, SqueezeTransform, StepCounter

from tests.support import generate, imported

SCHEMA = Path(__file__).parent / "schemas" / "inverted_states.yaml"
PACKAGE = "inverted_states_package"
GROUPS = ("full_action_spec", "full_observation_spec", "full_reward_spec")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"sliders.yaml": SCHEMA.read_text(encoding="utf-8")}, PACKAGE)
    with imported(files, PACKAGE, tmp_path_factory.mktemp("generated")):
        yield importlib.import_module(f"{PACKAGE}.sliders")


def single() -> Compose:
    return Compose(DoubleToFloat(), StepCounter(max_steps=7))


def renamed() -> Compose:
    rename = RenameTransform(["x"], ["place"], ["x", "u"], ["place", "force"])
    return Compose(rename, SqueezeTransform(-1, in_keys=["v"], in_keys_inv=["v"]), DoubleToFloat())


def rolled(env: EnvBase[Any], seed: int) -> Any:
    env.set_seed(seed)
    torch.manual_seed(seed)
    return env.rollout(25, break_when_any_done=False)


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
@pytest.mark.parametrize(("name", "transforms"), [("SingleSlider", single), ("RenamedSlider", renamed)])
def test_fused_as_dynamic(package: ModuleType, name: str, transforms: Any, batch: tuple[int, ...]) -> None:
    env = getattr(package, name)(batch_size=batch)
    other = TransformedEnv(package.Slider(batch_size=batch), transforms())
    for group in GROUPS:
        assert getattr(env, group) == getattr(other, group), group
    asked = (
        env.full_state_spec
    )  # a chain does not ask for what nothing reads, such as another name of a state
    assert asked == other.full_state_spec.select(*asked.keys(True, True))
    assert set(other.full_state_spec.keys()) - set(asked.keys()) <= {"place"}
    for seed in range(2):
        assert_identical(rolled(env, seed), rolled(other, seed))


@pytest.mark.parametrize("name", ["SingleSlider", "RenamedSlider"])
def test_is_an_environment(package: ModuleType, name: str) -> None:
    check_env(lambda: getattr(package, name)(batch_size=(3,)))


def test_what_is_shown_does_not_feed_back(package: ModuleType) -> None:
    env, other = package.SingleSlider(), TransformedEnv(package.Slider(), single())
    for each in (env, other):
        each.set_seed(0)
        root = each.reset()
        before = root["_carry", "e0", "x"].clone()
        root["u"], root["x"] = torch.tensor(0.0), torch.tensor(3.0)
        assert torch.equal(each.step(root)["next", "_carry", "e0", "x"], before)
