"""Target updates: when they move, by how much, what they refuse."""

from __future__ import annotations

import warnings

import pytest
import torch
from specgen_runtime.objectives import HardUpdate, LossModule, SoftUpdate
from tensordict import TensorDictBase
from torch import nn

from tests.objectives.nets import ValueLoss, batch, critic

WEIGHT = ("module", "0", "weight")


def filled(source: float = 1.0, target: float = 0.0, **kwargs: bool) -> ValueLoss:
    loss = ValueLoss(critic(**kwargs))
    with torch.no_grad():
        for tensor in loss.critic_params.data.values(True, True):
            tensor.fill_(source)
        for tensor in loss.target_critic_params.data.values(True, True):
            tensor.fill_(target)
    return loss


def weight(loss: LossModule) -> torch.Tensor:
    target: torch.Tensor = loss.target_critic_params.get(WEIGHT)
    return target


@pytest.mark.parametrize("given", [{"tau": 0.1}, {"eps": 0.9}])
def test_soft_update_moves_by_tau(given: dict[str, float]) -> None:
    loss = filled()
    updater = SoftUpdate(loss, **given)
    updater.step()
    torch.testing.assert_close(weight(loss), torch.full((8, 4), 0.1))
    updater.step()
    torch.testing.assert_close(weight(loss), torch.full((8, 4), 0.19))
    assert (loss.critic_params.get(WEIGHT) == 1).all()


def test_soft_update_moves_batch_norm_statistics() -> None:
    loss = filled(batch_norm=True)
    SoftUpdate(loss, tau=0.25).step()
    target = loss.target_critic_params
    torch.testing.assert_close(target.get(("module", "1", "running_mean")), torch.full((8,), 0.25))
    assert target.get(("module", "1", "num_batches_tracked")) == 1


def test_hard_update_copies_at_every_nth_step_exactly() -> None:
    loss = filled()
    updater = HardUpdate(loss, value_network_update_interval=3)
    moved = []
    for _ in range(9):
        updater.step()
        moved.append(bool((weight(loss) == 1).all()))
        with torch.no_grad():
            weight(loss).zero_()
    assert moved == [False, False, True] * 3


def test_making_an_updater_does_not_touch_restored_targets() -> None:
    loss = filled()
    SoftUpdate(loss, tau=0.1)
    updater = HardUpdate(loss)
    assert (weight(loss) == 0).all()
    updater.init_()
    assert (weight(loss) == 1).all()


def test_updaters_follow_a_loss_that_is_moved() -> None:
    loss = filled()
    updater = SoftUpdate(loss, tau=0.5)
    loss.double()
    updater.step()
    torch.testing.assert_close(weight(loss), torch.full((8, 4), 0.5, dtype=torch.float64))


def test_hard_update_state() -> None:
    loss = filled()
    updater = HardUpdate(loss, value_network_update_interval=3)
    updater.step()
    updater.step()
    other = HardUpdate(loss, value_network_update_interval=3)
    other.load_state_dict(updater.state_dict())
    other.step()
    assert (weight(loss) == 1).all()
    SoftUpdate(loss, tau=0.1).load_state_dict({})
    with pytest.raises(KeyError, match="has no state"):
        SoftUpdate(loss, tau=0.1).load_state_dict({"counter": 1})


def test_soft_update_refuses() -> None:
    loss = filled()
    with pytest.raises(ValueError, match="not both"):
        SoftUpdate(loss, tau=0.1, eps=0.9)
    with pytest.raises(RuntimeError, match="needs eps or tau"):
        SoftUpdate(loss)
    for wrong in (2.0, -0.1, float("nan"), True, "0.1"):
        with pytest.raises(ValueError, match=r"tau must be in \[0, 1\]"):
            SoftUpdate(loss, tau=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"eps must be in \[0, 1\], got 2"):
        SoftUpdate(loss, eps=2)
    with pytest.warns(UserWarning, match=r"eps=0.005 replaces 99.5% .* did you mean tau=0.005"):
        SoftUpdate(loss, eps=0.005)
    with pytest.raises(ValueError, match="must be a LossModule, got Linear"):
        SoftUpdate(nn.Linear(1, 1), tau=0.1)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="has no target parameters"):
        SoftUpdate(ValueLoss(critic(), delay_value=False), tau=0.1)


@pytest.mark.parametrize("interval", [-1, 0, 2.5, True])
def test_hard_update_refuses(interval: float) -> None:
    with pytest.raises(ValueError, match="must be a positive whole number"):
        HardUpdate(filled(), value_network_update_interval=interval)  # type: ignore[arg-type]


def test_updates_leave_no_graph() -> None:
    loss = filled()
    updater = SoftUpdate(loss, tau=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(batch(3))["loss_value"].backward()
    updater.step()
    assert not weight(loss).requires_grad


class TwoValues(LossModule):
    """Two networks with targets."""

    def __init__(self) -> None:
        super().__init__()
        for seed, name in enumerate(("critic", "actor")):
            self.convert_to_functional(critic(seed), name, create_target_params=True)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        return tensordict


def two_targets() -> TwoValues:
    loss = TwoValues()
    with torch.no_grad():
        for name in ("critic", "actor"):
            for tensor in getattr(loss, f"{name}_params").data.values(True, True):
                tensor.fill_(1.0)
            for tensor in getattr(loss, f"target_{name}_params").data.values(True, True):
                tensor.fill_(0.0)
    return loss


def values_of(loss: LossModule, name: str) -> torch.Tensor:
    target: torch.Tensor = getattr(loss, f"target_{name}_params").get(WEIGHT)
    return target


def test_updaters_of_one_network_each_leave_the_others_alone() -> None:
    """Until each has one, the loss warns of those that nobody moves."""
    loss = two_targets()
    slow = SoftUpdate(loss, tau=0.25, networks=["critic"])
    with pytest.warns(UserWarning, match="the target parameters of actor never change"):
        loss(batch())
    often = HardUpdate(loss, value_network_update_interval=1, networks=["actor"])
    loss(batch())
    slow.step()
    assert (values_of(loss, "critic") == 0.25).all()
    assert (values_of(loss, "actor") == 0).all()
    often.step()
    assert (values_of(loss, "critic") == 0.25).all()
    assert (values_of(loss, "actor") == 1).all()


@pytest.mark.parametrize(
    ("networks", "message"),
    [
        (["actors"], "has no target of 'actors'; it has targets of "),
        ([], "networks must name those"),
        ("actor", "networks must be a list of names, got 'actor'"),
    ],
)
def test_networks_without_targets_are_refused(networks: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SoftUpdate(two_targets(), tau=0.25, networks=networks)
    with pytest.raises(ValueError, match=message):
        HardUpdate(two_targets(), networks=networks)
