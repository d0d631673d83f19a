"""Networks that are modules of tensors, and networks that are not trained: how a declared loss calls and keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
losses:
  ModelLoss:
    networks:
      model: {in: [observation, action], out: {after: "float32[k]"}, plain: true}
      features: {in: [observation], out: {now: "float32[k]"}, plain: true, trains: false}
      fixed: {in: [observation], out: {value: "float32[1]"}, ensemble: members, trains: false}
      critic: {in: [observation], out: {value: "float32[1]"}}
    keys:
      observation: {key: observation, type: "float32[n]"}
      action: {key: action, type: "float32[a]"}
    params: {members: {default: 2, min: 1}, fraction: {default: 0.5, min: 0, max: 1}}
    let:
      kept: bernoulli(fraction)
    terms:
      loss_model: {value: sum((model(now) - features(next))**2), mask: kept}
      loss_twice: sum(model(now, observation=2 * observation)**2)
      loss_value: (critic(now) - mean(fixed(now), axis=ensemble))**2
"""


class Model(nn.Module):
    """Features of an observation and an action."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        out: Tensor = self.layer(torch.cat([observation, action], -1))
        return out


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder: Path = tmp_path_factory.mktemp("plain")
    with imported(generate({"plain.yaml": SCHEMA}, "with_plain"), "with_plain", folder):
        import with_plain.plain  # type: ignore[import-not-found]

        yield with_plain.plain


def made(generated: ModuleType, **given: Any) -> Any:
    torch.manual_seed(0)
    fixed, critic = (
        TensorDictModule(nn.Linear(4, 1), in_keys=["observation"], out_keys=["value"]) for _ in range(2)
    )
    return generated.ModelLoss(Model(), nn.Linear(4, 3), fixed, critic, **given)


def data() -> TensorDict:
    torch.manual_seed(1)
    return TensorDict(
        observation=torch.randn(16, 4),
        action=torch.randn(16, 1),
        next=TensorDict(observation=torch.randn(16, 4), batch_size=[16]),
        batch_size=[16],
    )


def test_it_is_called_with_tensors(generated: ModuleType) -> None:
    loss, batch = made(generated), data()
    torch.manual_seed(3)
    out = loss(batch)
    torch.manual_seed(3)
    kept = torch.rand(16) < 0.5
    error = loss.model(batch["observation"], batch["action"]) - loss.features(batch["next", "observation"])
    torch.testing.assert_close(out["loss_model"], error.square().sum(-1)[kept].mean())
    twice = loss.model(2 * batch["observation"], batch["action"])
    torch.testing.assert_close(out["loss_twice"], twice.square().sum(-1).mean())
    assert loss.in_keys == [
        "observation", "observation", "action", ("next", "observation")
    ]  # fmt: skip


def test_what_is_not_trained(generated: ModuleType) -> None:
    loss = made(generated)
    out = loss(data())
    sum(out.values()).backward()
    trained = {name for name, p in loss.named_parameters() if p.grad is not None}
    assert trained == {name for name, p in loss.named_parameters() if p.requires_grad}
    names = {name.partition(".")[0] for name in trained}
    assert names == {"model", "critic_params"}
    assert {"features.weight", "fixed_params.module.weight"} < set(loss.state_dict())
    assert loss.parameters_of("loss_model") == list(loss.model.parameters())
    assert loss.parameters_of("loss_value") == [
        p for p in loss.parameters() if p.requires_grad and p not in set(loss.model.parameters())
    ]


def test_draws_are_from_the_generator_of_the_loss(generated: ModuleType) -> None:
    loss = made(generated, fraction=0.3)
    values = []
    for _ in range(2):
        loss.generator = torch.Generator().manual_seed(0)
        values.append(loss(data())["loss_model"])
    torch.testing.assert_close(*values)
    assert loss(data())["loss_model"] != values[0]


NEEDED = """\
specgen: 1
losses:
  ValueLoss:
    networks:
      baseline: {in: [observation], out: {offset: "float32[1]"}, optional: true}
      critic: {in: [observation], out: {value: "float32[1]"}}
    keys: {goal: {key: goal, type: "float32[1]"}}
    let: {shift: "where(given(baseline), baseline(now), 0.0 * goal)"}
    terms: {loss: (critic(now) + shift - goal)**2}
  ModelledLoss:
    extends: ValueLoss
    networks:
      model: {in: [observation], out: {guess: "float32[1]"}}
    terms: {loss_model: (model(now) - goal)**2}
"""


def test_networks_that_may_be_left_out_are_the_last_of_the_constructor(tmp_path: Path) -> None:
    with imported(generate({"needed.yaml": NEEDED}, "with_needed"), "with_needed", tmp_path):
        import with_needed.needed as made  # type: ignore[import-not-found]

        critic = TensorDictModule(nn.Linear(3, 1), in_keys=["observation"], out_keys=["value"])
        model = TensorDictModule(nn.Linear(3, 1), in_keys=["observation"], out_keys=["guess"])
        baseline = TensorDictModule(nn.Linear(3, 1), in_keys=["observation"], out_keys=["offset"])
        data = TensorDict({"observation": torch.randn(4, 3), "goal": torch.randn(4, 1)}, [4])
        alone = made.ModelledLoss(critic, model)(data)
        assert set(alone.keys()) == {"loss", "loss_model"}
        assert alone["loss"] != made.ModelledLoss(critic, model, baseline)(data)["loss"]
