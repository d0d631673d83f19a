"""Transforms whose behaviour is a user's class: by themselves, in chains, and what is said of classes that are wrong."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, SerialEnv, check_env_specs
from specgen_runtime.specs import Bounded, Categorical, Unbounded
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import Pendulum, PendulumGym
from specgen_std.transforms import RenameTransform, StepCounter
from torch import nn

from tests.support import generate, imported
from tests.transforms import python_classes
from tests.transforms.envs import rollouts_alike

SCHEMA = Path(__file__).parent / "schemas" / "python.yaml"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"python.yaml": SCHEMA.read_text(encoding="utf-8")}, "python_transforms")
    with imported(files, "python_transforms", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("python_transforms.python")


def pair(generated: ModuleType, batch: tuple[int, ...] | None) -> tuple[EnvBase, EnvBase]:
    """The classes around an environment, and the chain of them; without a batch those of Gymnasium."""
    scale, limit = (2.0, None) if batch is None else (3.0, 20)
    chain = Compose(generated.Embed(scale=scale), generated.Smooth(), generated.Weigh(), StepCounter(limit))
    base = PendulumGym() if batch is None else Pendulum(batch_size=batch)
    fused = generated.TrainGym() if batch is None else generated.Train(batch_size=batch)
    return TransformedEnv(base, chain), fused


@pytest.mark.parametrize("batch", [(), (3,), (4, 3), None])
def test_a_chain_gives_what_the_classes_give(generated: ModuleType, batch: tuple[int, ...] | None) -> None:
    envs = pair(generated, batch)
    found = rollouts_alike(envs, 50)
    assert found[0]["next", "weighed_reward"].abs().max() > 0


@pytest.mark.parametrize("batch", [(), (3,), (4, 3), None])
def test_inverses_and_flags_in_a_chain(generated: ModuleType, batch: tuple[int, ...] | None) -> None:
    base = PendulumGym() if batch is None else Pendulum(batch_size=batch)
    choices, limit = (5, None) if batch is None else (3, 20)
    chain = Compose(
        generated.Brake(), generated.Primitive(count=choices), generated.Smooth(), StepCounter(limit)
    )
    fused = generated.ChosenGym() if batch is None else generated.Chosen(batch_size=batch)
    assert {*fused.action_keys} == {"choice", "force"}
    found = rollouts_alike((TransformedEnv(base, chain), fused), 50)
    assert found[0]["next", "truncated"].any()
    assert not found[0]["next", "truncated"].all()


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_flags_of_a_class_behind_other_flags(generated: ModuleType, batch: tuple[int, ...]) -> None:
    fused, chain = generated.Braked(batch_size=batch), Compose(StepCounter(30), generated.Brake())
    assert fused.action_spec == Unbounded((*batch, 1))
    found = rollouts_alike((TransformedEnv(Pendulum(batch_size=batch), chain), fused), 50)
    assert found[0]["next", "truncated"].any()
    assert torch.equal(found[0]["next", "truncated"], found[0]["next", "done"])


BATCHES_OF_GOALS = [(goal, batch) for goal in (True, False) for batch in ((), (3,), (4, 3))]


@pytest.mark.parametrize(("goal", "batch"), [*BATCHES_OF_GOALS, (False, None)])
def test_keys_that_may_be_missing(generated: ModuleType, goal: bool, batch: tuple[int, ...] | None) -> None:
    base = PendulumGym() if batch is None else Pendulum(batch_size=batch)
    own = [generated.Aim(), generated.Tell()]
    first = [RenameTransform(["observation"], ["goal"], create_copy=True)] if goal else []
    chain = Compose(
        *first, *(own[::-1] if batch is None else own), StepCounter(None if batch is None else 20)
    )
    made = generated.AimlessGym() if batch is None else generated.Aimed if goal else generated.Aimless
    fused = made if batch is None else made(batch_size=batch)
    env = TransformedEnv(base, chain)
    found = rollouts_alike((env, fused), 50)
    there = torch.tensor([float(goal), float(batch is not None)])
    assert (found[0]["next", "there"] == there).all()
    near = found[0]["next", "observation"]
    near = (0.5 * near if goal else near).abs().sum(-1)
    near = near if batch is None else near + found[0]["next", "thdot"]
    assert torch.allclose(found[0]["next", "last"], near)
    assert found[0]["next", "nearer"].any()


def test_the_values_are_those_of_the_class(generated: ModuleType) -> None:
    env, fused = pair(generated, (3,))
    for each in (env, fused):
        data = each.rollout(8, break_when_any_done=False)
        mean = data["observation"][:, 0]
        for moment in data["next"].unbind(1):
            change = 0.25 * (moment["observation"] - mean)
            mean = mean + change
            torch.testing.assert_close(moment["smooth"], mean)
            torch.testing.assert_close(moment["calm_reward"][:, 0], -change.abs().sum(-1))


RECORDS = """\
specgen: 1
transforms:
  Raise:
    in: {reward: {each: env.reward, type: "float[...]"}}
    out: {truncated: {each: reward, name: truncated, type: "bool[...]"}}
    step: {next.truncated: next.truncated or next.reward > 1.0e9}
  Calm:
    python: nowhere.calm:Calm
    phases: [map]
    in: {x: {key: observation, type: "float32[n]"}}
    out: {calm: {key: calm, type: "float32[]"}}
"""


def test_a_module_of_classes_without_environments(tmp_path: Path) -> None:
    with imported(generate({"a.yaml": RECORDS}, "python_alone"), "python_alone", tmp_path) as package:
        assert package.CalmInputs._fields == ("x",)


def test_rewards_of_a_class_are_stored_as_others_are(generated: ModuleType, tmp_path: Path) -> None:
    with imported(generate({"a.yaml": RECORDS}, "python_rewards"), "python_rewards", tmp_path) as package:
        env = TransformedEnv(Pendulum(batch_size=[3]), Compose(generated.Smooth(), package.Raise()))
        data = env.rollout(3)
    assert data["next", "calm_reward"].shape == data["next", "truncated"].shape == (3, 3, 1)


def test_a_module_is_a_submodule(generated: ModuleType) -> None:
    env, fused = pair(generated, (3,))
    assert list(env.state_dict()) == [f"transforms.0.python.linear.{name}" for name in ("weight", "bias")]
    assert [name for name, _ in fused.named_parameters()] == ["embed_0.linear.weight", "embed_0.linear.bias"]
    for each in (env, fused):
        each.rollout(3)["observation_feature"].sum().backward()
        assert all(parameter.grad is not None for parameter in each.parameters())


def test_partial_resets_and_offline(generated: ModuleType) -> None:
    for env in pair(generated, (3,)):
        root = env.step_mdp(env.step(env.rand_action(env.reset())))
        again = env.reset(root.clone().set("_reset", torch.tensor([[True], [False], [False]])))
        assert (again["moved"] == 0).tolist() == [True, False, False]
        assert torch.equal(again["smooth"][1:], root["smooth"][1:])
    data = Pendulum(batch_size=[3]).rollout(6)
    smooth = generated.Smooth()
    online = TransformedEnv(Pendulum(batch_size=[3]), smooth).rollout(6)
    assert smooth(data)["next", "smooth"].shape == (3, 6, 3)
    replayed = generated.Smooth()(
        online.exclude("smooth", ("next", "smooth"), "moved", ("next", "moved")).clone()
    )
    torch.testing.assert_close(replayed["next", "smooth"], online["next", "smooth"])


def test_copies_have_objects_of_their_own(generated: ModuleType) -> None:
    env = copy.deepcopy(pair(generated, (3,))[0])
    with torch.no_grad():
        env.transform[0].python.linear.weight.zero_()
        env.transform[0].python.linear.bias.fill_(1.0)
    assert (env.reset()["observation_feature"] == 3).all()


class Faulty(nn.Module):
    """An `Embedder` that gives something else."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change

    def map(self, inputs: Any) -> Any:
        rows = len(inputs.x)
        right = {"feature": torch.zeros(rows, 4), "size": torch.zeros(rows)}
        return self.change(inputs, python_classes.made(self, inputs, "EmbedMap"), right)


def in_place(inputs: Any, record: Any, right: dict[str, Any]) -> Any:
    inputs.x.add_(1)
    return record(**right)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda _, record, right: right, TypeError, "Embedder.map must return a EmbedMap, found dict"),
        (
            lambda _, record, right: record(**{**right, "feature": torch.zeros(2, 4)}),
            RuntimeError,
            r"Embed: .*Embedder.map must return 'feature' as torch.float32 \[3, 4\] on cpu, found torch.float32 \[2, 4\]",
        ),
        (
            lambda _, record, right: record(**{**right, "size": torch.zeros(3, dtype=torch.int64)}),
            RuntimeError,
            r"must return 'size' as torch.float32 \[3\] on cpu, found torch.int64",
        ),
        (lambda _, record, right: record(**{**right, "size": 1.0}), TypeError, r"'size' .* found float"),
        (in_place, RuntimeError, "changed x in place"),
    ],
)
def test_what_a_class_returns_is_checked(
    generated: ModuleType, change: Any, error: type[Exception], said: str
) -> None:
    embed = generated.Embed()
    embed.python = Faulty(change)
    env = TransformedEnv(Pendulum(batch_size=[3]), embed)
    with pytest.raises(error, match=said):
        env.reset()


def test_classes_that_are_not_there(generated: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(python_classes, "Smoother")
    with pytest.raises(
        ImportError, match=r"Smooth: its schema says `python: .*Smoother`, but .* has no class 'Smoother'"
    ):
        generated.Smooth()
    monkeypatch.setattr(python_classes, "Weigher", lambda setup: object())
    with pytest.raises(TypeError, match=r"Weigh: .*Weigher has no method 'map'"):
        generated.Weigh()


def test_a_class_that_reads_its_environment(generated: ModuleType) -> None:
    heavy = generated.Mass()
    env = TransformedEnv(TransformedEnv(Pendulum(m=4.0), StepCounter()), heavy)
    check_env_specs(env)
    assert env.reset()["mass"].tolist() == [4.0]
    with pytest.raises(RuntimeError, match="Mass reads its environment, and is part of none"):
        generated.Mass()(Pendulum().reset())
    with pytest.raises(RuntimeError, match="SerialEnv has in workers"):
        TransformedEnv(SerialEnv(2, Pendulum), generated.Mass()).reset()


@pytest.mark.parametrize("batch", [(), (3,), (4, 3), None])
def test_a_class_reads_the_chain_that_it_is_part_of(
    generated: ModuleType, batch: tuple[int, ...] | None
) -> None:
    if batch is None:
        fused, chain = generated.WeighedGym(), Compose(generated.Heavy(), StepCounter())
        dynamic = TransformedEnv(PendulumGym(), chain)
    else:
        fused = generated.Weighed(m=2.5, batch_size=batch)
        chain = Compose(generated.Mass(), generated.Heavy(), StepCounter(20))
        dynamic = TransformedEnv(Pendulum(m=2.5, batch_size=batch), chain)
        assert fused.reset()["mass"].unique().tolist() == [2.5]
    weight = 4.0 if batch is None else 5.0
    for env in (fused, copy.deepcopy(fused), fused.to("cpu")):
        assert env.rollout(3)["next", "weight"].unique().tolist() == [weight]
    rollouts_alike((dynamic, fused), 30)


def test_a_module_that_keeps_the_chain_as_its_own_submodule_is_refused(generated: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"Endless: .*ScalesThatMove is a submodule of the environment"):
        generated.Endless()


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_a_class_makes_the_action(generated: ModuleType, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Pendulum(batch_size=batch), primitive := generated.Primitive(count=3))
    check_env_specs(env)
    assert {*env.action_keys} == {"choice", "force"}
    assert env.full_action_spec["choice"] == Categorical(3, shape=batch)
    assert env.full_action_spec["force"] == Bounded(0.0, 1.0, (*batch, 1))
    torch.manual_seed(0)
    data = env.rollout(4)
    root = data[..., 0].clone()
    root["action"] = torch.tensor([-2.0, 0.0, 2.0])[root["choice"]].unsqueeze(-1) * root["force"]
    plain = Pendulum(batch_size=batch).step(root)["next", "observation"]
    torch.testing.assert_close(plain, data[..., 0]["next", "observation"])
    assert primitive.inv(data)["action"].requires_grad
    assert [name for name, _ in primitive.named_parameters()] == ["python.table"]


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_a_class_raises_flags(generated: ModuleType, batch: tuple[int, ...]) -> None:
    env = TransformedEnv(Pendulum(batch_size=batch), generated.Brake())
    check_env_specs(env)
    torch.manual_seed(0)
    data = env.rollout(60, break_when_any_done=False)
    fast, truncated = data["next", "fast"], data["next", "truncated"].squeeze(-1)
    assert torch.equal(truncated, fast >= 3)
    assert torch.equal(data["next", "done"].squeeze(-1), truncated)
    assert truncated.any()
    assert not data["truncated"].any()
    assert (data["fast"][..., 1:][truncated[..., :-1]] == 0).all()
    large = data[..., 0].clone()
    large["action"] = torch.full_like(large["action"], 2.0)
    small = large.clone().set("action", torch.full_like(large["action"], 0.5))
    following = [env.step(each)["next", "observation"] for each in (large, small)]
    assert torch.equal(*following)
    assert env.action_spec == Unbounded((*batch, 1))  # nobody knows what the class makes of it


def test_the_action_of_a_class_is_checked(generated: ModuleType) -> None:
    primitive = generated.Primitive(count=3)
    env = TransformedEnv(Pendulum(batch_size=(3,)), primitive)
    root = env.rand_action(env.reset())
    with torch.no_grad():
        primitive.python.table = nn.Parameter(torch.zeros(3, 1, dtype=torch.float64))
    with pytest.raises(RuntimeError, match=r"Primitives.inverse must return 'u' as torch.float32 \[3, 1\]"):
        env.step(root)
    primitive.python.table = nn.Parameter(torch.zeros(3, 2))
    with pytest.raises(RuntimeError, match=r"Primitives.inverse must return 'u' as"):
        env.step(root)
