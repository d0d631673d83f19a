"""The generated `OnlineDTLoss`: against TorchRL's on the same draws, by its formula, and its contract."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.specs import Bounded, Composite
from specgen_std.losses import OnlineDTLoss
from tensordict import TensorDict

from tests.objectives.peers import N_ACT, batch, gradients, policy, with_equal_parameters

OUTPUTS = ("loss_log_likelihood", "loss_entropy", "loss_alpha", "alpha", "entropy")
OPTIONS: list[dict[str, Any]] = [
    {},
    {"alpha_init": 0.25},
    {"fixed_alpha": True},
    {"alpha_init": 0.05, "min_alpha": 0.2},
    {"alpha_init": 3.0, "min_alpha": 0.5, "max_alpha": 1.0},
    {"samples_mc_entropy": 5},
    {"reduction": "sum"},
]


def data(*shape: int, dtype: torch.dtype = torch.float32) -> TensorDict:
    return batch(*shape, dtype=dtype).select("observation", "action")


def pair(dtype: torch.dtype, **given: Any) -> tuple[OnlineDTLoss, Any]:
    objectives = pytest.importorskip("torchrl.objectives")
    given = {"target_entropy": -1.5, **given}
    mine, theirs = (cls(policy(dtype), **given) for cls in (OnlineDTLoss, objectives.OnlineDTLoss))
    with_equal_parameters(mine, theirs)
    return mine, theirs


@pytest.mark.peers
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", [(32,), (4, 3), (1,)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_torchrl(
    options: dict[str, Any], shape: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    losses = pair(dtype, **options)
    results = []
    for loss in losses:
        torch.manual_seed(11)
        results.append(loss(data(*shape, dtype=dtype)))
    for name in OUTPUTS:
        if name == "loss_alpha" and options.get("fixed_alpha"):
            assert not results[0][name].any()
            continue
        torch.testing.assert_close(results[0][name], results[1][name], rtol=tolerance, atol=tolerance)
    assert set(results[0].keys()) == set(results[1].keys())
    for term in OUTPUTS[:3]:
        if term == "loss_alpha" and options.get("fixed_alpha"):
            continue
        found = []
        for loss in losses:
            torch.manual_seed(11)
            found.append(gradients(loss, loss(data(*shape, dtype=dtype))[term].sum()))
        assert found[0].keys() == found[1].keys()
        for name, gradient in found[0].items():
            torch.testing.assert_close(gradient, found[1][name], rtol=tolerance, atol=tolerance)


@pytest.mark.peers
def test_no_reduction_masks_and_keys() -> None:
    mine, theirs = pair(torch.float32)
    for loss in (mine, theirs):
        loss.set_keys(action_target=("done", "by"))
        loss.reduction = "none"
    made = data(4, 3).rename_key_("action", ("done", "by"))
    results = []
    for loss in (mine, theirs):
        torch.manual_seed(11)
        results.append(loss(made.clone()))
    for name in OUTPUTS[:3]:
        assert results[0][name].shape == (4, 3)
        torch.testing.assert_close(results[0][name], results[1][name])
    mask = torch.rand(4, 3) < 0.5
    made["collector", "mask"] = mask
    mine.reduction = "mean"
    torch.manual_seed(11)
    out = mine(made)
    for name in OUTPUTS[:3]:
        torch.testing.assert_close(out[name], results[0][name][mask].mean())
    torch.testing.assert_close(out["entropy"], -results[0]["loss_entropy"][mask].detach().mean())


@pytest.mark.peers
def test_a_state_of_torchrls_and_the_entropy_that_is_wanted() -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    actor = policy()
    actor.spec = Composite(action=Bounded(-1.0, 1.0, (N_ACT,)))
    mine, theirs = OnlineDTLoss(actor), objectives.OnlineDTLoss(actor)
    assert mine.target_entropy.item() == theirs.target_entropy.item() == -N_ACT
    assert mine.state_dict().keys() == theirs.state_dict().keys()
    mine.target_entropy = -0.5
    assert mine.state_dict()["target_entropy"].item() == -0.5
    mine.load_state_dict(theirs.state_dict())
    assert mine.target_entropy.item() == -N_ACT
    late = OnlineDTLoss(policy())
    with pytest.raises(RuntimeError, match="nobody says how many numbers 'action_target'"):
        late(data(3))


def test_the_formula() -> None:
    """Zheng et al. 2022: negative log-likelihood, entropy of the policy by its own draws, and the dual of its bound."""
    loss = OnlineDTLoss(policy(), target_entropy=-1.5, alpha_init=0.3, samples_mc_entropy=4)
    made = data(9)
    torch.manual_seed(5)
    out = loss(made)
    torch.manual_seed(5)
    dist = loss.get_stateful_net("actor_network").get_dist(made)
    drawn = dist.rsample((4,))
    # of a draw that is not the last one the distribution inverts what was drawn
    entropy = -dist.log_prob(drawn).mean(0)
    torch.testing.assert_close(out["loss_log_likelihood"], -dist.log_prob(made["action"]).mean())
    torch.testing.assert_close(out["loss_entropy"], -0.3 * entropy.mean())
    torch.testing.assert_close(out["loss_alpha"], 0.3 * (entropy.mean() + 1.5))
    torch.testing.assert_close(out["entropy"], entropy.mean().detach())
    with pytest.raises(RuntimeError, match="requires gradients"):
        loss(made.set("action", made["action"].requires_grad_()))
