"""`LossModule`: keys, calling, estimators, reductions, state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import (
    LossModule,
    SoftUpdate,
    TD0Estimator,
    ValueEstimators,
    add_random_module,
    randomness,
)
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import InteractionType, TensorDictModule, TensorDictModuleBase, TensorDictSequential
from tensordict.nn.probabilistic import interaction_type, set_interaction_type
from torch import Tensor, nn

from tests.objectives.nets import ValueLoss, batch, critic


def loss_of(**kwargs: bool) -> ValueLoss:
    loss = ValueLoss(critic())
    SoftUpdate(loss, tau=0.1)
    return loss


def test_set_keys_is_all_or_nothing() -> None:
    loss = loss_of()
    with pytest.raises(
        ValueError, match=r"does not accept 'nope'\. Accepted keys are: value, reward"
    ) as error:
        loss.set_keys(reward="r2", nope="x")
    assert "dataclass" not in str(error.value)
    assert loss.tensor_keys.reward == "reward"


@pytest.mark.parametrize("wrong", [3, "", (), ("a", 1), ["a", "b"], [], [1], 1.5])
def test_set_keys_refuses_what_is_no_key(wrong: object) -> None:
    loss = loss_of()
    with pytest.raises(ValueError, match=r"set_keys\(reward=\.\.\.\) must be a string or a tuple of strings"):
        loss.set_keys(reward=wrong)  # type: ignore[arg-type]
    assert loss.tensor_keys.reward == "reward"


def test_a_list_of_one_key_is_that_key() -> None:
    """TorchRL's policies and PPO give the log-probabilities of composites as lists of keys, of one part, too."""
    loss = loss_of()
    loss.set_keys(reward=[("agents", "reward")])  # type: ignore[arg-type]
    assert loss.tensor_keys.reward == loss.value_estimator.tensor_keys.reward == ("agents", "reward")


def test_set_keys_reaches_the_estimator_before_and_after_it_is_made() -> None:
    loss = loss_of()
    loss.set_keys(reward=("agents", "reward"))
    assert loss.value_estimator.tensor_keys.reward == ("agents", "reward")
    loss.set_keys(terminated="over")
    assert loss.value_estimator.tensor_keys.terminated == "over"
    loss.set_keys(reward=None)
    assert loss.tensor_keys.reward == loss.value_estimator.tensor_keys.reward == "reward"


def test_set_keys_is_used() -> None:
    loss = loss_of()
    data = batch(5)
    expected = loss(data)["loss_value"]
    data["next"].rename_key_("reward", "r2")
    loss.set_keys(reward="r2")
    torch.testing.assert_close(loss(data)["loss_value"], expected)


def test_the_documented_subclass_works() -> None:
    class MyLoss(LossModule):
        @dataclass
        class _AcceptedKeys:
            action = "action"

        def _forward_value_estimator_keys(self, **kwargs: object) -> None:
            pass

    loss = MyLoss()
    loss.set_keys(action="action2")
    assert loss.tensor_keys.action == "action2"
    assert MyLoss().tensor_keys.action == "action"
    assert "MyLoss" in repr(loss)
    with pytest.raises(NotImplementedError, match="MyLoss does not define forward"):
        loss(batch(2))


def test_make_value_estimator_takes_names_classes_and_instances_and_returns_the_loss() -> None:
    loss = loss_of()
    for value_type in (None, ValueEstimators.TD0, "td0", TD0Estimator):
        assert loss.make_value_estimator(value_type, gamma=0.5) is loss
        assert loss.value_estimator.gamma == 0.5
    estimator = TD0Estimator(gamma=0.25)
    assert loss.make_value_estimator(estimator) is loss
    assert loss.value_estimator is estimator
    assert loss.value_type is TD0Estimator
    loss.value_estimator = None
    assert loss.value_type is ValueEstimators.TD0
    assert loss.value_estimator.gamma == pytest.approx(0.99)


def test_make_value_estimator_refuses() -> None:
    loss = loss_of()
    with pytest.raises(NotImplementedError, match="does not support GAE; it supports TD0, TD1, TDLambda"):
        loss.make_value_estimator(ValueEstimators.GAE)
    with pytest.raises(TypeError, match="lmbda"):
        loss.make_value_estimator(lmbda=0.9)
    with pytest.raises(ValueError, match=r"gamma must be in \[0, 1\], got -1"):
        loss.make_value_estimator(gamma=-1)
    with pytest.raises(ValueError, match="unknown value estimator 'td7'"):
        loss.make_value_estimator("td7")
    with pytest.raises(TypeError, match="no value estimator of type 3"):
        loss.make_value_estimator(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has its own"):
        loss.make_value_estimator(TD0Estimator(gamma=0.5), gamma=0.9)


def test_gamma_changes_the_loss() -> None:
    loss = loss_of()
    data = batch(8)
    one = loss(data)["loss_value"]
    loss.make_value_estimator(gamma=0.0)
    value = loss.functional_network("critic").live(data, "state_value")
    torch.testing.assert_close(loss(data)["loss_value"], (value - data["next", "reward"]).pow(2).mean())
    assert loss(data)["loss_value"] != one


def test_output_is_new_and_has_no_batch() -> None:
    data = batch(5)
    out = loss_of()(data)
    assert isinstance(out, TensorDict)
    assert out.batch_size == ()
    assert out is not data
    assert list(out.keys()) == ["loss_value"]


def test_keyword_calls() -> None:
    loss = loss_of()
    data = batch(5)
    inputs = {
        "observation": data["observation"],
        "next_observation": data["next", "observation"],
        "next_reward": data["next", "reward"],
        "next_terminated": data["next", "terminated"],
        "next_done": data["next", "done"],
    }
    torch.testing.assert_close(loss(**inputs), loss(data)["loss_value"])
    with pytest.raises(TypeError, match="unexpected inputs 'obs'; it takes next_done, next_observation"):
        loss(obs=data["observation"], **inputs)
    with pytest.raises(TypeError, match="not both"):
        loss(data, **inputs)
    with pytest.raises(TypeError, match="next_reward must be a tensor, got float"):
        loss(**{**inputs, "next_reward": 1.0})
    with pytest.raises(TypeError, match="takes a tensordict, got dict"):
        loss({"observation": 1})
    inputs.pop("next_reward")
    with pytest.raises(KeyError, match=r"next.*reward"):
        loss(**inputs)


@pytest.mark.parametrize("key", ["reward", "terminated"])
def test_missing_signals_are_named(key: str) -> None:
    data = batch(4)
    del data["next", key]
    with pytest.raises(KeyError, match=f"TD0Estimator: {key}.*is not in the tensordict"):
        loss_of()(data)


def test_without_next_the_error_says_so() -> None:
    with pytest.raises(KeyError, match="'next' is not in the tensordict"):
        loss_of()(batch(4).exclude("next"))


def test_runs_in_its_sampling_mode() -> None:
    seen: list[object] = []

    class Spy(ValueLoss):
        def forward(self, tensordict: TensorDictBase) -> TensorDict:
            seen.append(interaction_type())
            return super().forward(tensordict)

    loss = Spy(critic())
    SoftUpdate(loss, tau=0.1)
    loss(batch(2))
    loss.deterministic_sampling_mode = InteractionType.MEAN
    loss(batch(2))
    assert seen == [InteractionType.DETERMINISTIC, InteractionType.MEAN]
    assert interaction_type() is None
    with pytest.raises(ValueError, match="deterministic_sampling_mode must be one of"):
        loss.deterministic_sampling_mode = "foo"  # type: ignore[assignment]


def test_reductions() -> None:
    loss, data = loss_of(), batch(6)
    mean = loss(data)["loss_value"]
    loss.reduction = "none"
    each = loss(data)["loss_value"]
    assert each.shape == (6,)
    torch.testing.assert_close(each.mean(), mean)
    loss.reduction = "sum"
    torch.testing.assert_close(loss(data)["loss_value"], each.sum())
    loss.reduction = None  # type: ignore[assignment]
    assert loss.reduction == "mean"
    with pytest.raises(ValueError, match="reduction must be one of 'mean', 'sum' or 'none', got 'zzz'"):
        loss.reduction = "zzz"  # type: ignore[assignment]


def test_masks_leave_samples_out_even_if_they_are_nan() -> None:
    loss, data = loss_of(), batch(6)
    mask = torch.tensor([True, False, True, True, False, True])
    expected = loss(data[mask])["loss_value"]
    data["next", "reward"][1] = float("nan")
    data["collector", "mask"] = mask.unsqueeze(-1)
    torch.testing.assert_close(loss(data)["loss_value"], expected)
    loss.reduction = "none"
    assert loss(data)["loss_value"].shape == (6,)
    loss.reduction = "mean"
    loss.loss_mask_key = None
    assert loss(data)["loss_value"].isnan()
    loss.loss_mask_key = ("masks", "valid")
    with pytest.raises(KeyError, match="the mask"):
        loss(data)
    with pytest.raises(ValueError, match="loss_mask_key"):
        loss.loss_mask_key = 3  # type: ignore[assignment]


def test_priority_weights() -> None:
    loss, data = loss_of(), batch(6)
    loss.reduction = "none"
    each = loss(data)["loss_value"]
    weights = torch.rand(6)
    data["priority_weight"] = weights
    torch.testing.assert_close(loss(data)["loss_value"], each * weights)
    loss.reduction = "mean"
    torch.testing.assert_close(loss(data)["loss_value"], (each * weights).sum() / weights.sum())
    loss.use_prioritized_weights = False
    torch.testing.assert_close(loss(data)["loss_value"], each.mean())
    loss.use_prioritized_weights = True
    del data["priority_weight"]
    with pytest.raises(KeyError, match="the priority weight"):
        loss(data)


def test_state_does_not_depend_on_whether_the_loss_was_used() -> None:
    fresh, used = loss_of(), ValueLoss(critic(seed=7))
    SoftUpdate(used, tau=0.5)
    used.make_value_estimator(gamma=0.5)
    used(batch(3))
    assert fresh.state_dict().keys() == used.state_dict().keys()
    assert loss_of().load_state_dict(used.state_dict(), strict=True)
    fresh.load_state_dict(used.state_dict())
    torch.testing.assert_close(fresh(batch(3))["loss_value"], used(batch(3))["loss_value"])
    assert fresh.value_estimator.gamma == 0.5


def test_state_round_trips_inside_a_parent_and_with_assign() -> None:
    parent = torch.nn.ModuleList([ValueLoss(critic(seed=7))])
    state = parent.state_dict()
    other = torch.nn.ModuleList([ValueLoss(critic())])
    other.load_state_dict(state, strict=True)
    assigned = loss_of()
    assigned.load_state_dict({key[2:]: value.clone() for key, value in state.items()}, assign=True)
    SoftUpdate(other[0], tau=0.5)
    expected = other[0](batch(3))["loss_value"]
    torch.testing.assert_close(assigned(batch(3))["loss_value"], expected)
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({key: value for key, value in state.items() if "target" not in key})


def test_coefficients_are_buffers_assigned_in_place() -> None:
    loss = loss_of()
    loss.register_coeff_buffer("entropy_coeff", 0.01)
    buffer = loss.entropy_coeff
    loss.entropy_coeff = 0.003
    assert loss.entropy_coeff is buffer
    assert buffer.item() == pytest.approx(0.003)
    loss.register_coeff_buffer("clip_value", None)
    assert loss.clip_value is None
    for wrong in (True, "a", torch.zeros(2)):
        with pytest.raises(ValueError, match="must be"):
            loss.register_coeff_buffer("other", wrong)  # type: ignore[arg-type]


def test_random_modules_are_classes() -> None:
    with pytest.raises(TypeError, match="add_random_module takes a class"):
        add_random_module("x")  # type: ignore[arg-type]


def test_a_random_module_that_is_said_later_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "_RANDOM_MODULES", list(randomness._RANDOM_MODULES))
    loss, found = loss_of(), list[str]()
    for wanted in ("error", "different"):
        found.append(loss.vmap_randomness)
        assert found[-1] == wanted
        add_random_module(nn.Linear)


class TwoTerms(ValueLoss):
    """A loss with a metric beside its term."""

    out_keys = ["loss_value", "error"]  # noqa: RUF012

    def forward(self, tensordict: TensorDictBase) -> TensorDict:
        outputs = super().forward(tensordict)
        return outputs.set("error", outputs["loss_value"].detach().sqrt())


def test_out_keys_are_selected() -> None:
    loss, other = TwoTerms(critic()), TwoTerms(critic())
    SoftUpdate(loss, tau=0.1)
    data = batch(5)
    assert loss.select_out_keys("error") is loss
    assert list(loss(data).keys()) == loss.out_keys == ["error"]
    assert loss.out_keys_source == other.out_keys == TwoTerms.out_keys == ["loss_value", "error"]
    inputs = {"_".join(key) if isinstance(key, tuple) else key: data[key] for key in loss.in_keys}
    assert isinstance(loss(**inputs), Tensor)
    with pytest.raises(ValueError, match="select_out_keys takes some of loss_value, error; got 'eror'"):
        loss.select_out_keys("eror")
    with pytest.raises(ValueError, match="got none"):
        loss.select_out_keys()
    assert loss.reset_out_keys() is loss
    assert list(loss(data).keys()) == ["loss_value", "error"]


def test_losses_are_modules_of_tensordict() -> None:
    loss = loss_of()
    assert isinstance(loss, TensorDictModuleBase)
    sequence = TensorDictSequential(TensorDictModule(torch.neg, ["raw"], ["observation"]), loss)
    data = batch(5)
    expected = loss(data.clone())["loss_value"]
    data["raw"] = -data["observation"]
    torch.testing.assert_close(sequence(data)["loss_value"], expected)


def test_tensors_by_keyword_have_the_batch_of_the_rewards() -> None:
    """Though the observations share a dimension more."""
    loss, data = loss_of(), batch(4, 4)
    inputs = {"_".join(key) if isinstance(key, tuple) else key: data[key] for key in loss.in_keys}
    loss.reduction = "none"
    torch.testing.assert_close(loss(**inputs), loss(data)["loss_value"])


def test_a_forward_may_take_more_than_the_data() -> None:
    class Weighted(LossModule):
        def forward(self, tensordict: Any, weight: float, *, shift: float = 0.0) -> Any:  # type: ignore[override]
            assert interaction_type() == self.deterministic_sampling_mode
            return TensorDict(loss_value=weight * tensordict["value"].sum() + shift)

    with set_interaction_type(InteractionType.RANDOM):
        assert Weighted()(TensorDict(value=torch.ones(2)), 3.0, shift=1.0)["loss_value"] == 7.0
        assert interaction_type() == InteractionType.RANDOM
