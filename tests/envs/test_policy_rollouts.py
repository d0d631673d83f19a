"""Rollouts of native environments by policies that are called with tensors equal those that are given tensordicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.collectors import Collector
from specgen_runtime.envs import ExplorationType, set_exploration_type
from specgen_runtime.envs.generated.rollout_steps import RecordSteps
from specgen_runtime.modules import MLP, Categorical, ProbabilisticActor, SafeModule, TanhNormal
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.chains.pendulum import PendulumTrain
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn


def categorical() -> Any:
    net = SafeModule(MLP(4, 2, num_cells=[8]), in_keys=["observation"], out_keys=["logits"])
    generator = torch.Generator().manual_seed(3)
    return ProbabilisticActor(
        net,
        in_keys=["logits"],
        distribution_class=Categorical,
        return_log_prob=True,
        generator=generator,
        default_interaction_type=ExplorationType.RANDOM,
    )


def normal() -> Any:
    net = nn.Sequential(MLP(3, 2, num_cells=[8]), NormalParamExtractor())
    module = TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"])
    return ProbabilisticActor(
        module,
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": -2.0, "high": 2.0},
        return_log_prob=True,
    )


class Push(nn.Module):
    """Which way the pole leans; a module that is called with observations."""

    def forward(self, observation: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return (observation[..., 2] > 0).long()


def pushing() -> Any:
    return TensorDictModule(Push(), in_keys=["observation"], out_keys=["action"])


CASES = [
    (CartPoleTrain, categorical),
    (PendulumTrain, normal),
    (CartPoleTrain, pushing),
    (CartPoleTrain, Push),
]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], list[bool]]:
    """Allows calls with tensors, or not, and tells where there were such."""
    flat = RecordSteps.flat

    def allow(allowed: bool) -> list[bool]:
        found: list[bool] = []

        def noted(self: RecordSteps, root: Any) -> Any:
            rollout = flat(self, root) if allowed else None
            found.append(rollout is not None)
            return rollout

        monkeypatch.setattr(RecordSteps, "flat", noted)
        return found

    return allow


def equal(one: Any, other: Any) -> None:
    assert {*one.keys(True, True)} == {*other.keys(True, True)}
    assert one.names == other.names
    for key in one.keys(True, True):
        assert torch.equal(one[key], other[key]), key


@pytest.mark.parametrize(("env_class", "policy"), CASES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("stops", [True, False])
def test_rollouts(env_class: Any, policy: Any, batch: Any, stops: bool, taken: Any) -> None:
    results = []
    for allowed in (True, False):
        torch.manual_seed(0)
        used, env = taken(allowed), env_class(batch_size=batch)
        env.set_seed(1)
        act = policy()
        torch.manual_seed(1)
        with set_exploration_type(ExplorationType.RANDOM):
            first = env.rollout(30, act, break_when_any_done=stops)
            results.append((first, env.rollout(5, act, tensordict=env.reset())))
        assert used == [allowed, allowed]
    for one, other in zip(*results, strict=True):
        equal(one, other)


@pytest.mark.parametrize(("env_class", "policy"), CASES[:2])
def test_collectors_go_on(env_class: Any, policy: Any, taken: Any) -> None:
    results = []
    for allowed in (True, False):
        torch.manual_seed(0)
        used, env = taken(allowed), env_class(batch_size=[4])
        env.set_seed(1)
        collector = Collector(env, policy(), frames_per_batch=160, total_frames=640)
        torch.manual_seed(1)
        results.append(list(collector))
        assert used == [allowed] * 4
    for one, other in zip(*results, strict=True):
        equal(one, other)


def test_a_policy_with_a_hook_is_given_the_tensordict(taken: Any) -> None:
    used, policy, seen = taken(True), categorical(), []
    policy.register_forward_hook(lambda module, args, output: seen.append(output))
    CartPoleTrain().rollout(3, policy)
    assert used == [False]
    assert len(seen) == 3


def test_a_policy_that_writes_an_observation_is_given_the_tensordict(taken: Any) -> None:
    used = taken(True)
    policy = TensorDictModule(
        lambda obs: (Push()(obs), obs + 1), in_keys=["observation"], out_keys=["action", "observation"]
    )
    rollout = CartPoleTrain().rollout(3, policy)
    assert used == [False]
    assert torch.allclose(rollout["observation"][1:], rollout["next", "observation"][:-1] + 1)


@pytest.mark.parametrize("wrong", [lambda a: a.float() + 0.5, lambda a: a.unsqueeze(-1), lambda a: a + 7])
def test_wrong_actions_are_refused_alike(wrong: Any, taken: Any) -> None:
    messages = []
    for allowed in (True, False):
        used = taken(allowed)
        policy = TensorDictModule(
            lambda obs: wrong(Push()(obs)), in_keys=["observation"], out_keys=["action"]
        )
        env = CartPoleTrain(batch_size=[2])
        env.set_seed(0)
        with pytest.raises((RuntimeError, TypeError, ValueError)) as caught:
            env.rollout(3, policy)
        messages.append(str(caught.value))
        assert used == [allowed]
    assert messages[0] == messages[1]
