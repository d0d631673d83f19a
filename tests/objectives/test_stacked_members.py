"""Members of ensembles computed together: what each gives alone, and what makes them run apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import LossModule
from specgen_runtime.objectives.stacked import NotStackableError, Stacked
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torch.nn import functional as F

BATCHES = [(), (7,), (4, 3)]


class Joined(nn.Module):
    """Layers that read an observation and an action, as users write them."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        out: Tensor = self.layers(torch.cat([observation, action], -1))
        return out


class Late(nn.Module):
    """The action enters behind the first layer; functions in the place of modules."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 5), nn.Linear(7, 1, bias=False)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        hidden = F.leaky_relu(self.first(observation), 0.2)
        out: Tensor = self.last(F.softplus(torch.cat((action, hidden), dim=-1), beta=2.0))
        return out


class Shaped(nn.Module):
    """Asks a tensor for its shape, which `Stacked` does not tell."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 4)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        hidden: Tensor = self.layer(torch.cat([observation, action], -1))
        return hidden.reshape(*hidden.shape[:-1], 2, 2).sum(-1)


class Front(nn.Module):
    """Joins along a dimension that is counted from the front."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        out: Tensor = torch.cat([self.layer(observation), action], observation.ndim - 1)
        return out


TOGETHER: dict[str, Callable[[], nn.Module]] = {
    "relu": lambda: Joined(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2)),
    "in place": lambda: Joined(nn.Linear(5, 6), nn.ReLU(inplace=True), nn.Linear(6, 2)),
    "activations": lambda: Joined(
        nn.Linear(5, 6), nn.ELU(0.5), nn.Linear(6, 4), nn.GELU(), nn.Linear(4, 4), nn.SiLU(), nn.Sigmoid()
    ),
    "normalised": lambda: Joined(
        nn.LayerNorm(5), nn.Linear(5, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 1)
    ),
    "unweighted norm": lambda: Joined(nn.Linear(5, 6), nn.LayerNorm(6, elementwise_affine=False)),
    "late": Late,
}
APART: dict[str, Callable[[], nn.Module]] = {"shaped": Shaped, "front": Front}


def ensemble(module: nn.Module, members: int, dtype: torch.dtype = torch.float64) -> Any:
    torch.manual_seed(1)
    loss = LossModule()
    network = TensorDictModule(module.to(dtype), ["observation", "action"], ["value"])
    loss.convert_to_functional(network, "net", expand_dim=members)
    return loss


def data(batch: tuple[int, ...]) -> TensorDict:
    shapes = {"observation": 3, "action": 2}
    entries = {
        key: torch.randn(*batch, size, dtype=torch.float64, requires_grad=True)
        for key, size in shapes.items()
    }
    return TensorDict(entries, batch)


def alone(loss: Any, module: nn.Module, record: TensorDict) -> Tensor:
    """The members one after another, by a module that is called as usual."""
    network = TensorDictModule(module, ["observation", "action"], ["value"])
    found = []
    for one in loss.net_params.unbind(0):
        with one.to_module(network):
            found.append(network(record.select("observation", "action"))["value"])
    return torch.stack(found)


def gradients(loss: Any, record: TensorDict, value: Tensor) -> list[Tensor]:
    wanted = [*loss.net_params.values(True, True), record["observation"], record["action"]]
    return list(torch.autograd.grad(value.square().sum(), wanted))


@pytest.mark.parametrize("members", [1, 3, 6])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("kind", [*TOGETHER, *APART])
def test_values_and_gradients_are_those_of_each_member(
    kind: str, batch: tuple[int, ...], members: int
) -> None:
    make = {**TOGETHER, **APART}[kind]
    loss, record = ensemble(make(), members), data(batch)
    network = loss.functional_network("net")
    value = network.live(record, "value")
    expected = alone(loss, make().double(), record)
    torch.testing.assert_close(value, expected)
    for got, wanted in zip(gradients(loss, record, value), gradients(loss, record, expected), strict=True):
        torch.testing.assert_close(got, wanted)
    assert network._members._stackable["value"] is (kind in TOGETHER)


def test_frozen_members_pass_gradients_to_what_they_read_alone() -> None:
    loss, record = ensemble(TOGETHER["relu"](), 3), data((7,))
    value = loss.functional_network("net").frozen(record, "value")
    value.sum().backward()
    assert record["action"].grad.any()
    assert all(parameter.grad is None for parameter in loss.parameters())


@pytest.mark.parametrize("members", [2, 6])
def test_an_error_in_a_member_is_the_members_own(members: int) -> None:
    """What goes wrong is said as by the member alone, and the members stay together afterwards."""
    loss, record = ensemble(TOGETHER["relu"](), members), data((7,))
    network, wrong = loss.functional_network("net"), record.clone().set("action", torch.zeros(7, 3).double())
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied|size"):
        network.live(wrong, "value")
    network.live(record, "value")
    assert network._members._stackable == {"value": True}


def test_the_module_of_the_members_keeps_its_own_parameters() -> None:
    loss = ensemble(TOGETHER["relu"](), 2)
    network = loss.functional_network("net")
    before = list(network._members.module.parameters())
    network.live(data((7,)), "value")
    assert all(now is then for now, then in zip(network._members.module.parameters(), before, strict=True))


@pytest.mark.parametrize(
    "refused",
    [
        lambda x: torch.flip(x, [0]),
        lambda x: torch.cat([x, x]),
        lambda x: F.linear(x, torch.zeros(2, 3)),
        lambda x: F.softmax(x, dim=0),
        lambda x: F.relu(x if x else -x),
        lambda x: x == x,
        lambda x: x != 0,
        lambda x: F.linear(torch.zeros(4, 3), x, torch.zeros(4)),
        lambda x: torch.zeros(3) + x,
    ],
)
def test_what_is_not_known_of_all_members_is_refused(refused: Callable[[Any], object]) -> None:
    with pytest.raises(NotStackableError):
        refused(Stacked(torch.zeros(2, 4, 3)))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: torch.cat([x, x], -3),
        lambda x: torch.cat([x, torch.zeros(3)], -2),
        lambda x: F.layer_norm(x, [2, 4, 3]),
    ],
)
def test_the_dimension_of_the_members_is_out_of_reach(wrong: Callable[[Any], object]) -> None:
    """What is wrong of one member is wrong of all."""
    with pytest.raises((IndexError, RuntimeError)):
        wrong(torch.zeros(4, 3))
    with pytest.raises((IndexError, RuntimeError)):
        wrong(Stacked(torch.zeros(2, 4, 3)))


class Scaled(nn.Module):
    """Gives more while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 2)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        out: Tensor = self.layer(torch.cat([observation, action], -1))
        return torch.tanh(out) if self.training else out


def test_members_are_in_the_mode_of_the_loss() -> None:
    loss, record = ensemble(Scaled(), 3), data((7,))
    trained = loss.functional_network("net").live(record, "value")
    loss.eval()
    torch.testing.assert_close(loss.functional_network("net").live(record, "value").tanh(), trained)
