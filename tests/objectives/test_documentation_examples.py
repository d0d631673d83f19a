"""What TorchRL's page of `LossModule` shows and says in passing, run with ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import GAE, LossModule, TD1Estimator, ValueEstimators
from specgen_std.losses.dqn import DQNLoss
from tensordict.nn import TensorDictModule
from torch import nn

from tests.objectives.nets import ValueLoss, critic


def dqn() -> DQNLoss:
    return DQNLoss(torch.nn.Linear(3, 4), action_space="one-hot")


def test_a_subclass_with_keys() -> None:
    """TorchRL accepts no key of it, as the field has no annotation."""

    class MyLoss(LossModule):
        @dataclass
        class _AcceptedKeys:
            action = "action"

        def _forward_value_estimator_keys(self, **kwargs: object) -> None:
            pass

    loss = MyLoss()
    loss.set_keys(action="action2")
    assert loss.tensor_keys.action == "action2"


def test_keys_that_have_other_names_are_told_which() -> None:
    """The page shows `set_keys(priority_key=…, action_value_key=…)`, which both refuse."""
    loss = dqn()
    with pytest.raises(ValueError, match=r"'priority_key', 'action_value_key'.*: .*priority,.*action_value$"):
        loss.set_keys(priority_key="td_error", action_value_key="action_value")  # type: ignore[call-arg]
    loss.set_keys(priority="td_error", action_value="action_value")


def test_value_estimators() -> None:
    loss = dqn()
    loss.make_value_estimator(gamma=0.9)
    assert loss.value_type is ValueEstimators.TD0
    loss.make_value_estimator(ValueEstimators.TD1, gamma=0.9)
    assert isinstance(loss.value_estimator, TD1Estimator)
    loss.make_value_estimator(loss.value_type, gamma=0.9)
    assert isinstance(loss.value_estimator, TD1Estimator)
    assert loss.value_estimator.gamma == pytest.approx(0.9)


def test_parameters_that_two_networks_have_are_named_once_or_twice() -> None:
    """TorchRL's `named_parameters` takes no `remove_duplicate`, as documented."""

    class Two(LossModule):
        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.convert_to_functional(network, "one")
            self.convert_to_functional(network, "two")

    loss = Two(nn.Linear(2, 1))
    names = ["one_params.weight", "one_params.bias", "two_params.weight", "two_params.bias"]
    assert sorted(name for name, _ in loss.named_parameters(remove_duplicate=False)) == sorted(names)
    assert len(list(loss.named_parameters(remove_duplicate=True))) == len(list(loss.named_parameters())) == 2
    assert len(list(loss.parameters())) == 2


def test_whether_it_is_functional_is_read_only() -> None:
    loss = ValueLoss(critic(), delay_value=False)
    assert loss.functional
    with pytest.raises(AttributeError):
        loss.functional = False  # type: ignore[misc]


def test_members_of_what_another_network_has_are_copies_without_gradients() -> None:
    """`expand_dim` with `compare_against`: "a detached expansion of the original parameters"."""

    class Bare(LossModule):
        pass

    layer = nn.Linear(2, 1)
    loss: Any = Bare()
    loss.convert_to_functional(layer, "one")
    module = TensorDictModule(layer, in_keys=["observation"], out_keys=["value"])
    loss.convert_to_functional(module, "members", expand_dim=3, compare_against=list(layer.parameters()))
    weights = loss.members_params["module", "weight"]
    assert not weights.requires_grad
    for member in weights:
        torch.testing.assert_close(member, layer.weight.detach())
    with torch.no_grad():
        layer.weight.fill_(7.0)
    assert (loss.members_params["module", "weight"] == 7.0).all()


def test_the_decay_of_gae_is_asked_for_by_its_name() -> None:
    with pytest.raises(TypeError, match="lmbda"):
        GAE(gamma=0.9)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        GAE(0.9, 0.9)  # type: ignore[call-arg]
