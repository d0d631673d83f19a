"""Classes behind transforms: outputs that exist under a condition, and parameters of which each row has its own."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import Pendulum, PendulumGym
from specgen_std.transforms import ClipTransform, RenameTransform, StepCounter
from tensordict import TensorDict, TensorDictBase

from tests.support import generate, imported
from tests.transforms.envs import rollouts_alike

SCHEMA = Path(__file__).parent / "schemas" / "python_outputs.yaml"
BATCHES: list[tuple[int, ...]] = [(), (3,), (4, 3)]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"a.yaml": SCHEMA.read_text(encoding="utf-8")}, "python_outputs")
    with imported(files, "python_outputs", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("python_outputs.a")


def goal(in_key: str = "observation") -> RenameTransform:
    return RenameTransform([in_key], ["goal"], create_copy=True)


def limit() -> StepCounter:
    return StepCounter(20)


def alike(dynamic: EnvBase, fused: EnvBase) -> TensorDict:
    """A rollout of both, with partial resets, after their specs have been compared with data."""
    check_env_specs(dynamic)
    check_env_specs(fused)
    return rollouts_alike((dynamic, fused), 50)[0]


@pytest.mark.parametrize("batch", BATCHES)
def test_outputs_where_a_key_is_there(generated: ModuleType, batch: tuple[int, ...]) -> None:
    dynamic = TransformedEnv(
        Pendulum(batch_size=batch), Compose(goal(), generated.Near(squares=True, offset_key="off"), limit())
    )
    data = alike(dynamic, generated.NearGoal(batch_size=batch))
    assert {"near", "goal_moved", "square"} < {*data.keys()}
    assert "far" not in data
    assert torch.equal(data["goal_moved"], 0.5 * data["observation"])
    assert torch.equal(data["off"], data["observation"] - 1)


@pytest.mark.parametrize("batch", [*BATCHES, None])
def test_outputs_where_a_key_is_missing(generated: ModuleType, batch: tuple[int, ...] | None) -> None:
    if batch is None:
        dynamic: EnvBase = TransformedEnv(
            PendulumGym(), Compose(generated.Near(offset_key="off"), StepCounter())
        )
        fused = generated.NearGym()
    else:
        dynamic = TransformedEnv(Pendulum(batch_size=batch), Compose(generated.Near(), limit()))
        fused = generated.NearNothing(batch_size=batch)
    data = alike(dynamic, fused)
    assert {"near", "goal_moved", "square", "offset"}.isdisjoint(data.keys())
    assert ("off" in data) is (batch is None)
    assert torch.equal(data["far"], data["observation"].square().sum(-1).sqrt())


@pytest.mark.parametrize("batch", [*BATCHES, None])
def test_what_is_carried_raised_and_written_under_a_condition(
    generated: ModuleType, batch: tuple[int, ...] | None
) -> None:
    hold = generated.Hold(limit=3, gentle=True)
    if batch is None:
        dynamic: EnvBase = TransformedEnv(PendulumGym(), hold)
        fused = generated.HeldGym()
    else:
        dynamic = TransformedEnv(Pendulum(batch_size=batch), Compose(hold, limit()))
        fused = generated.Held(batch_size=batch)
    assert {*fused.action_keys} == {"action", "strength"}
    data = alike(dynamic, fused)
    assert (data["next", "held"] <= 3).all()
    assert torch.equal(
        data["next", "truncated"].squeeze(-1) & (data["next", "held"] > 0), data["next", "held"] == 3
    )
    assert (data["next", "better"] > 0).any()


@pytest.mark.parametrize("batch", BATCHES)
def test_what_does_not_exist_is_left_out(generated: ModuleType, batch: tuple[int, ...]) -> None:
    dynamic = TransformedEnv(Pendulum(batch_size=batch), Compose(generated.Hold(), limit()))
    fused = generated.Loose(batch_size=batch)
    assert [*fused.action_keys] == ["action"]
    assert {"held", "better"}.isdisjoint(alike(dynamic, fused)["next"].keys())


def test_partial_resets_keep_what_is_carried(generated: ModuleType) -> None:
    dynamic = TransformedEnv(
        Pendulum(batch_size=(3,)), Compose(generated.Hold(limit=30, gentle=True), limit())
    )
    for env in (dynamic, generated.Held(batch_size=(3,))):
        root = env.reset()
        for _ in range(2):
            root = env.step_mdp(env.step(env.rand_action(root)))
        again = env.reset(root.clone().set("_reset", torch.tensor([[True], [False], [False]])))
        assert again["held"][0] == 0
        assert torch.equal(again["held"][1:], root["held"][1:])
        assert torch.equal(again["best"][1:], root["best"][1:])


def test_recorded_data(generated: ModuleType) -> None:
    data = TransformedEnv(Pendulum(batch_size=(3,)), goal()).rollout(5)
    near = generated.Near(squares=True)(data.clone())
    assert torch.equal(near["next", "goal_moved"], 0.5 * data["next", "observation"])
    assert "far" not in near
    far = generated.Near()(Pendulum(batch_size=(3,)).rollout(5))
    assert {"far", "square"} & {*far["next"].keys()} == {"far"}
    hold = generated.Hold(limit=30)
    online = TransformedEnv(Pendulum(batch_size=(3,)), hold).rollout(5)
    kept = ("best", "held")
    plain = online.exclude(*kept, *(("next", key) for key in kept)).clone()
    assert torch.equal(generated.Hold(limit=30)(plain)["next", "held"], online["next", "held"])


def test_an_output_that_users_name_has_to_be_given(generated: ModuleType) -> None:
    near = generated.Near(offset_key=("more", "off"))
    assert near.python.outputs == {"offset"}
    data = Pendulum(batch_size=(3,)).rollout(2)
    assert torch.equal(near(data.clone())["next", "more", "off"], data["next", "observation"] - 1)
    near.python.outputs = frozenset()
    with pytest.raises(
        TypeError, match=r"Nearness.map must return 'offset' as torch.float32 \[.*found NoneType"
    ):
        near(data.clone())


def test_an_output_that_exists_has_to_be_given(generated: ModuleType) -> None:
    near = generated.Near()
    near.python.map = lambda inputs: type(near)._python_methods["map"].record(*[None] * 5)
    env = TransformedEnv(Pendulum(batch_size=(3,)), near)
    with pytest.raises(
        TypeError, match=r"Nearness.map must return 'far' as torch.float32 \[3\].*found NoneType"
    ):
        env.reset()


def remembering(data: TensorDictBase) -> TensorDictBase:
    """Changes its memories, says how sure it is, and pushes."""
    data["action"] = data["observation"][..., 1:2].clone()
    if "sure" in data:
        data["sure"] = data["observation"][..., 0].clone()
        data["next", "sure"] = data["sure"]
    data["next", "hidden"] = 0.5 * data["hidden"] + 1
    if "memory" in data:
        data["next", "memory"] = data["memory"] + data["observation"]
    return data


@pytest.mark.parametrize("batch", [*BATCHES, None])
def test_what_the_policy_writes_is_begun_and_left_to_it(
    generated: ModuleType, batch: tuple[int, ...] | None
) -> None:
    chain = Compose(generated.Recall(gentle=True), generated.Begin(), StepCounter(7))
    if batch is None:
        dynamic: EnvBase = TransformedEnv(PendulumGym(), chain)
        fused = generated.RecalledGym()
    else:
        dynamic = TransformedEnv(Pendulum(batch_size=batch), chain)
        fused = generated.Recalled(batch_size=batch)
    for env in (dynamic, fused):
        assert {"hidden", "sure", "memory"} < {*env.full_state_spec.keys()}
    alike(dynamic, fused)
    found = []
    for env in (dynamic, fused):
        env.set_seed(3)
        found.append(env.rollout(20, remembering, break_when_any_done=False))
    assert_identical(*found)
    data = found[0]
    begins = data["step_count"].squeeze(-1) == 0
    assert torch.equal(data["hidden"][begins], data["observation"][begins][:, :2])
    assert torch.equal(data["next", "hidden"], 0.5 * data["hidden"] + 1)
    assert torch.equal(data["next", "memory"], data["memory"] + data["observation"])
    moved = (data["next", "observation"][..., :2] - data["hidden"]).abs().sum(-1)
    assert torch.equal(data["next", "price"].squeeze(-1), -moved * data["observation"][..., 0])


@pytest.mark.parametrize("batch", BATCHES)
def test_what_the_policy_writes_where_a_key_is_there(generated: ModuleType, batch: tuple[int, ...]) -> None:
    dynamic = TransformedEnv(Pendulum(batch_size=batch), Compose(goal(), generated.Recall(), StepCounter(7)))
    fused = generated.RecalledGoal(batch_size=batch)
    data = alike(dynamic, fused)
    assert "sure" not in data
    begins = data["step_count"].squeeze(-1) == 0
    assert torch.equal(data["wanted"][begins], data["goal"][begins])
    assert torch.equal(data["wanted"], data["next", "wanted"])  # no policy writes it


def test_what_the_policy_wrote_is_replayed(generated: ModuleType) -> None:
    chain = Compose(generated.Recall(gentle=True), generated.Begin(), StepCounter(7))
    env = TransformedEnv(Pendulum(batch_size=(3,)), chain)
    data = env.rollout(20, remembering, break_when_any_done=False)
    made = ("moved", "price")
    plain = data.exclude(*made, *(("next", key) for key in made)).clone()
    again = generated.Begin()(generated.Recall(gentle=True)(plain))
    assert torch.equal(again["hidden"], data["hidden"])
    assert torch.equal(again["next", "memory"], data["next", "memory"])
    for key in made:
        assert torch.equal(again["next", key], data["next", key])


def test_no_later_transform_writes_what_is_left_to_the_policy(generated: ModuleType) -> None:
    env = TransformedEnv(
        Pendulum(batch_size=(3,)), Compose(generated.Begin(), ClipTransform(["memory"], low=-1.0, high=1.0))
    )
    with pytest.raises(ValueError, match="Begin leaves 'memory' to the policy"):
        env.reset()


@pytest.mark.parametrize("batch", BATCHES)
def test_each_row_has_its_own_numbers(generated: ModuleType, batch: tuple[int, ...]) -> None:
    rows = torch.Size(batch).numel()
    side, force = torch.linspace(-1, 1, rows).reshape(batch), torch.linspace(0.1, 1, rows).reshape(batch)
    counts = (torch.arange(rows) % 2 == 0).reshape(batch)
    env = TransformedEnv(Pendulum(batch_size=batch), pull := generated.Pull(side, force, counts=counts))
    check_env_specs(env)
    data = env.rollout(5)
    pulled = torch.where(counts[..., None], 2 * (data["observation"][..., 0] - side[..., None]), -1.0)
    assert torch.equal(data["pulled"], pulled)
    written = data.clone().set("action", torch.full_like(data["action"], 2.0))
    assert torch.equal(pull.inv(written)["action"], force[..., None, None].expand(data["action"].shape))
    again = generated.Pull(side, force, counts=counts)(data.exclude("pulled", ("next", "pulled")).clone())
    assert torch.equal(again["next", "pulled"], data["next", "pulled"])


@pytest.mark.parametrize("batch", [*BATCHES, None])
def test_a_chain_takes_one_number_for_all(generated: ModuleType, batch: tuple[int, ...] | None) -> None:
    if batch is None:
        dynamic: EnvBase = TransformedEnv(PendulumGym(), generated.Pull(0.5, 1.5, counts=False))
        assert (alike(dynamic, generated.PulledGym())["pulled"] == -1).all()
        return
    dynamic = TransformedEnv(Pendulum(batch_size=batch), Compose(generated.Pull(0.5, 1.5), limit()))
    alike(dynamic, generated.Pulled(batch_size=batch))


@pytest.mark.parametrize("side", [[0.0, 1.0], torch.zeros(4, 2)])
def test_numbers_of_another_batch_are_refused(generated: ModuleType, side: Any) -> None:
    env = TransformedEnv(Pendulum(batch_size=(3,)), generated.Pull(side, 1.0))
    with pytest.raises(ValueError, match=r"Pull has 'side' of the shape .* and a batch of \[3\]"):
        env.reset()
