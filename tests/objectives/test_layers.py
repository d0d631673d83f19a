"""Layers in the copies that losses call: the user's modules, and what is given out, stay ordinary."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.modules import MLP
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
    "mlp": lambda: MLP(in_features=4, out_features=4, num_cells=[8, 8]),
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


def test_a_hook_on_a_layer_that_a_loss_gives_out_runs() -> None:
    """The value estimator's network is a copy of the loss's own."""
    loss = taken(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    given = loss.functional_network("net").frozen_module
    calls = list[str]()
    kinds = ("forward", "forward_pre", "full_backward", "full_backward_pre")
    for part in (given.module, *given.module):
        for kind in kinds:
            getattr(part, f"register_{kind}_hook")(lambda *_, kind=kind: calls.append(kind))
    given(TensorDict({"x": torch.randn(5, 4, requires_grad=True)}, [5]))["y"].sum().backward()
    assert {kind: calls.count(kind) for kind in kinds} == dict.fromkeys(kinds, 3)
    assert [type(part) for part in given.module.modules()] == [nn.Sequential, nn.Linear, nn.Tanh]


def test_what_is_done_to_the_users_module_later_leaves_the_loss_as_it_is() -> None:
    """Hooks and parametrizations stay on the user's side; the values of its parameters are the loss's."""
    module, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(5, 4)
    loss, record = taken(module), TensorDict({"x": x}, [5])
    before = loss.functional_network("net").live(record, "y")
    calls = list[str]()
    module[0].register_forward_hook(lambda *_: calls.append("hook"))
    nn.utils.parametrize.register_parametrization(module[0], "weight", nn.Tanh())
    torch.testing.assert_close(loss.functional_network("net").live(record, "y"), before, rtol=0, atol=0)
    assert calls == []
    assert not torch.equal(module(x), before)
    assert calls == ["hook"]


def test_a_parametrization_of_a_copied_layer_is_computed() -> None:
    layer, x = nn.Linear(4, 4), torch.randn(5, 4)
    direct = copy.deepcopy(layer)
    without_call_overhead(direct)
    nn.utils.parametrize.register_parametrization(direct, "weight", nn.Tanh())
    torch.testing.assert_close(direct(x), nn.functional.linear(x, layer.weight.tanh(), layer.bias))


@pytest.mark.parametrize("kind", [kind for kind in LAYERS if kind not in ("mlp", "sequence")])
def test_layers_take_their_input_by_its_name(kind: str) -> None:
    layer, x = LAYERS[kind](), torch.randn(5, 4)
    direct = copy.deepcopy(layer)
    without_call_overhead(direct)
    torch.testing.assert_close(direct(input=x.clone()), layer(input=x.clone()), rtol=0, atol=0)


def test_a_forward_of_one_object_is_called() -> None:
    """Libraries that place or adapt layers assign their `forward`."""
    layer, x = nn.Linear(4, 4), torch.randn(5, 4)
    layer.forward = lambda input: nn.functional.linear(input, layer.weight) * 2  # type: ignore[method-assign]
    loss = taken(nn.Sequential(layer))
    torch.testing.assert_close(
        loss.functional_network("net").live(TensorDict({"x": x}, [5]), "y"), 2 * (x @ layer.weight.T)
    )


def test_losses_are_copied_saved_and_compiled_with_their_layers() -> None:
    loss, record = taken(LAYERS["sequence"]()), TensorDict({"x": torch.randn(5, 4)}, [5])

    def value(one: Any) -> torch.Tensor:
        found: torch.Tensor = one.functional_network("net").live(record, "y")
        return found

    expected = value(loss)
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        torch.testing.assert_close(value(other), expected, rtol=0, atol=0)
    fresh = taken(LAYERS["sequence"]())
    fresh.load_state_dict(loss.state_dict())
    torch.testing.assert_close(value(fresh), expected, rtol=0, atol=0)
    compiled = torch.compile(value, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(loss), expected, rtol=0, atol=0)
    assert isinstance(loss.functional_network("net").frozen_module.module[0], nn.Linear)
