"""Transforms beyond the standard library: those of the case folder `good/transform_phases`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Unbounded
from specgen_runtime.transforms import Compose, GeneratedTransform, TransformedEnv
from specgen_std.transforms import ObservationNorm

from specgen.check.attributes import TRANSFORM_ATTRIBUTES
from tests.compiled_cases import ROOT
from tests.support import generate, imported, public_names
from tests.transforms.envs import Walk, walk_reset, walk_step


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    schema = ROOT / "good" / "transform_phases" / "transforms.yaml"
    files = generate({"transforms.yaml": schema.read_text(encoding="utf-8")}, "transform_phases")
    with imported(files, "transform_phases", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("transform_phases.transforms")


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_values_before_and_after(generated: ModuleType, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch), generated.Delta(["position"], window=3, gain=0.5))
    check_env_specs(env)
    torch.manual_seed(0)
    data = env.rollout(20, break_when_any_done=False)
    after = data["next"]
    assert torch.equal(after["delta_position"], 0.5 * (after["position"] - data["position"]))
    peak, age = data["peak_position"], data["age_position"]
    stale = age + 1 >= 3
    assert torch.equal(after["age_position"], torch.where(stale, 0, age + 1))
    expected = torch.where(stale, after["position"].abs(), torch.maximum(peak, after["position"].abs()))
    assert torch.equal(after["peak_position"], expected)
    assert (data["delta_position"].select(len(batch), 0) == 0).all()


def test_absent_outputs(generated: ModuleType) -> None:
    env = TransformedEnv(Walk(3), generated.Delta(["position"], clipped=True, null_key="moved_{}"))
    check_env_specs(env)
    data = env.rollout(5)
    assert "peak_position" not in data
    assert data["next", "moved_position"].abs().max() <= 1


def test_what_a_step_remembers_is_not_rewritten_later(generated: ModuleType) -> None:
    chain = Compose(generated.Delta(["position"], gain=1.0), ObservationNorm(5.0, 2.0, ["position"]))
    env = TransformedEnv(Walk(3), chain)
    check_env_specs(env)
    torch.manual_seed(0)
    data = env.rollout(10, break_when_any_done=False)
    position = walk_reset(torch.Size([3]))
    for moment in data.unbind(-1):
        following, _, over = walk_step(position, moment["action"])
        assert torch.equal(moment["next", "delta_position"], following - position)
        assert torch.equal(moment["next", "position"], following * 2.0 + 5.0)
        position = torch.where(over, walk_reset(torch.Size([3])), following)


def test_inverse_only(generated: ModuleType) -> None:
    env = TransformedEnv(Walk(3), generated.Halve())
    assert isinstance(env.action_spec, Unbounded)
    root = env.reset().set("action", torch.ones(3, 3))
    following, _, _ = walk_step(root["position"], torch.full((3, 3), 0.5))
    assert torch.equal(env.step(root)["next", "position"], following)
    assert torch.equal(generated.Halve(["a"]).inv(a=torch.ones(2)), torch.full((2,), 0.5))


def test_names_of_the_base_class_are_refused_by_the_compiler() -> None:
    assert public_names(GeneratedTransform) - TRANSFORM_ATTRIBUTES == set()


def test_inverse_keys_may_be_left_out_beside_others(generated: ModuleType) -> None:
    one_way = TransformedEnv(Walk(3), generated.Negate(["position"], ["negative"]))
    both_ways = TransformedEnv(Walk(3), generated.Negate(["position"], ["negative"], ["action"]))
    for env, sign in ((one_way, 1.0), (both_ways, -1.0)):
        check_env_specs(env)
        root = env.reset().set("action", torch.ones(3, 3))
        following, _, _ = walk_step(root["position"], torch.full((3, 3), sign))
        assert torch.equal(env.step(root)["next", "negative"], -following)


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_a_reward_made_of_an_observation(generated: ModuleType, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Walk(*batch), generated.Cost(["position"]))
    check_env_specs(env)
    assert set(env.reward_keys) == {"reward", "cost"}
    assert "cost" not in env.reset()
    data = env.rollout(4, break_when_any_done=False)["next"]
    assert torch.equal(data["cost"], -data["position"].sum(-1, keepdim=True))
