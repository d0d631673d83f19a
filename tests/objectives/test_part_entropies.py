"""`composite_entropy`: the entropy of each part of an action, in what PPO and A2C return."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from specgen_runtime.modules import TanhNormal
from specgen_std.losses import A2CLoss, ClipPPOLoss, KLPENPPOLoss, PPOLoss, ReinforceLoss
from tensordict import TensorDict
from tensordict.nn import set_composite_lp_aggregate

from tests.objectives.every_loss import batch, made
from tests.objectives.peers import state_value
from tests.objectives.test_composite_actions import PARTS, policy
from tests.objectives.test_part_weights import WEIGHTS, seeded, steps

pytestmark = pytest.mark.filterwarnings("ignore")

LOSSES = {one.__name__: one for one in (PPOLoss, ClipPPOLoss, KLPENPPOLoss, A2CLoss)}


def data_of(*shape: int) -> TensorDict:
    data: TensorDict = steps(*shape)
    with torch.no_grad():
        data["params"] = policy(named=True)[0](data.clone())["params"]
    return data


@pytest.mark.peers
@pytest.mark.parametrize("shape", [(16,), (4, 3)])
@pytest.mark.parametrize("weights", [None, {("action", f"{part}_entropy"): w for part, w in WEIGHTS.items()}])
@pytest.mark.parametrize("name", ["PPOLoss", "ClipPPOLoss", "KLPENPPOLoss"])
def test_equals_torchrl(name: str, weights: Any, shape: tuple[int, ...]) -> None:
    """Theirs has a trailing 1. The penalty of KLPEN is drawn before the entropies here, behind them there."""
    several: dict[str, Any] = {"samples_mc_entropy": 4096} if name == "KLPENPPOLoss" else {}
    tolerance = 0.1 if several else 1e-5
    objectives = pytest.importorskip("torchrl.objectives")
    mine = LOSSES[name](policy(named=True), state_value(), entropy_coeff=weights, **several)
    with set_composite_lp_aggregate(False):
        theirs = getattr(objectives, name)(
            policy(named=True), state_value(), entropy_coeff=weights, **several
        )
        other = data_of(*shape)
        for part in WEIGHTS:
            other["action", f"{part}_log_prob"] = 0.5 * other["action_log_prob"]
        wanted = seeded(theirs, other)["composite_entropy"]
    got = seeded(mine, data_of(*shape))["composite_entropy"]
    assert set(got.keys(True, True)) == set(wanted.keys(True, True))
    assert got.batch_size == torch.Size(shape)
    for key, value in got.items(True, True):
        assert not value.requires_grad
        torch.testing.assert_close(value.unsqueeze(-1), wanted[key], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", LOSSES)
def test_they_are_what_is_summed(name: str) -> None:
    loss, data = LOSSES[name](policy(named=True), state_value()), data_of(4, 3)
    assert "composite_entropy" in loss.out_keys
    found = seeded(loss, data)
    entropies = found["composite_entropy"]["action"]
    assert sorted(entropies.keys()) == ["arm_entropy", "leg_entropy"]
    total = sum(value.mean() for value in entropies.values())
    torch.testing.assert_close(total, found["entropy"])
    without = LOSSES[name](policy(named=True), state_value(), entropy_bonus=False)
    assert "composite_entropy" not in without.out_keys
    assert "composite_entropy" not in without(data)


def test_names_that_weights_have_in_another_order() -> None:
    """Each entropy stands under its own part, whatever the order in which a mapping weighs them."""
    plain = seeded(ClipPPOLoss(policy(named=True), state_value()), data_of(16))["composite_entropy"]
    for weights in ({"leg": 0.1, "arm": 0.2}, {("action", "leg_log_prob"): 0.1, "arm": 0.2}):
        loss = ClipPPOLoss(policy(named=True), state_value(), entropy_coeff=weights)
        found = seeded(loss, data_of(16))["composite_entropy"]
        for part in PARTS:
            key = ("action", f"{part}_entropy")
            torch.testing.assert_close(found[key], plain[key])


def test_names_without_a_map_of_them() -> None:
    """A policy that does not say where its parts stand in the data has them under their own names."""
    found = seeded(A2CLoss(policy(), state_value()), data_of(16))["composite_entropy"]
    assert sorted(found.keys()) == ["arm_entropy", "leg_entropy"]


def test_selection_copies_and_actions_of_one_part() -> None:
    loss = ClipPPOLoss(policy(named=True), state_value())
    loss.select_out_keys("loss_objective", "composite_entropy")
    assert set(loss(data_of(8)).keys()) == {"loss_objective", "composite_entropy"}
    loss.reset_out_keys()
    again = pickle.loads(pickle.dumps(loss))
    assert "composite_entropy" in seeded(again, data_of(8))
    one = made(ClipPPOLoss)
    assert "composite_entropy" not in one.out_keys
    assert "composite_entropy" not in one(batch("ClipPPOLoss", 8))
    assert "composite_entropy" not in ReinforceLoss(policy(named=True), state_value()).out_keys
    kept = ClipPPOLoss(policy(named=True), state_value(), reduction="none", scalar_output_mode="exclude")
    found = kept(data_of(8))
    assert "entropy" not in found
    assert found["composite_entropy", "action", "arm_entropy"].shape == (8,)


def test_entropies_that_are_known() -> None:
    """Of a squashed normal distribution an entropy is estimated from the draws that the bonus is estimated from."""
    loss, data = ClipPPOLoss(policy(named=True), state_value(), samples_mc_entropy=4096), data_of(2)
    found = seeded(loss, data)["composite_entropy"]["action", "arm_entropy"]
    dist = TanhNormal(data["params", "arm", "loc"], data["params", "arm", "scale"])
    draws = dist.sample((4096,))
    torch.testing.assert_close(found, -dist.log_prob(draws).mean(0), rtol=0.1, atol=0.1)


def test_a_loss_compiles_with_them() -> None:
    loss, data = ClipPPOLoss(policy(named=True), state_value(), entropy_bonus=True), data_of(8)
    eager = seeded(loss, data.clone())
    compiled = seeded(torch.compile(loss, backend="eager"), data.clone())
    torch.testing.assert_close(compiled["loss_entropy"], eager["loss_entropy"])
    key = ("composite_entropy", "action", "leg_entropy")
    torch.testing.assert_close(compiled[key], eager[key])
