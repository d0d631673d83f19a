"""The generated `KLPENPPOLoss`: against TorchRL's, the paper's formula, and what adapts its penalty."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import torch
from specgen_std.losses.ppo import KLPENPPOLoss
from tensordict import TensorDict
from torch.distributions import Categorical, kl_divergence

from tests.objectives.peers import N_ACT, gradients, policy, state_value, with_equal_parameters
from tests.objectives.test_policy_gradients import categorical, compare
from tests.objectives.test_policy_gradients import steps as scored_steps

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*arget.*updater.*", "ignore:.*No target network updater.*", "ignore:.*log-probability.*"
)

STILL: dict[str, Any] = {"increment": 1.0, "decrement": 1.0}
"""The weight of the penalty stays: TorchRL's gradient has the weight that is adapted, so that nothing can be compared."""


def steps(*shape: int, dtype: torch.dtype, discrete: bool = True, estimated: bool = False) -> TensorDict:
    """Data that hold the parameters of another policy's distribution."""
    data = scored_steps(*shape, dtype=dtype, discrete=discrete, estimated=estimated)
    generator = torch.Generator().manual_seed(9)
    if discrete:
        data["logits"] = torch.randn(*shape, 3, generator=generator, dtype=torch.float64).to(dtype)
        return data
    data["loc"] = torch.randn(*shape, N_ACT, generator=generator, dtype=torch.float64).to(dtype)
    data["scale"] = torch.rand(*shape, N_ACT, generator=generator, dtype=torch.float64).to(dtype) + 0.5
    return data


def pair(dtype: torch.dtype, *, discrete: bool = True, **given: Any) -> tuple[Any, Any]:
    objectives = pytest.importorskip("torchrl.objectives")
    made = [
        kind((categorical if discrete else policy)(dtype), state_value(dtype), **given)
        for kind in (KLPENPPOLoss, objectives.KLPENPPOLoss)
    ]
    with_equal_parameters(*made)
    return made[0], made[1]


OPTIONS: list[dict[str, Any]] = [
    {"beta": beta, "delay_actor": delay, "normalize_advantage": normalize, "clip_value": clip}
    for beta, delay, normalize, clip in itertools.product(
        (1.0, 0.3), (True, False), (True, False), (None, 0.2)
    )
] + [{"entropy_bonus": False}, {"critic_coeff": 0.0}, {"max_importance_ratio": 1.2, "dtarg": 0.5}]


@pytest.mark.peers
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("given", OPTIONS)
def test_equals_torchrl(given: dict[str, Any], dtype: torch.dtype, tolerance: float) -> None:
    compare(*pair(dtype, **given, **STILL), lambda: steps(24, dtype=dtype), tolerance)


@pytest.mark.peers
@pytest.mark.parametrize("reduction", ["sum", "none", "mean"])
def test_reductions_and_estimated_advantages(reduction: str) -> None:
    mine, theirs = pair(torch.float64, reduction=reduction, **STILL)
    for loss in (mine, theirs):
        loss.make_value_estimator(gamma=0.875, lmbda=0.75)
    compare(
        mine,
        theirs,
        lambda: steps(5, 4, dtype=torch.float64, estimated=True),
        1e-10,
        but=("explained_variance",),
    )


@pytest.mark.peers
@pytest.mark.parametrize("samples", [1, 3])
def test_a_divergence_without_a_closed_form(samples: int) -> None:
    given = {"samples_mc_kl": samples, "entropy_bonus": False}
    mine, theirs = pair(torch.float64, discrete=False, **given, **STILL)
    compare(mine, theirs, lambda: steps(24, dtype=torch.float64, discrete=False), 1e-10)


@pytest.mark.peers
@pytest.mark.parametrize(("dtarg", "adapted"), [(100.0, 0.25**4), (1e-4, 3.0**4), (None, 1.0)])
def test_the_weight_adapts_as_torchrls(dtarg: float | None, adapted: float) -> None:
    data = steps(24, dtype=torch.float64)
    mine, theirs = pair(torch.float64)
    if dtarg is None:
        dtarg = mine(data)["kl"].mean().item()
    mine, theirs = pair(torch.float64, dtarg=dtarg, increment=3.0, decrement=0.25)
    for _ in range(4):
        torch.testing.assert_close(mine(data)["loss_objective"], theirs(data.clone())["loss_objective"])
        torch.testing.assert_close(mine.beta, theirs.beta)
    assert mine.beta.item() == pytest.approx(adapted)


@pytest.mark.peers
def test_the_gradient_has_the_weight_of_the_value() -> None:
    """The peer adapts the weight before the backward pass: its gradient of the penalty is twice that of its value."""
    data = steps(24, dtype=torch.float64)
    data["advantage"] = torch.zeros_like(data["advantage"])  # the penalty alone
    mine, theirs = pair(torch.float64, dtarg=1e-3)
    own = gradients(mine, mine(data)["loss_objective"])
    other = gradients(theirs, theirs(data.clone())["loss_objective"])
    assert mine.beta == theirs.beta == 2.0
    for name, gradient in own.items():
        torch.testing.assert_close(2 * gradient, other[name])


def test_equals_the_paper() -> None:
    """Schulman et al. 2017, section 4."""
    actor = categorical(torch.float64)
    loss = KLPENPPOLoss(actor, state_value(torch.float64), beta=0.7, dtarg=0.02)
    data = steps(24, dtype=torch.float64)
    old, new = Categorical(logits=data["logits"]), actor.get_dist(data.clone())
    divergence = kl_divergence(old, new)
    ratio = (new.log_prob(data["action"]) - data["action_log_prob"]).exp()
    expected = (0.7 * divergence - ratio * data["advantage"].squeeze(-1)).mean()
    found = loss(data)
    torch.testing.assert_close(found["loss_objective"], expected, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(found["kl"], divergence)
    assert divergence.mean() > 1.5 * 0.02
    torch.testing.assert_close(loss.beta, torch.tensor(1.4))


def test_what_adapts_is_in_the_state_and_restored() -> None:
    loss = KLPENPPOLoss(categorical(), state_value(), beta=0.5)
    data, buffer = steps(24, dtype=torch.float32), loss.beta
    loss(data)
    assert loss.beta is buffer
    assert buffer == 1.0
    assert loss.state_dict()["beta"] == 1.0
    other = copy.deepcopy(loss)
    loss.eval()
    loss(data)
    assert buffer == 1.0
    loss.reset()
    assert buffer == 0.5
    other.reset()
    assert other.beta == 0.5
    assert other.beta is not buffer


def test_samples_that_do_not_count_do_not_adapt_it() -> None:
    loss: Any = KLPENPPOLoss(categorical(), state_value(), increment=4.0)
    data = steps(24, dtype=torch.float32)
    live = categorical().get_dist(data.clone()).logits.detach()
    data["mask"] = torch.arange(24) < 20
    data["logits"] = torch.where(data["mask"].unsqueeze(-1), live, data["logits"])
    loss.loss_mask_key = "mask"
    loss(data)
    assert loss.beta == 0.5
    loss.loss_mask_key = None
    loss.beta = 1.0
    loss(data)
    assert loss.beta == 4.0


def test_what_it_reads() -> None:
    loss = KLPENPPOLoss(categorical(), state_value())
    data = steps(6, dtype=torch.float32)
    assert "logits" in loss.in_keys
    with pytest.raises(
        KeyError, match="actor_network: a parameter of the distribution 'logits' is not in the tensordict"
    ):
        loss(data.exclude("logits"))
    delayed = KLPENPPOLoss(categorical(), state_value(), delay_actor=True)
    assert "logits" not in delayed.in_keys
    delayed(data.exclude("logits"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"increment": 0.5}, "increment must be >= 1"),
        ({"decrement": 1.5}, "decrement must be <= 1"),
        ({"dtarg": 0.0}, "dtarg must be > 0"),
        ({"beta": -1.0}, "beta must be >= 0"),
    ],
)
def test_numbers_that_are_none(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KLPENPPOLoss(categorical(), state_value(), **given)
