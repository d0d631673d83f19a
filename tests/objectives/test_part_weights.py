"""`entropy_coeff` of actions of several parts: a number for each, by its name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_std.losses import ClipPPOLoss, KLPENPPOLoss, PPOLoss
from tensordict.nn import set_composite_lp_aggregate

from tests.objectives.every_loss import batch, made
from tests.objectives.peers import state_value
from tests.objectives.test_composite_actions import data_of, policy

pytestmark = pytest.mark.filterwarnings("ignore")

WEIGHTS = {"arm": 0.25, "leg": 0.03125}


def steps(*shape: int) -> Any:
    data = data_of(*shape)
    data["advantage"] = torch.linspace(-1, 1, data.numel()).view(*shape, 1)
    data["value_target"] = data["next", "reward"].clone()
    data["action_log_prob"] = torch.linspace(-2, 0, data.numel()).view(*shape)
    return data


def seeded(loss: Any, data: Any) -> Any:
    torch.manual_seed(3)
    return loss(data)


@pytest.mark.peers
@pytest.mark.parametrize("shape", [(16,), (4, 3)])
@pytest.mark.parametrize("name", ["PPOLoss", "ClipPPOLoss"])
def test_equals_torchrl(name: str, shape: tuple[int, ...]) -> None:
    """Theirs has log-probabilities by part in the data; its names of parts are taken here, too."""
    objectives = pytest.importorskip("torchrl.objectives")
    weights: dict[Any, float] = {("action", f"{part}_entropy"): weight for part, weight in WEIGHTS.items()}
    mine = {"PPOLoss": PPOLoss, "ClipPPOLoss": ClipPPOLoss}[name](
        policy(named=True), state_value(), entropy_coeff=weights
    )
    with set_composite_lp_aggregate(False):
        theirs = getattr(objectives, name)(policy(named=True), state_value(), entropy_coeff=weights)
        other = steps(*shape)
        for part in WEIGHTS:
            other["action", f"{part}_log_prob"] = 0.5 * other["action_log_prob"]
        wanted = seeded(theirs, other)
    got = seeded(mine, steps(*shape))
    torch.testing.assert_close(got["loss_entropy"], wanted["loss_entropy"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(got["entropy"], wanted["entropy"], rtol=1e-5, atol=1e-5)
    got["loss_entropy"].backward()
    wanted["loss_entropy"].backward()
    for mine_one, their_one in zip(
        mine.actor_network_params.values(True, True),
        theirs.actor_network_params.values(True, True),
        strict=True,
    ):
        torch.testing.assert_close(mine_one.grad, their_one.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [PPOLoss, ClipPPOLoss, KLPENPPOLoss])
def test_equal_weights_are_one_number(kind: Any) -> None:
    actor = policy(named=True)
    data = steps(6)
    with torch.no_grad():
        data["params"] = actor[0](data.clone())["params"]
    whole, by_part = (
        kind(actor, state_value(), entropy_coeff=given)
        for given in (0.125, dict.fromkeys(("leg", "arm"), 0.125))
    )
    assert by_part.entropy_coeff.tolist() == [0.125, 0.125]
    got, wanted = seeded(by_part, data.clone()), seeded(whole, data.clone())
    for key in ("loss_entropy", "entropy", "loss_objective"):
        torch.testing.assert_close(got[key], wanted[key])


def test_names_may_be_whole_and_their_order_is_free() -> None:
    data = steps(6)
    forms: list[dict[Any, float]] = [
        WEIGHTS,
        {("action", "leg"): 0.03125, ("action", "arm"): 0.25},
        {"leg_log_prob": 0.03125, ("action", "arm_log_prob"): 0.25},
    ]
    first, second, third = (
        seeded(PPOLoss(policy(named=True), state_value(), entropy_coeff=given), data.clone())
        for given in forms
    )
    torch.testing.assert_close(first["loss_entropy"], second["loss_entropy"])
    torch.testing.assert_close(first["loss_entropy"], third["loss_entropy"])


def test_a_state_dict_fits_every_order() -> None:
    saved, loaded = (
        PPOLoss(policy(named=True), state_value(), entropy_coeff=given)
        for given in (WEIGHTS, {"leg": 1.0, "arm": 2.0})
    )
    loaded.load_state_dict(saved.state_dict())
    data = steps(6)
    got, wanted = seeded(loaded, data.clone()), seeded(saved, data.clone())
    torch.testing.assert_close(got["loss_entropy"], wanted["loss_entropy"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"arm": 0.1}, "no number is given for the part .*leg"),
        ({"arm": 0.1, "head": 0.1}, "no part of the action is called 'head'"),
        ({"arm": 0.1, "leg": 0.1, "head": 0.1}, "no part of the action is called 'head'"),
    ],
)
def test_names_that_do_not_fit(given: Any, message: str) -> None:
    loss = PPOLoss(policy(named=True), state_value(), entropy_coeff=given)
    with pytest.raises(KeyError, match=message):
        loss(steps(6))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"arm": -0.1, "leg": 0.1}, ValueError, r"entropy_coeff\['arm'\] must be >= 0"),
        ({"arm": "much", "leg": 0.1}, TypeError, r"entropy_coeff\['arm'\]"),
        ({3: 0.1}, TypeError, "by its name"),
        ({}, ValueError, "got an empty mapping"),
    ],
)
def test_what_is_no_weight(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        PPOLoss(policy(named=True), state_value(), entropy_coeff=given)


def test_an_action_of_one_part() -> None:
    loss = made(PPOLoss, entropy_coeff={"action": 0.1})
    with pytest.raises(KeyError, match="an action of one part"):
        loss(batch("PPOLoss", 4))


def test_weights_are_in_the_state() -> None:
    loss, other = (
        PPOLoss(policy(named=True), state_value(), entropy_coeff=dict.fromkeys(WEIGHTS, weight))
        for weight in (0.5, 0.25)
    )
    other.load_state_dict(loss.state_dict())
    assert other.entropy_coeff.tolist() == [0.5, 0.5]
    other.entropy_coeff[1] = 0.0
    out = seeded(other, steps(6))
    out["loss_entropy"].backward()
    grads = {key: value.grad for key, value in other.actor_network_params.items(True, True)}
    assert any(grad is not None and not grad.any() for grad in grads.values())
