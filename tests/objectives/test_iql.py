"""The generated `IQLLoss`: against TorchRL's, and its contract."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from specgen_std.losses.iql import IQLLoss
from torch import nn

from tests.objectives.peers import (
    action_value,
    assert_equal,
    batch,
    policy,
    state_value,
    with_equal_parameters,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*No target network updater.*")

OUTPUTS = ("loss_actor", "loss_qvalue", "loss_value", "entropy")
TERMS = OUTPUTS[:3]


def pair(dtype: torch.dtype, **given: Any) -> tuple[IQLLoss, Any]:
    objectives = pytest.importorskip("torchrl.objectives")
    mine = IQLLoss(policy(dtype), action_value(dtype), state_value(dtype), **given)
    theirs = objectives.IQLLoss(policy(dtype), action_value(dtype), state_value(dtype), **given)
    with_equal_parameters(mine, theirs)
    return mine, theirs


@pytest.mark.peers
@pytest.mark.parametrize("loss_function", ["smooth_l1", "l2", "l1"])
# the peer rounds expectiles to float32: these are exact there
@pytest.mark.parametrize(("temperature", "expectile"), [(1.0, 0.5), (3.0, 0.75), (0.0, 0.125), (1.0, 1.0)])
@pytest.mark.parametrize(("members", "shape"), list(itertools.product([2, 3], [(32,), (4, 3), (1,)])))
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_torchrl(
    loss_function: str,
    temperature: float,
    expectile: float,
    members: int,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    tolerance: float,
) -> None:
    mine, theirs = pair(
        dtype,
        loss_function=loss_function,
        temperature=temperature,
        expectile=expectile,
        num_qvalue_nets=members,
    )
    # the peer knows no importance weights here
    data = lambda: batch(*shape, dtype=dtype).exclude("priority_weight")  # noqa: E731
    assert_equal(mine, theirs, data, outputs=OUTPUTS, terms=TERMS, tolerance=tolerance)


@pytest.mark.peers
@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_reductions(reduction: str) -> None:
    mine, theirs = pair(torch.float64, reduction=reduction)
    data = lambda: batch(7, dtype=torch.float64).exclude("priority_weight")  # noqa: E731
    assert_equal(mine, theirs, data, outputs=TERMS, terms=TERMS, tolerance=1e-10)


@pytest.mark.peers
@pytest.mark.parametrize("estimator", ["TD0", "TD1", "TDLambda"])
def test_value_estimators(estimator: str) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    mine, theirs = pair(torch.float64)
    mine.make_value_estimator(estimator, gamma=0.9)
    theirs.make_value_estimator(getattr(objectives.ValueEstimators, estimator), gamma=0.9)

    def data() -> Any:
        steps = batch(4, 9, dtype=torch.float64).exclude("priority_weight")
        steps["next", "done"][:, -1] = True
        steps.names = [None, "time"]
        return steps

    # with Python numbers the peer computes its targets with float32 discounts
    assert_equal(mine, theirs, data, outputs=OUTPUTS, terms=TERMS, tolerance=1e-6)


def test_weights_reach_every_term() -> None:
    loss = IQLLoss(policy(), action_value(), state_value(), reduction="none")
    each = loss(batch(6))
    loss.reduction = "mean"
    data = batch(6)
    for term in TERMS:
        plain = loss(data.exclude("priority_weight"))[term]
        torch.testing.assert_close(plain, loss(batch(6).exclude("priority_weight"))[term])
        weights = data["priority_weight"]
        unweighted = each[term] / weights
        torch.testing.assert_close(loss(data)[term], (weights * unweighted).sum() / weights.sum())


def test_a_critic_in_the_place_of_the_policy() -> None:
    with pytest.raises(TypeError, match=r"IQLLoss: `actor_network` is a policy.*TensorDictModule has none"):
        IQLLoss(action_value(), policy(), state_value())


def test_an_action_with_gradients() -> None:
    loss = IQLLoss(policy(), action_value(), state_value())
    data = batch(3)
    data["action"] = nn.Parameter(data["action"])
    with pytest.raises(RuntimeError, match="'action', the action, requires gradients"):
        loss(data)


def test_only_the_priority_is_written() -> None:
    loss, data = IQLLoss(policy(), action_value(), state_value()), batch(5)
    before = set(data.keys(True, True))
    loss(data)
    assert set(data.keys(True, True)) == {*before, "td_error"}


@pytest.mark.peers
def test_one_action_value_is_an_ensemble_of_one_and_the_given_network_for_the_peer() -> None:
    theirs = pytest.importorskip("torchrl.objectives")
    for cls, trains_what_is_given in ((IQLLoss, False), (theirs.IQLLoss, True)):
        given = action_value()
        loss = cls(policy(), given, state_value(), num_qvalue_nets=1)
        loss(batch(8))["loss_qvalue"].sum().backward()
        assert all((p.grad is not None) == trains_what_is_given for p in given.parameters())
        own = list(loss.qvalue_network_params.values(True, True))
        assert all(p.grad is not None and p.grad.any() for p in own)
        shapes = {tuple(p.shape) for p in own}
        lead = () if trains_what_is_given else (1,)
        assert shapes == {(*lead, *p.shape) for p in given.parameters()}
