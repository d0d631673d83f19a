"""Calls in evaluation mode, and calls that run as one batch, in losses of one's own."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
losses:
  ModesLoss:
    allow: [SG434]
    networks:
      model: {in: [observation], out: {features: "float32[1]"}}
    terms:
      loss: model.frozen.eval(now)
    metrics:
      trained: {each: model.frozen(now)}
  MembersLoss:
    networks:
      model: {in: [observation], out: {features: "float32[1]"}, ensemble: members, target: true}
    params: {members: {default: 2, min: 1}}
    terms:
      loss: sum(model.eval(now), axis=ensemble)
    metrics:
      other: {each: model.target.eval(now)}
  TogetherLoss:
    networks:
      model: {in: [observation], out: {features: "float32[1]"}, joined: true}
    terms:
      loss: (model(now) - stop_grad(model(next)))**2
"""


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"modes.yaml": SCHEMA}, "modes_of_losses")
    with imported(files, "modes_of_losses", tmp_path_factory.mktemp("modes")):
        yield importlib.import_module("modes_of_losses.modes")


def network(*, normalised: bool = False) -> TensorDictModule:
    torch.manual_seed(0)
    random: nn.Module = nn.BatchNorm1d(4) if normalised else nn.Dropout(0.5)
    layers = nn.Sequential(nn.Linear(3, 4), random, nn.Linear(4, 1))
    return TensorDictModule(layers, in_keys=["observation"], out_keys=["features"])


def data(size: int = 64) -> TensorDict:
    generator = torch.Generator().manual_seed(1)
    records = [torch.randn(size, 3, generator=generator) for _ in range(2)]
    return TensorDict({"observation": records[0], "next": {"observation": 3 + records[1]}}, [size])


@pytest.mark.parametrize("functional", [True, False])
def test_evaluation_leaves_the_mode_of_the_loss(losses: ModuleType, functional: bool) -> None:
    module, batch = network(), data()
    loss = losses.ModesLoss(module, functional=functional, reduction="none")
    expected = network().eval()(batch.clone())["features"].squeeze(-1)
    out = loss(batch)
    torch.testing.assert_close(out["loss"], expected)
    assert not torch.allclose(out["trained"], expected)
    assert module.training
    assert loss.training
    loss.eval()
    torch.testing.assert_close(loss(batch)["trained"], expected)
    loss.train()
    again = loss(batch)
    torch.testing.assert_close(again["loss"], expected)
    assert not torch.allclose(again["trained"], expected)


def test_evaluation_follows_the_parameters(losses: ModuleType) -> None:
    loss, batch = losses.ModesLoss(network(), reduction="none"), data()
    before = loss(batch)["loss"]
    for parameter in loss.parameters():
        parameter.data.add_(1)
    after = loss(batch)["loss"]
    assert not torch.allclose(before, after)
    for other in (pickle.loads(pickle.dumps(loss)), loss.to(torch.float64).to(torch.float32)):
        torch.testing.assert_close(other(batch)["loss"], after)


@pytest.mark.parametrize("members", [1, 2, 6])
@pytest.mark.parametrize("normalised", [True, False])
def test_members_in_evaluation(losses: ModuleType, members: int, normalised: bool) -> None:
    modules, batch = [network(normalised=normalised) for _ in range(members)], data()
    for number, module in enumerate(modules):
        for parameter in module.parameters():
            parameter.data.mul_(number + 1)
    expected = torch.stack([m.eval()(batch.clone())["features"].squeeze(-1) for m in modules])
    for module in modules:
        module.train()
    loss = losses.MembersLoss(modules, members=members, reduction="none")
    out = loss(batch)
    torch.testing.assert_close(out["loss"], expected.sum(0))
    torch.testing.assert_close(out["other"], expected.detach())


def test_one_batch_has_one_mean(losses: ModuleType) -> None:
    module, batch = network(normalised=True), data()
    loss = losses.TogetherLoss(module, reduction="none")
    out = loss(batch)["loss"]
    both = network(normalised=True).module(torch.cat([batch["observation"], batch["next", "observation"]]))
    torch.testing.assert_close(out, (both[:64] - both[64:]).squeeze(-1) ** 2)
    apart = [network(normalised=True).module(one["observation"]) for one in (batch, batch["next"])]
    assert (out - (apart[0] - apart[1]).squeeze(-1) ** 2).abs().max() > 0.1
    assert loss.model_params["module", "1", "num_batches_tracked"].item() == 1


def test_runs_of_no_evaluation_are_refused() -> None:
    from specgen_runtime.objectives.networks import FunctionalNetwork

    made = FunctionalNetwork("model", network(), expanded=False)
    with pytest.raises(RuntimeError, match="network model has no copy in evaluation mode"):
        made.evaluated  # noqa: B018 - the property raises
