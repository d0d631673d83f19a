"""Chains that take several steps of Gymnasium's environments, and of classes, as one: as the dynamic classes do."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, SerialEnv
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.envs import CartPoleGym, PendulumGym
from specgen_std.transforms import FrameSkipTransform, MultiAction, RewardClipping, RewardSum, StepCounter
from tensordict import TensorDict

from tests.support import generate, imported
from tests.transforms.envs import rollouts_alike

SCHEMA = Path(__file__).parent / "schemas" / "repeated_envs.yaml"
Made = Callable[[ModuleType], list[Transform]]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"a.yaml": SCHEMA.read_text(encoding="utf-8")}, "repeated_envs")
    with imported(files, "repeated_envs", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("repeated_envs.a")


SINGLE: dict[str, tuple[str, Made]] = {
    "SkippingCartPole": ("CartPoleGym", lambda _: [StepCounter(), RewardSum(), FrameSkipTransform(3)]),
    "SkippingPendulum": ("PendulumGym", lambda _: [FrameSkipTransform(7), StepCounter(9)]),
    # what makes another reward of the sum takes no steps of its own
    "ClippedPendulum": ("PendulumGym", lambda _: [FrameSkipTransform(3), RewardClipping(-4.0)]),
    "ChunkedPendulum": (
        "PendulumGym",
        lambda _: [MultiAction(3, stack_observations=True), RewardSum()],
    ),
    "PeakingPendulum": ("PendulumGym", lambda m: [m.Peak(enough=-0.5), StepCounter()]),
    "TwicePendulum": ("PendulumGym", lambda m: [m.Peak(most=3, enough=-2.0), FrameSkipTransform(2)]),
    "SkippingTrack": ("Track", lambda _: [StepCounter(), FrameSkipTransform(4), RewardSum()]),
    "ChunkedTrack": ("Track", lambda _: [MultiAction(4), RewardSum()]),
    "PeakingTrack": ("Track", lambda m: [m.Peak(x_key="place", enough=0.5), StepCounter()]),
}
BATCHED: dict[str, Made] = {
    "SkippingDrift": lambda _: [StepCounter(), FrameSkipTransform(3)],
    "ChunkedDrift": lambda _: [MultiAction(3, stack_observations=True), RewardSum()],
    "PeakingDrift": lambda m: [m.Peak(x_key="seen"), StepCounter()],
}


def both(generated: ModuleType, name: str) -> tuple[EnvBase, EnvBase]:
    """The environment with the classes of a chain, and the chain."""
    base, transforms = SINGLE[name]
    classes: dict[str, Any] = {"CartPoleGym": CartPoleGym, "PendulumGym": PendulumGym}
    inner = classes.get(base) or generated.Track
    return TransformedEnv(inner(), Compose(*transforms(generated))), getattr(generated, name)()


@pytest.mark.parametrize("name", SINGLE)
def test_environments_that_keep_their_state(generated: ModuleType, name: str) -> None:
    dynamic, fused = rollouts_alike(both(generated, name), 60)
    assert_identical(dynamic, fused)
    assert dynamic["next", "done"].any() or "Pendulum" in name


@pytest.mark.parametrize("name", SINGLE)
def test_step_by_step_with_resets(generated: ModuleType, name: str) -> None:
    found: list[Any] = []
    for env in both(generated, name):
        env.set_seed(1)
        torch.manual_seed(2)
        root, steps = env.reset(), []
        for number in range(40):
            step, root = env.step_and_maybe_reset(env.rand_action(root))
            steps.append(step.clone())
            if number % 11 == 10:
                root = env.reset()
        found.append(torch.stack(steps))
    assert_identical(*found)


def test_time_limits_of_gymnasium(generated: ModuleType) -> None:
    """200 steps of Pendulum are 28 times 7 and one of the 4 that are left."""
    env = generated.SkippingPendulum()
    env.reset()
    taken = 0
    step = env._gym_step

    def counted(*actions: torch.Tensor) -> Any:
        nonlocal taken
        taken += 1
        return step(*actions)

    env._gym_step = counted
    root = env.reset()
    for number in range(29):
        root["action"] = torch.zeros(1)
        root = env.step_mdp(env.step(root))
        assert taken == min(7 * (number + 1), 200)
    assert root["truncated"].all()
    assert not root["terminated"].any()


def test_objects_are_not_stepped_behind_their_end(generated: ModuleType) -> None:
    for env in (generated.SkippingTrack(), generated.ChunkedTrack()):
        root = env.reset()
        for number in (4, 8, 9):
            root = env.step_mdp(env.step(env.rand_action(root)))
            assert root["count"] == number
        assert root["done"].all()
        assert env.dynamics.python.steps == 9


def test_what_is_collected_behind_an_end_is_zero(generated: ModuleType) -> None:
    env = generated.ChunkedTrack(length=5)
    root = env.reset()
    for expected in ([1.0, 2.0, 3.0, 4.0], [5.0, 0.0, 0.0, 0.0]):
        root["action"] = torch.ones(4, 1)
        after = env.step(root)["next"]
        assert after["rewards"].flatten().tolist() == expected
        assert after["reward"].item() == sum(expected)
        root = env.step_mdp(root)


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
@pytest.mark.parametrize("name", BATCHED)
def test_classes_of_rows(generated: ModuleType, name: str, batch: tuple[int, ...]) -> None:
    dynamic = TransformedEnv(generated.Drift(batch_size=batch), Compose(*BATCHED[name](generated)))
    fused = getattr(generated, name)(batch_size=batch)
    first, second = rollouts_alike((dynamic, fused), 40)
    assert_identical(first, second)
    assert first["next", "done"].any()


@pytest.mark.parametrize("name", BATCHED)
def test_some_rows_of_classes_are_reset(generated: ModuleType, name: str) -> None:
    found: list[Any] = []
    for env in (
        TransformedEnv(generated.Drift(batch_size=(3,)), Compose(*BATCHED[name](generated))),
        getattr(generated, name)(batch_size=(3,)),
    ):
        env.set_seed(1)
        torch.manual_seed(2)
        root, steps = env.reset(), []
        for number in range(12):
            root = env.step_mdp(step := env.step(env.rand_action(root)))
            steps.append(step)
            rows = torch.tensor([[number % 2 == 0], [number % 3 == 0], [False]]) | root["done"]
            if rows.any():
                root = env.reset(root.set("_reset", rows))
        found.append(torch.stack(steps))
    assert_identical(*found)


def test_a_list_of_them(generated: ModuleType) -> None:
    found: list[Any] = []
    for make in (lambda: both(generated, "PeakingPendulum")[0], generated.PeakingPendulum):
        env = SerialEnv(3, make)
        env.set_seed(1)
        torch.manual_seed(2)
        found.append(env.rollout(12, break_when_any_done=False))
    assert_identical(*found)


def test_policies(generated: ModuleType) -> None:
    found: list[Any] = []
    for env in both(generated, "PeakingPendulum"):
        env.set_seed(1)

        def policy(root: TensorDict) -> TensorDict:
            return root.set("action", 2 * root["observation"][..., :1])

        found.append(env.rollout(60, policy, break_when_any_done=False))
    assert_identical(*found)
