"""The generated `GAILLoss`: against TorchRL's on the same draws, by its formula, and its contract."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_std.losses.gail import GAILLoss
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from tests.objectives.peers import N_ACT, N_OBS, gradients, with_equal_parameters

PENALTIES: list[dict[str, Any]] = [
    {},
    {"use_grad_penalty": True},
    {"use_grad_penalty": True, "gp_lambda": 0.5},
]


class Discriminator(nn.Module):
    """The probability that an expert did an action."""

    def __init__(self, dtype: torch.dtype, *, normalised: bool) -> None:
        super().__init__()
        norm = [nn.BatchNorm1d(N_OBS + N_ACT, dtype=dtype)] if normalised else []
        first, last = nn.Linear(N_OBS + N_ACT, 8, dtype=dtype), nn.Linear(8, 1, dtype=dtype)
        self.net = nn.Sequential(*norm, first, nn.Tanh(), last, nn.Sigmoid())

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        out: Tensor = self.net(torch.cat([observation, action], -1))
        return out


def discriminator(
    dtype: torch.dtype = torch.float32, *, normalised: bool = False, keys: Any = ("observation", "action")
) -> TensorDictModule:
    torch.manual_seed(1)
    network = Discriminator(dtype, normalised=normalised)
    return TensorDictModule(network, in_keys=list(keys), out_keys=["d_logits"])


def data_of(*shape: int, dtype: torch.dtype = torch.float32) -> TensorDict:
    generator = torch.Generator().manual_seed(1)
    sizes = {
        "observation": N_OBS,
        "action": N_ACT,
        "collector_observation": N_OBS,
        "collector_action": N_ACT,
    }
    made = {
        key: torch.randn(*shape, n, generator=generator, dtype=torch.float64).to(dtype)
        for key, n in sizes.items()
    }
    return TensorDict(made, shape)


def outputs(loss: Any, data: TensorDict) -> TensorDict:
    torch.manual_seed(11)
    out: TensorDict = loss(data)
    return out


def pair(*, normalised: bool = False, **given: Any) -> tuple[GAILLoss, Any]:
    objectives = pytest.importorskip("torchrl.objectives")
    mine = GAILLoss(discriminator(normalised=normalised), **given)
    theirs = objectives.GAILLoss(discriminator(normalised=normalised), **given)
    if not normalised:
        with_equal_parameters(mine, theirs)
    return mine, theirs


@pytest.mark.peers
@pytest.mark.parametrize("options", PENALTIES, ids=["none", "penalty", "weight"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(32,), (4, 3), (1,)])
@pytest.mark.parametrize("normalised", [False, True])
def test_equals_torchrl(
    options: dict[str, Any], reduction: str, shape: tuple[int, ...], normalised: bool
) -> None:
    if normalised and len(shape) > 1:
        pytest.skip("batch normalisation takes one batch dimension")
    mine, theirs = pair(reduction=reduction, normalised=normalised, **options)
    if normalised and shape == (1,) and options:
        pytest.skip("batch normalisation takes no single sample")
    got, wanted = (outputs(loss, data_of(*shape)) for loss in (mine, theirs))
    kept = ["loss", "gp_loss"] if options else ["loss"]
    assert set(got.keys()) == set(kept)
    assert set(wanted.keys()) == set(kept)
    assert mine.out_keys == theirs.out_keys
    torch.testing.assert_close(got["loss"], wanted["loss"], rtol=1e-5, atol=1e-5)
    if options and reduction == "mean":
        torch.testing.assert_close(got["gp_loss"], wanted["gp_loss"], rtol=1e-5, atol=1e-5)
    found, expected = gradients(mine, got["loss"]), gradients(theirs, wanted["loss"])
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5, msg=name)


def by_formula(network: nn.Module, data: TensorDict, weight: float | None) -> tuple[Tensor, Tensor]:
    """Ho & Ermon 2016, algorithm 1, with the labels of the expert 1; Gulrajani et al. 2017, eq. 3."""
    expert = network(data["observation"], data["action"]).squeeze(-1)
    collected = network(data["collector_observation"], data["collector_action"]).squeeze(-1)
    value = -torch.log(expert) - torch.log(1 - collected)
    if weight is None:
        return value, torch.zeros_like(value)
    torch.manual_seed(11)
    u, w = torch.rand_like(data["observation"]), torch.rand_like(data["action"])
    observation = u * data["collector_observation"] + (1 - u) * data["observation"]
    action = w * data["collector_action"] + (1 - w) * data["action"]
    both = torch.cat([observation, action], -1).requires_grad_()
    y = network(both[..., :N_OBS], both[..., N_OBS:])
    (slope,) = torch.autograd.grad(y.sum(), both, create_graph=True)
    penalty = weight * (slope.square().sum(-1).sqrt() - 1) ** 2
    return value + penalty, penalty


@pytest.mark.parametrize("weight", [None, 10.0, 0.5])
@pytest.mark.parametrize("shape", [(9,), (4, 3), (2, 3, 2)])
def test_double_precision_and_further_dimensions(weight: float | None, shape: tuple[int, ...]) -> None:
    network = discriminator(torch.float64)
    loss = GAILLoss(network, use_grad_penalty=weight is not None, gp_lambda=weight or 1.0, reduction="none")
    data = data_of(*shape, dtype=torch.float64)
    own = discriminator(torch.float64).module
    wanted, penalty = by_formula(own, data, weight)
    out = outputs(loss, data)
    torch.testing.assert_close(out["loss"].reshape(shape), wanted, rtol=1e-10, atol=1e-10)
    if weight is not None:
        torch.testing.assert_close(out["gp_loss"].mean(), penalty.mean(), rtol=1e-10, atol=1e-10)
    wanted.mean().backward()
    found = gradients(loss, out["loss"].mean())
    for name, parameter in own.named_parameters():
        got = found["discriminator_network_params.module." + name]
        torch.testing.assert_close(got, parameter.grad, rtol=1e-10, atol=1e-10, msg=name)


@pytest.mark.peers
def test_each_sample_has_its_own_penalty() -> None:
    mine, theirs = pair(use_grad_penalty=True, reduction="none")
    got, wanted = outputs(mine, data_of(9)), outputs(theirs, data_of(9))
    mean, other = got["loss"].mean(), wanted["loss"].mean()
    torch.testing.assert_close(mean, other)
    assert not torch.allclose(got["loss"].flatten(), wanted["loss"].flatten(), atol=1e-3)


@pytest.mark.parametrize("saturated", [200.0, -200.0])
def test_certain_discriminators_have_finite_losses(saturated: float) -> None:
    network = discriminator()
    last = network.module.net[-2]
    last.weight.data.zero_()
    last.bias.data.fill_(saturated)
    loss = GAILLoss(network, use_grad_penalty=True, gp_lambda=0.0)
    out = outputs(loss, data_of(5))
    torch.testing.assert_close(out["loss"], torch.tensor(100.0))
    assert all(value.isfinite().all() for value in gradients(loss, out["loss"]).values())


def test_the_penalty_without_gradients() -> None:
    loss = GAILLoss(discriminator(), use_grad_penalty=True)
    expected = outputs(loss, data_of(5))
    with torch.no_grad():
        out = outputs(loss, data_of(5))
    torch.testing.assert_close(out["loss"], expected["loss"])
    assert not out["loss"].requires_grad
    assert expected["loss"].requires_grad
    assert not expected["gp_loss"].requires_grad


def test_the_penalty_compiles_in_one_graph() -> None:
    loss = GAILLoss(discriminator(), use_grad_penalty=True)
    expected = outputs(loss, data_of(5))
    wanted = gradients(loss, expected["loss"])
    torch._dynamo.reset()
    out = outputs(torch.compile(loss, fullgraph=True, backend="aot_eager"), data_of(5))
    torch.testing.assert_close(out["loss"], expected["loss"])
    for name, value in gradients(loss, out["loss"]).items():
        torch.testing.assert_close(value, wanted[name], msg=name)


def test_the_penalty_of_several_sets_of_parameters_at_once() -> None:
    loss, data = GAILLoss(discriminator(), use_grad_penalty=True), data_of(5)
    own = TensorDict.from_module(loss).detach().clone()
    sets = [own, own.apply(lambda value: 0.5 * value)]

    def value(parameters: TensorDict) -> Tensor:
        with parameters.to_module(loss):
            out: Tensor = loss(data.clone())["loss"]
        return out

    torch.manual_seed(11)
    together = torch.vmap(value, randomness="same")(torch.stack(sets))
    for number, parameters in enumerate(sets):
        torch.manual_seed(11)
        torch.testing.assert_close(together[number], value(parameters))


def test_nested_keys() -> None:
    keys = (("expert", "seen"), ("expert", "done"))
    loss = GAILLoss(discriminator(keys=keys), use_grad_penalty=True)
    loss.set_keys(expert_observation=keys[0], expert_action=keys[1])
    data = data_of(5)
    nested = data.select("collector_observation", "collector_action")
    nested.set(keys[0], data["observation"]).set(keys[1], data["action"])
    expected = outputs(GAILLoss(discriminator(), use_grad_penalty=True), data)
    torch.testing.assert_close(outputs(loss, nested)["loss"], expected["loss"])
