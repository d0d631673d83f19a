"""Losses that a user declares: compiled, imported and compared with the same written by hand."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import LossModule, SoftUpdate
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from specgen.check.attributes import LOSS_ATTRIBUTES
from specgen.diagnostics import render_human
from specgen.settings import Config
from tests.support import compile_sources, generate, imported, public_names

SCHEMA = """\
specgen: 1
losses:
  ValueAndRewardLoss:
    doc: A state value, and a model of the reward that depends on the action.
    networks:
      critic: {in: [observation], out: {state_value: "float32[1]"}, target: true}
      model: {qvalue: move, in: [observation], out: {rewards: "float32[n]"}}
      features: {in: [observation], out: {embedding: "float32[k]"}}
    keys:
      move: act
      reward: {key: agents.reward, doc: the reward}
      terminated: terminated
      importance: {key: weight, type: "float32[1]", doc: a weight of each sample}
      error: value_error
    params:
      coeff: {default: 0.5, min: 0}
      clipped: {default: false, doc: bound the error.}
      kind: {type: "enum(l1, smooth_l1)", default: smooth_l1}
      frozen: true
    require:
      clipped=True needs coeff below 1: not clipped or coeff < 1
    value_estimator: td0
    let:
      target: value_estimate(critic.target(next))
      delta: critic(now) - stop_grad(target)
      bounded: where(clipped, clip(delta, -1, 1), delta)
      view: where(frozen, features.frozen(now), features(now))
    terms:
      loss_value: importance * bounded**2
      loss_model: coeff * distance(gather(model(now), move), reward, kind)
      loss_features: sum(view**2) / 2
    metrics:
      scale: coeff * 2
      spread: abs(delta)
    writes:
      error: abs(critic(now) - target)
"""
CONFIG = Config(schemas="schemas", output="generated", package="generated")


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    compiled = compile_sources({"schemas/mine.yaml": SCHEMA}, CONFIG)
    assert compiled.files, render_human(compiled.diagnostics, {"schemas/mine.yaml": SCHEMA})
    path: Path = tmp_path_factory.mktemp("generated") / "mine.py"
    path.write_text(compiled.files["generated/mine.py"], encoding="utf-8")
    spec = importlib.util.spec_from_file_location("generated_mine", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def networks() -> dict[str, TensorDictModule]:
    torch.manual_seed(0)
    made = {"critic": ("state_value", 1), "model": ("rewards", 3), "features": ("embedding", 5)}
    return {
        name: TensorDictModule(nn.Linear(4, width), in_keys=["observation"], out_keys=[key])
        for name, (key, width) in made.items()
    }


def batch(*shape: int) -> TensorDict:
    generator = torch.Generator().manual_seed(1)
    return TensorDict(
        {
            "observation": torch.randn(*shape, 4, generator=generator),
            "act": torch.randint(3, shape, generator=generator),
            "weight": torch.rand(*shape, 1, generator=generator),
            "next": {
                "observation": torch.randn(*shape, 4, generator=generator),
                "agents": {"reward": 2 * torch.randn(*shape, 1, generator=generator)},
                "terminated": torch.rand(*shape, 1, generator=generator) < 0.4,
            },
        },
        shape,
    )


def make(generated: ModuleType, nets: dict[str, TensorDictModule], **kwargs: Any) -> Any:
    loss = generated.ValueAndRewardLoss(**nets, action_space="categorical", **kwargs)
    SoftUpdate(loss, tau=0.5)
    return loss


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5,), (7,), (4, 3)])
@pytest.mark.parametrize("kwargs", [{}, {"clipped": True, "kind": "l1", "frozen": False}])
def test_equals_the_same_by_hand(
    generated: ModuleType, shape: tuple[int, ...], kwargs: dict[str, Any]
) -> None:
    nets, data = networks(), batch(*shape)
    loss = make(generated, nets, reduction="none", **kwargs)
    out = loss(data)
    now, after = data["observation"], data["next", "observation"]
    value, target_value = nets["critic"].module(now), nets["critic"].module(after)
    reward = data["next", "agents", "reward"]
    target = (reward + 0.99 * ~data["next", "terminated"] * target_value).detach()
    delta = value - target
    bounded = delta.clamp(-1, 1) if kwargs.get("clipped") else delta
    rewards = nets["model"].module(now).gather(-1, data["act"].unsqueeze(-1))
    distance = (rewards - reward).abs()
    if kwargs.get("kind") != "l1":
        distance = torch.where(distance < 1, distance**2 / 2, distance - 0.5)
    expected = {
        "loss_value": data["weight"] * bounded**2,
        "loss_model": 0.5 * distance,
        "loss_features": (nets["features"].module(now) ** 2).sum(-1, keepdim=True) / 2,
    }
    for name, term in expected.items():
        assert out[name].shape == shape
        torch.testing.assert_close(out[name], term.squeeze(-1))
    assert out["loss_features"].requires_grad is (kwargs.get("frozen") is False)
    torch.testing.assert_close(out["spread"], delta.abs().mean().detach())
    assert out["scale"].item() == 1.0
    assert not out["spread"].requires_grad
    torch.testing.assert_close(data["value_error"], delta.abs().detach())
    loss.reduction = "mean"
    torch.testing.assert_close(loss(data)["loss_value"], expected["loss_value"].mean())


def test_gradients_reach_each_network_once(generated: ModuleType) -> None:
    nets = networks()
    loss = make(generated, nets)
    out = loss(batch(6))
    (out["loss_value"] + out["loss_model"] + out["loss_features"]).backward()
    assert nets["critic"].module.weight.grad.abs().sum() > 0
    assert nets["model"].module.weight.grad.abs().sum() > 0
    assert nets["features"].module.weight.grad is None  # it is frozen by default
    assert loss.target_networks() == ["critic"]


def test_one_forward_for_each_network_and_record(generated: ModuleType) -> None:
    calls: list[str] = []
    nets = networks()
    for name, net in nets.items():
        net.register_forward_hook(Recorder(calls, name))
    make(generated, nets)(batch(6))
    assert sorted(calls) == ["critic", "critic", "features", "model"]


class Recorder:
    """A forward hook that survives being copied with the network."""

    def __init__(self, calls: list[str], name: str) -> None:
        self.calls, self.name = calls, name

    def __call__(self, *_: object) -> None:
        self.calls.append(self.name)

    def __deepcopy__(self, _memo: object) -> Recorder:
        return self


def test_contract(generated: ModuleType) -> None:
    loss = make(generated, networks())
    assert loss.out_keys == ["loss_value", "loss_model", "loss_features", "scale", "spread"]
    assert loss.tensor_keys.reward == ("agents", "reward")
    assert {"observation", "act", "weight", ("next", "agents", "reward")} <= set(loss.in_keys)
    with pytest.raises(ValueError, match="clipped=True needs coeff below 1"):
        make(generated, networks(), clipped=True, coeff=2.0)
    with pytest.raises(ValueError, match=r"coeff must be >= 0, got -1"):
        make(generated, networks(), coeff=-1.0)
    data = batch(3)
    values = loss(
        observation=data["observation"],
        act=data["act"],
        weight=data["weight"],
        next_observation=data["next", "observation"],
        next_agents_reward=data["next", "agents", "reward"],
        next_terminated=data["next", "terminated"],
    )
    assert isinstance(values, tuple)
    assert len(values) == 5


def test_names_of_the_base_class_are_refused_by_the_compiler() -> None:
    assert public_names(LossModule) - LOSS_ATTRIBUTES == set()


NAMES = """\
specgen: 1
losses:
  NamedLikeCallsLoss:
    networks:
      critic: {in: [observation], out: {value: "float32[1]"}}
      critic_frozen: {in: [observation], out: {frozen_value: "float32[1]"}}
    keys: {reward: {key: reward}}
    let:
      critic_now: reward * 100.0
    terms:
      loss_value: critic(now) + critic_now + 2.0 * critic.frozen(now) + 3.0 * critic_frozen(now)
"""


def test_what_users_call_like_a_network_call_is_theirs(tmp_path: Path) -> None:
    with imported(generate({"named.yaml": NAMES}, "named_losses"), "named_losses", tmp_path):
        made = importlib.import_module("named_losses.named").NamedLikeCallsLoss
        networks = [
            TensorDictModule(Constant(value), in_keys=["observation"], out_keys=[key])
            for value, key in ((1.0, "value"), (10.0, "frozen_value"))
        ]
        one = torch.ones(4, 1)
        data = TensorDict({"observation": one, "next": {"reward": one}}, [4])
        assert made(*networks)(data)["loss_value"] == 1 + 100 + 2 + 30


class Constant(nn.Module):
    """Gives one number for each row."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return self.value.expand(len(observation), 1)
