"""Rollouts up to a limit, again and again, give what stepping with the limit gives, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.collectors import Collector
from specgen_runtime.collectors.limited_rollouts import LimitedSteps
from specgen_runtime.collectors.prepared import with_step_limit
from specgen_runtime.envs import EnvBase, GymEnv, SerialEnv
from specgen_runtime.envs.rollout import RolloutOptions
from specgen_runtime.testing import assert_identical
from specgen_std.envs.cartpole import CartPole
from tensordict.nn import TensorDictModule
from torch import nn

from tests.collectors.policies import ENVS, policy_for, torque

MADE: dict[str, Callable[[], Any]] = {
    **ENVS,
    "by gymnasium": lambda: GymEnv("CartPole-v1", categorical_action_encoding=True),
    "serial by gymnasium": lambda: SerialEnv(
        3, lambda: GymEnv("CartPole-v1", categorical_action_encoding=True)
    ),
}


class Leftmost(nn.Module):
    """Pushes to where the pole leans, so that some episodes are long."""

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return (observation[..., 2] + observation[..., 3] > 0).to(torch.int64)


def acting(name: str, kind: str) -> Any:
    if kind != "leaning":
        return policy_for(name, kind)
    return torque() if name == "pendulum" else TensorDictModule(Leftmost(), ["observation"], ["action"])


def generally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LimitedSteps, "whole", lambda *_: None)


def whole(env: EnvBase[Any], policy: Any = None, root: Any = None) -> Any:
    return env._rollout_steps(RolloutOptions(5, policy, any_stops=False)).whole(root)


def batches(name: str, kind: str, limit: int, **keywords: Any) -> list[Any]:
    env = MADE[name]()
    env.set_seed(5)
    policy = acting(name, kind)
    torch.manual_seed(9)
    count = env.batch_size.numel()
    keywords = {"frames_per_batch": 37 * count, "total_frames": 111 * count, **keywords}
    return [batch.clone() for batch in Collector(env, policy, max_frames_per_traj=limit, **keywords)]


@pytest.mark.parametrize("limit", [1, 7, 25, 60])
@pytest.mark.parametrize("kind", ["random", "leaning"])
@pytest.mark.parametrize("name", MADE)
def test_collected(name: str, kind: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = batches(name, kind, limit)
    generally(monkeypatch)
    expected = batches(name, kind, limit)
    assert len(found) == len(expected) == 3
    for one, other in zip(found, expected, strict=True):
        assert one.names == other.names
        assert_identical(one, other)
    whole_batch: Any = torch.cat(found, -1)
    assert whole_batch["next", "step_count"].max() <= limit
    assert limit > 7 or whole_batch["next", "truncated"].any()


@pytest.mark.parametrize("name", MADE)
def test_random_generators_end_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batches(name, "random", 7)
    after = torch.rand(3)
    generally(monkeypatch)
    batches(name, "random", 7)
    assert torch.equal(after, torch.rand(3))


@pytest.mark.parametrize(
    "keywords",
    [
        {"reset_at_each_iter": True},
        {"set_truncated": True},
        {"split_trajs": True},
        {"init_random_frames": 30},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["one", "batch", "gymnasium"])
def test_keywords(name: str, keywords: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    found = batches(name, "leaning", 11, **keywords)
    generally(monkeypatch)
    for one, other in zip(found, batches(name, "leaning", 11, **keywords), strict=True):
        assert_identical(one, other)


@pytest.mark.parametrize("kind", ["random", "leaning"])
@pytest.mark.parametrize("name", ["one", "batch", "gymnasium", "by gymnasium"])
def test_rollouts(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def rolled() -> list[Any]:
        env = with_step_limit(MADE[name](), 13)
        env.set_seed(4)
        policy = acting(name, kind)
        torch.manual_seed(3)
        first = env.rollout(50, policy)  # stops where the first episode ends
        second = env.rollout(50, policy, break_when_any_done=False)
        root = env.step_mdp(second[..., -1])
        third = env.rollout(20, policy, break_when_any_done=False, auto_reset=False, tensordict=root)
        return [first, second, third, env.rollout(9, policy, set_truncated=True)]

    found = rolled()
    assert found[0].shape[-1] <= 13
    generally(monkeypatch)
    for one, other in zip(found, rolled(), strict=True):
        assert_identical(one, other)


def test_an_entry_of_the_users_own_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    def rolled() -> Any:
        env = with_step_limit(CartPole(), 5)
        env.set_seed(4)
        root = env.reset().set("mine", torch.tensor(3.0))
        torch.manual_seed(3)
        return env.rollout(12, break_when_any_done=False, auto_reset=False, tensordict=root)

    found = rolled()
    assert found["mine"].tolist() == [3.0] * 12
    generally(monkeypatch)
    assert_identical(found, rolled())


@pytest.mark.parametrize("name", ["one", "batch"])
@pytest.mark.parametrize("change", [torch.Tensor.int, torch.Tensor.float, lambda count: count[..., 0]])
def test_counts_of_another_kind_are_told(name: str, change: Callable[[Any], Any]) -> None:
    env = with_step_limit(MADE[name](), 4)
    root = env.reset()
    root["step_count"] = change(root["step_count"])
    with pytest.raises(
        (TypeError, RuntimeError), match=r"TransformedEnv\._step: '(step_count|done)' must be"
    ):
        env.rollout(6, auto_reset=False, tensordict=root, break_when_any_done=False)


def test_no_environments() -> None:
    env = with_step_limit(CartPole(batch_size=[0]), 2)
    data = env.rollout(5, break_when_any_done=False)
    assert data["next", "step_count"].shape == (0, 5, 1)


def test_who_has_to_see_steps_sees_them() -> None:
    env = with_step_limit(CartPole(), 5)
    assert whole(env) is not None
    assert whole(env, TensorDictModule(Leftmost(), ["observation"], ["action"])) is not None
    assert whole(env, lambda tensordict: tensordict.set("action", torch.tensor(0))) is None
    counting = TensorDictModule(lambda count: count[..., 0] % 2, ["step_count"], ["action"])
    assert whole(env, counting) is None
    data = env.rollout(12, counting, break_when_any_done=False)
    assert torch.equal(data["action"], data["step_count"][:, 0] % 2)
    object.__setattr__(env, "step", env.step)
    assert whole(env) is None
