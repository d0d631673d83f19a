"""Layers in the copies that losses call: the user's modules, and what is given out, stay ordinary."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import LossModule
from specgen_runtime.objectives.layers import with_call_overhead, without_call_overhead
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(4, 4),
    "without bias": lambda: nn.Linear(4, 4, bias=False),
    "relu": nn.ReLU,
    "relu in place": lambda: nn.ReLU(inplace=True),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "gelu": lambda: nn.GELU("tanh"),
    "elu": lambda: nn.ELU(0.3),
    "norm": lambda: nn.LayerNorm(4),
    "sequence": lambda: nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Tanh(), nn.Softmax(-1))),
}


def taken(module: nn.Module) -> Any:
    loss = LossModule()
    loss.convert_to_functional(TensorDictModule(module, ["x"], ["y"]), "net", create_target_params=True)
    return loss


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_computes_what_it_does(kind: str) -> None:
    layer, x = LAYERS[kind](), torch.randn(5, 4)
    direct = copy.deepcopy(layer)
    without_call_overhead(direct)
    assert type(direct) is not type(layer)
    assert isinstance(direct, type(layer))
    torch.testing.assert_close(direct(x.clone()), layer(x.clone()), rtol=0, atol=0)
    again = pickle.loads(pickle.dumps(direct))
    torch.testing.assert_close(again(x.clone()), layer(x.clone()), rtol=0, atol=0)
    with_call_overhead(direct)
    assert [type(part) for part in direct.modules()] == [type(part) for part in layer.modules()]


def test_what_does_more_than_its_forward_is_called_as_a_module() -> None:
    """Hooks, and layers that compute their weights."""
    calls = list[str]()
    hooked, weighted = nn.Linear(4, 4), nn.utils.parametrizations.orthogonal(nn.Linear(4, 4))
    hooked.register_forward_hook(lambda *_: calls.append("hook"))
    loss = taken(nn.Sequential(hooked, weighted))
    record = TensorDict({"x": torch.randn(5, 4)}, [5])
    value = loss.functional_network("net").live(record, "y")
    assert calls == ["hook"]
    torch.testing.assert_close(value, weighted(hooked(record["x"])))


def test_the_users_module_and_what_is_given_out_have_their_own_classes() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    loss = taken(module)
    ordinary = [nn.Sequential, nn.Linear, nn.Tanh]
    assert [type(part) for part in module.modules()] == ordinary
    for copied in (None, False):
        given = loss.get_stateful_net("net", copy=copied).module
        assert [type(part) for part in given.modules()] == ordinary
        calls = list[str]()
        given[0].register_forward_hook(lambda *_, calls=calls: calls.append("hook"))
        given(torch.randn(2, 4))
        assert calls == ["hook"]
    assert [type(part) for part in loss.net.module.modules()] == ordinary


def test_tensors_in_the_place_of_parameters_are_computed_with() -> None:
    layer, x = nn.Linear(4, 2), torch.randn(5, 4)
    direct = copy.deepcopy(layer)
    without_call_overhead(direct)
    others = TensorDict.from_module(layer).data * 2
    with others.to_module(direct, preserve_module_state=False):
        torch.testing.assert_close(direct(x), 2 * layer(x))
    torch.testing.assert_close(direct(x), layer(x))
