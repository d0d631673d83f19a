"""Networks of losses run by the modules that are needed: the numbers and gradients of the whole network."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import QValueActor, SafeModule, SafeSequential, ValueOperator
from specgen_runtime.objectives import LossModule
from specgen_runtime.objectives.steps import steps_to
from specgen_runtime.specs import Bounded
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn


def sequence() -> TensorDictSequential:
    torch.manual_seed(0)
    return TensorDictSequential(
        TensorDictModule(nn.Linear(3, 5), ["observation"], ["hidden"]),
        TensorDictModule(nn.Linear(5, 2), ["hidden"], ["other"]),
        TensorDictModule(nn.Bilinear(5, 3, 1), ["hidden", "observation"], ["value"]),
    )


def data() -> TensorDict:
    return TensorDict({"observation": torch.randn(7, 3)}, [7])


def taken(module: Any, members: int | None = None) -> LossModule:
    loss = LossModule()
    loss.convert_to_functional(module, "net", expand_dim=members, create_target_params=True)
    return loss


def test_only_what_is_needed_runs() -> None:
    module, calls = sequence(), list[str]()
    for part in module:
        part.module.register_forward_hook(lambda *_, name=part.out_keys[0]: calls.append(name))
    record = data()
    value = taken(module).functional_network("net").live(record, "value")
    assert calls == ["hidden", "value"]
    assert set(record.keys()) == {"observation"}
    torch.testing.assert_close(value, module(record)["value"], rtol=0, atol=0)


@pytest.mark.parametrize(
    "module",
    [
        SafeModule(nn.Linear(3, 1), ["observation"], ["value"]),
        ValueOperator(nn.Linear(3, 1), in_keys=["observation"], out_keys=["value"]),
        SafeSequential(
            SafeModule(nn.Linear(3, 5), ["observation"], ["hidden"]),
            TensorDictModule(nn.Linear(5, 1), ["hidden"], ["value"]),
        ),
    ],
    ids=["SafeModule", "ValueOperator", "SafeSequential"],
)
def test_modules_of_ours_are_taken_apart(module: Any) -> None:
    record = data()
    assert steps_to(module, "value") is not None
    found = taken(module).functional_network("net").live(record, "value")
    torch.testing.assert_close(found, module(record.clone())["value"], rtol=0, atol=0)


def test_modules_with_more_to_do_are_called_whole() -> None:
    spec = Bounded(low=-0.1, high=0.1, shape=(1,))
    safe = SafeModule(nn.Linear(3, 1), ["observation"], ["value"], spec=spec, safe=True)
    assert steps_to(safe, "value") is None
    record = data()
    found = taken(safe).functional_network("net").live(record, "value")
    assert found.abs().max() <= 0.1
    torch.testing.assert_close(found, safe(record.clone())["value"], rtol=0, atol=0)


@pytest.mark.parametrize("masked", [False, True])
def test_action_values_are_computed_without_a_choice(masked: bool) -> None:
    actor = QValueActor(
        nn.Linear(3, 4), action_space="categorical", action_mask_key="mask" if masked else None
    )
    record = data()
    record["mask"] = torch.rand(7, 4) < 0.5
    steps = steps_to(actor, "action_value")
    assert steps is not None
    assert steps_to(actor, "action") is None
    found = taken(actor).functional_network("net").live(record, "action_value")
    torch.testing.assert_close(found, actor(record.clone())["action_value"], rtol=0, atol=0)


@pytest.mark.parametrize("members", [2, 4, 5])
@pytest.mark.parametrize("copy", ["live", "frozen", "target"])
def test_members_are_what_each_gives_alone(members: int, copy: str) -> None:
    """One by one or under `torch.vmap`."""
    loss, record = taken(sequence(), members), data()
    value: Tensor = getattr(loss.functional_network("net"), copy)(record, "value")
    params = {"live": "net_params", "frozen": "net_params", "target": "target_net_params"}[copy]
    alone = []
    for one in getattr(loss, params).unbind(0):
        module = sequence()
        with one.data.to_module(module):
            alone.append(module(record.clone())["value"])
    torch.testing.assert_close(value, torch.stack(alone))
    assert value.requires_grad is (copy == "live")
    if copy == "live":
        value.sum().backward()
        weight = loss.net_params["module", "0", "module", "weight"]
        assert weight.grad.shape == weight.shape
        assert all(gradient.any() for gradient in weight.grad)


def test_a_hook_keeps_a_network_whole() -> None:
    module = sequence()
    module[0].register_forward_hook(lambda _module, _args, out: out.set("hidden", out["hidden"] * 2))
    assert steps_to(module, "value") is None
    record = data()
    value = taken(module).functional_network("net").live(record, "value")
    torch.testing.assert_close(value, module(record)["value"])


def test_values_of_another_batch_are_refused() -> None:
    loss = taken(TensorDictModule(nn.Flatten(0), ["observation"], ["value"]))
    with pytest.raises(RuntimeError, match=r"network net gives 'value' of shape \[21\] for a batch of size"):
        loss.functional_network("net").live(data(), "value")
