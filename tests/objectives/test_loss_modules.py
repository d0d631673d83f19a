"""Objects that losses are passed, `modules`: what the class asks of them, and when it updates them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.modules import PopArtValueNorm, RunningMeanStd
from tensordict import TensorDict

from tests.objectives.nets import N_OBS, critic
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
losses:
  NormLoss:
    networks: {critic: {in: [observation], out: {state_value: "float32[1]"}}}
    keys: {goal: {key: goal, type: "float32[1]"}}
    modules:
      value_norm: {protocol: value_norm, optional: true, update: goal}
    let:
      v: critic(now)
      near: where(given(value_norm), value_norm.normalize(v), v)
      aim: where(given(value_norm), value_norm.normalize(goal), goal)
    terms:
      loss: distance(near, aim, l2)
    metrics:
      back: {value: "value_norm.denormalize(aim) * value_norm.scale()", when: given(value_norm)}
"""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder: Path = tmp_path_factory.mktemp("modules")
    with imported(generate({"norm.yaml": SCHEMA}, "with_modules"), "with_modules", folder):
        import with_modules.norm  # type: ignore[import-not-found]

        yield with_modules.norm


def data(seed: int = 0) -> TensorDict:
    generator = torch.Generator().manual_seed(seed)
    goal = 5 + 3 * torch.randn(64, 1, generator=generator)
    return TensorDict(observation=torch.randn(64, N_OBS, generator=generator), goal=goal, batch_size=[64])


def test_values_on_a_common_scale(generated: ModuleType) -> None:
    norm = PopArtValueNorm(beta=0.5)
    loss, batch = generated.NormLoss(critic(), value_norm=norm), data()
    out = loss(batch)
    goal = batch["goal"]
    torch.testing.assert_close(norm.normalize(goal), (goal - goal.mean()) / goal.std(correction=0))
    torch.testing.assert_close(norm.scale(), goal.std(correction=0).reshape(1))
    value = loss.get_stateful_net("critic")(batch.select("observation"))["state_value"]
    torch.testing.assert_close(out["loss"], ((value - goal) / norm.scale()).square().mean())
    torch.testing.assert_close(out["back"], (goal * norm.scale()).mean())
    out["loss"].backward()
    assert all(p.grad is not None for p in loss.parameters())
    assert loss.in_keys == ["observation", "goal"]


def test_without_it(generated: ModuleType) -> None:
    loss, batch = generated.NormLoss(critic()), data()
    assert loss.value_norm is None
    assert set(loss(batch).keys()) == {"loss"}
    value = loss.get_stateful_net("critic")(batch.select("observation"))["state_value"]
    torch.testing.assert_close(loss(batch)["loss"], (value - batch["goal"]).square().mean())


def test_it_is_updated_in_training_only_and_is_part_of_the_state(generated: ModuleType) -> None:
    loss = generated.NormLoss(critic(), value_norm=PopArtValueNorm())
    loss(data())
    state = {name: value.clone() for name, value in loss.state_dict().items()}
    assert {"value_norm.running_mean", "value_norm.running_mean_sq", "value_norm.debiasing_term"} < set(state)
    loss.eval()(data(1))
    assert torch.equal(loss.state_dict()["value_norm.running_mean"], state["value_norm.running_mean"])
    loss.train()(data(1))
    assert not torch.equal(loss.state_dict()["value_norm.running_mean"], state["value_norm.running_mean"])
    run = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(run(data(2))["loss"], loss.eval()(data(2))["loss"])


def test_what_lacks_a_method(generated: ModuleType) -> None:
    with pytest.raises(
        TypeError, match="`value_norm` is a ValueNorm; RunningMeanStd has no method 'denormalize', 'scale'"
    ):
        generated.NormLoss(critic(), value_norm=RunningMeanStd((1,)))


@pytest.mark.peers
@pytest.mark.parametrize("shape", [(), (3,)])
def test_running_statistics_equal_torchrl(shape: tuple[int, ...]) -> None:
    theirs: Any = pytest.importorskip("torchrl.envs.transforms.rnd").RunningMeanStd(shape)
    mine = RunningMeanStd(shape)
    generator = torch.Generator().manual_seed(0)
    for rows in (32, 5, 2):
        x = 4 + 2 * torch.randn(rows, 2, *shape, generator=generator)
        mine.update(x)
        theirs.update(x)
        torch.testing.assert_close(mine.normalize(x), theirs.normalize(x))
    theirs.load_state_dict(mine.state_dict())
    mine.update(torch.zeros(0, *shape))
    torch.testing.assert_close(mine.mean, theirs.mean)


@pytest.mark.peers
def test_values_equal_torchrl() -> None:
    theirs: Any = pytest.importorskip("torchrl.modules").PopArtValueNorm(beta=0.9)
    mine = PopArtValueNorm(beta=0.9)
    generator = torch.Generator().manual_seed(0)
    for rows in (32, 5, 2):
        x = 4 + 2 * torch.randn(rows, 2, 1, generator=generator)
        mine.update(x)
        theirs.update(x)
        torch.testing.assert_close(mine.normalize(x), theirs.normalize(x))
        torch.testing.assert_close(mine.denormalize(x), theirs.denormalize(x))
        torch.testing.assert_close(mine.scale(), theirs.scale())
    theirs.load_state_dict(mine.state_dict())
    with pytest.raises(ValueError, match=r"values of shape \(1,\), got a batch of shape \(4, 2\)"):
        mine.update(torch.zeros(4, 2))
