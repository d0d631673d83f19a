"""What a transform refuses, and how it says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.envs import Pendulum
from specgen_std.transforms import (
    ActionScaling,
    CatTensors,
    DoubleToFloat,
    InitTracker,
    LineariseRewards,
    ObservationNorm,
    RewardClipping,
    RewardScaling,
    RewardSum,
    StepCounter,
)
from tensordict import TensorDict, TensorDictBase

from tests.transforms.envs import Team, Walk


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: StepCounter(max_steps=0), ValueError, "max_steps must be >= 1, got 0"),
        (
            lambda: StepCounter(step_count_key=("a", "b")),  # type: ignore[arg-type]
            ValueError,
            "step_count_key is the last part of a key",
        ),
        (lambda: InitTracker(init_key=""), ValueError, "init_key is the last part of a key"),
        (lambda: RewardScaling(0.0, -1.0), ValueError, "scale must be > 0"),
        (lambda: RewardScaling("a", 1.0), TypeError, "loc is a number, a list of numbers or a tensor"),
        (lambda: RewardScaling(1j, 1.0), TypeError, "real numbers"),  # type: ignore[arg-type]
        (lambda: RewardSum(in_keys=[3]), TypeError, "a key is text"),  # type: ignore[list-item]
        (
            lambda: RewardSum(["a", "b"], ["c"]),
            ValueError,
            r"RewardSum needs one of out_keys for each of in_keys, got out_keys=\['c'\] for in_keys=\['a', 'b'\]",
        ),
        (
            lambda: DoubleToFloat(in_keys_inv=["a"], out_keys_inv=["b", "c"]),
            ValueError,
            r"needs one of out_keys_inv for each of in_keys_inv, got out_keys_inv=\['b', 'c'\] for in_keys_inv=\['a'\]",
        ),
    ],
)
def test_constructors(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("transform", "error", "message"),
    [
        (RewardSum(["rewrad"]), KeyError, "reads 'rewrad', but the environment has only .*reward"),
        (ObservationNorm(0.0, 1.0, ["done"]), TypeError, "needs float32 or float64, but 'done' is bool"),
        (DoubleToFloat(["position"]), TypeError, "needs float64, but 'position' is float32"),
        (RewardSum(out_keys=["position"]), ValueError, "adds 'position', which is there already"),
        (Compose(StepCounter(), StepCounter()), ValueError, "adds 'step_count', which is there already"),
    ],
)
def test_environments_that_do_not_fit(transform: Transform, error: type[Exception], message: str) -> None:
    env = TransformedEnv(Walk(2), transform)
    with pytest.raises(error, match=message):
        env.reset()
    with pytest.raises(error, match=message):
        _ = env.observation_spec


def test_nested_reward() -> None:
    env = TransformedEnv(Team(2), RewardSum(in_keys=["reward"]))
    with pytest.raises(
        KeyError, match=r"reads 'reward', but the environment has only .*\('agents', 'reward'\)"
    ):
        env.reset()


def test_unregistered_output() -> None:
    class Silent(Transform):
        """Writes an entry that no spec mentions."""

        def __init__(self) -> None:
            super().__init__(in_keys=["position"], out_keys=["other"])

        def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
            return obs

    with pytest.raises(KeyError, match="Silent writes 'other', but no spec says so"):
        TransformedEnv(Walk(2), Silent()).reset()


def test_a_transform_that_computes_nothing() -> None:
    with pytest.raises(NotImplementedError, match="computes nothing"):
        Transform(in_keys=["a"], out_keys=["a"])(a=torch.ones(1))
    with pytest.raises(ValueError, match="as many out_keys as in_keys"):
        Transform(in_keys=["a"])(a=torch.ones(1))


def test_a_step_alone_is_not_for_recorded_data() -> None:
    class Speed(Transform):
        """How far a position has moved."""

        def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
            return tensordict_reset

        def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
            return next_tensordict.set("position", next_tensordict["position"] - tensordict["position"])

    speed = Speed(in_keys=["position"], out_keys=["position"])
    TransformedEnv(Walk(2), speed).rollout(3)
    with pytest.raises(NotImplementedError, match="Speed needs `forward` for recorded data"):
        speed.clone()(Walk(2).rollout(3))


@pytest.mark.parametrize(
    "transform",
    [
        RewardSum(out_keys=["c", "d"]),
        RewardSum(reset_keys=["_over"]),
        CatTensors(["absent"], "b"),
        Compose(RewardSum(out_keys=["c", "d"])),
    ],
)
def test_what_does_not_fit_is_shown(transform: Transform) -> None:
    assert type(transform).__name__ in repr(transform)
    assert type(transform).__name__ in repr(TransformedEnv(Walk(2), transform))


@pytest.mark.parametrize("shape", [(3,), (1, 1), (4, 1), (2, 4, 1)])
def test_tensors_among_parameters_that_do_not_fit_a_row(shape: tuple[int, ...]) -> None:
    loc, said = torch.zeros(shape), f"loc has the shape {list(shape)}, and a row of"
    data = TensorDict({"action": torch.zeros(4, 1), "next": {"reward": torch.zeros(4, 1)}}, [4])
    rewards = RewardScaling(loc, 1.0)
    with pytest.raises(ValueError, match=re.escape(f"RewardScaling: {said} 'reward' has [1]")):
        rewards(data.clone())
    for batch in ((), (4,), (4, 3)):
        with pytest.raises(ValueError, match=re.escape(f"RewardScaling: {said} 'reward' has [1]")):
            TransformedEnv(Pendulum(batch_size=batch), rewards.clone()).reward_spec  # noqa: B018
        with pytest.raises(ValueError, match=re.escape(f"ActionScaling: {said} 'action' has [1]")):
            TransformedEnv(Pendulum(batch_size=batch), ActionScaling(loc=loc, scale=1.0)).action_spec  # noqa: B018
    actions = ActionScaling(loc=loc, scale=1.0, in_keys=["action"], out_keys=["action"])
    for way in (actions, actions.inv):
        with pytest.raises(ValueError, match=re.escape(f"ActionScaling: {said} 'action' has [1]")):
            way(data.clone())


def test_tensors_among_parameters_that_fit_a_row() -> None:
    data = TensorDict({"a": torch.ones(4, 2, 3)}, [4])
    for shape in ((), (1,), (3,), (2, 1), (1, 3), (2, 3)):
        factor = 1 + torch.arange(float(torch.Size(shape).numel())).reshape(shape)
        scaled = ActionScaling(in_keys=["a"], out_keys=["a"], loc=0.0 * factor, scale=factor)(data.clone())
        assert torch.equal(scaled["a"], (1 / factor).expand(4, 2, 3))


@pytest.mark.parametrize("weights", [[1.0, 2.0, 3.0], [[1.0, 1.0]]])
def test_weights_of_another_number_than_the_rewards(weights: Any) -> None:
    """Of one reward, three weights gave its sixfold."""
    data = TensorDict(
        next=TensorDict(rewards=torch.ones(4, 2), reward=torch.ones(4, 1), batch_size=4), batch_size=4
    )
    message = r"LineariseRewards: weights has the shape \[.*\], and a row of 'rewards' has \[2\]"
    with pytest.raises(ValueError, match=message):
        LineariseRewards(["rewards"], weights=weights)(data.copy())
    with pytest.raises(ValueError, match=r"and a row of 'reward' has \[1\]"):
        _ = TransformedEnv(Pendulum(), LineariseRewards(["reward"], weights=weights)).reward_spec
    for fitting, total in (([2.0, 0.5], 2.5), (3.0, 6.0), ([3.0], 6.0)):
        found = LineariseRewards(["rewards"], ["total"], weights=fitting)(data.copy())["next", "total"]
        assert torch.equal(found, torch.full((4, 1), total))


@pytest.mark.parametrize("nested", [False, True])
def test_specs_follow_a_changed_parameter_once_they_are_asked_anew(nested: bool) -> None:
    clip = RewardClipping(-1.0, 1.0)
    env = TransformedEnv(Pendulum(batch_size=(3,)), Compose(StepCounter(), clip) if nested else clip)
    assert env.reward_spec.space.high.eq(1).all()
    clip.clamp_max = 5.0
    assert env.reward_spec.space.high.eq(1).all()
    env.empty_cache()
    assert env.reward_spec.space.high.eq(5).all()
