"""Networks that write several entries: one run gives them all, and its gradients go where they should."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from tests.support import generate, imported

SCHEMA = Path(__file__).parents[1] / "cases/good/loss_of_several_outputs/schema.yaml"
WEIGHED = """\
specgen: 1
losses:
  WeighedLoss:
    networks:
      model: {in: [observation], out: {value: "float32[1]", weight: "float32[1]"}}
    keys:
      known_weight: {role: weight, key: next.weight, type: "float32[1]", optional: true}
    params:
      scale: {type: float, optional: true}
    let:
      written: model(now)
      of_data: where(given(known_weight), known_weight, written.weight)
    terms:
      loss: written.value * where(given(scale), scale, of_data)
"""
PACKAGE = "losses_of_several_outputs"

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"world.yaml": SCHEMA.read_text(encoding="utf-8"), "weighed.yaml": WEIGHED}, PACKAGE)
    with imported(files, PACKAGE, tmp_path_factory.mktemp("made")):
        yield importlib.import_module(f"{PACKAGE}.world")


class World(nn.Module):
    runs = 0

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Linear(5, 7)

    def forward(self, observation: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        type(self).runs += 1
        out = self.layers(torch.cat([observation, action], -1))
        return out[..., :3], out[..., 3:6].exp(), out[..., 6:]


def network() -> TensorDictModule:
    return TensorDictModule(
        World(), in_keys=["observation", "action"], out_keys=[("model", "mean"), "std", "reward_pred"]
    )


def batch(*shape: int) -> TensorDict:
    generator = torch.Generator().manual_seed(1)

    def normal(*size: int) -> Tensor:
        return torch.randn(*shape, *size, generator=generator)

    return TensorDict(
        {
            "observation": normal(3),
            "action": normal(2),
            "target": normal(3),
            "other": normal(1),
            "next": {"observation": normal(3), "action": normal(2)},
        },
        shape,
    )


def by_hand(
    net: TensorDictModule, target: TensorDictModule, data: TensorDict, *, steady: bool
) -> dict[str, Tensor]:
    mean, std, reward = net.module(data["observation"], data["action"])
    sure = target.module(data["observation"], data["action"])[1].detach() if steady else std
    weights, bias = net.module.layers.weight.detach(), net.module.layers.bias.detach()
    later = nn.functional.linear(torch.cat([data["next", "observation"], data["action"]], -1), weights, bias)[
        ..., :3
    ]
    other = net.module(data["observation"], 2 * data["action"])[1]
    return {
        "loss_model": (((data["target"] - mean) / std).square().sum(-1) + sure.log().sum(-1)).mean(),
        "loss_reward": (reward.squeeze(-1) - data["other"].squeeze(-1)).square().mean(),
        "loss_later": ((mean - later).square().sum(-1) + other.sum(-1)).mean(),
    }


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("rewards", [True, False])
def test_outputs_and_gradients(made: ModuleType, shape: tuple[int, ...], steady: bool, rewards: bool) -> None:
    net, delayed = network(), network()
    loss = made.WorldLoss(net, rewards=rewards, steady=steady)
    for parameter in delayed.parameters():
        parameter.data.mul_(0.5)
    loss.target_world_params.data.copy_(TensorDict.from_module(delayed).data)
    data = batch(*shape)
    World.runs = 0
    outputs = loss(data)
    # once for `now`, once for `next`, once with another action; once with the target parameters
    assert World.runs == 3 + steady
    expected = by_hand(net, delayed, data, steady=steady)
    if not rewards:
        del expected["loss_reward"]
    assert set(outputs.keys()) == set(expected)
    for key, value in expected.items():
        torch.testing.assert_close(outputs[key], value, msg=key)
        wanted = torch.autograd.grad(value, list(net.parameters()), retain_graph=True)
        got = torch.autograd.grad(outputs[key], loss.parameters_of(key), retain_graph=True)
        for one, other in zip(sorted(got, key=Tensor.numel), sorted(wanted, key=Tensor.numel), strict=True):
            torch.testing.assert_close(one, other, msg=key)


def test_it_compiles_in_one_graph(made: ModuleType) -> None:
    loss = made.WorldLoss(network())
    expected = loss(batch(4))
    torch._dynamo.reset()
    got = torch.compile(loss, fullgraph=True, backend="aot_eager")(batch(4))
    for key, value in expected.items():
        torch.testing.assert_close(got[key], value)


def test_entries_that_the_network_does_not_write_are_named(made: ModuleType) -> None:
    loss = made.WorldLoss(network())
    given: dict[str, Any] = {"std": "deviation"}
    loss.set_keys(**given)
    with pytest.raises(KeyError, match="network world does not write 'deviation'"):
        loss(batch(4))


def test_what_only_missing_data_need_may_not_be_written(made: ModuleType) -> None:
    weighed: Any = importlib.import_module(f"{PACKAGE}.weighed").WeighedLoss
    data = TensorDict({"observation": torch.randn(5, 3, generator=torch.Generator().manual_seed(0))}, [5])
    torch.manual_seed(0)
    layers = nn.Linear(3, 2)
    whole = TensorDictModule(
        lambda x: layers(x).split(1, -1), in_keys=["observation"], out_keys=["value", ("next", "weight")]
    )
    value = TensorDictModule(lambda x: layers(x)[..., :1], in_keys=["observation"], out_keys=["value"])
    values, weights = layers(data["observation"]).unbind(-1)
    torch.testing.assert_close(weighed(whole)(data)["loss"], (values * weights).mean())
    torch.testing.assert_close(weighed(value, scale=3.0)(data)["loss"], 3 * values.mean())
    with pytest.raises(KeyError, match=r"model does not write \('next', 'weight'\); it writes 'value'"):
        weighed(value)(data)
    known = torch.arange(5.0)[:, None]
    data["next"] = TensorDict({"weight": known}, [5])
    for network in (whole, value):
        torch.testing.assert_close(weighed(network)(data)["loss"], (values * known[:, 0]).mean())
