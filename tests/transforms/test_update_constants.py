"""What the number of rows and parameters alone decide of an update is kept from step to step, while they stay."""

from __future__ import annotations

import pytest
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs import Pendulum
from specgen_std.transforms import VecNorm
from tensordict import TensorDict


def weight(transform: VecNorm) -> float:
    return float(transform.state_dict()["count|observation"])


def test_a_parameter_that_changes_counts_from_then_on() -> None:
    env = TransformedEnv(Pendulum(), VecNorm(["observation"], ["normed"], decay=1.0))
    env.rollout(9)
    assert weight(env.transform) == 10  # a reset and nine steps
    env.transform.decay = 0.5
    env.rollout(1)
    assert weight(env.transform) == pytest.approx(10 / 4 + 1 / 2 + 1)


def test_rows_that_are_left_out_of_a_reset() -> None:
    env = TransformedEnv(Pendulum(batch_size=[3]), VecNorm(["observation"], ["normed"], decay=0.5))
    root = env.reset()
    held = weight(env.transform)
    assert held == pytest.approx(1 + 1 / 2 + 1 / 4)
    some = env.full_done_spec["done"].zero()
    some[1] = True
    env.reset(TensorDict({**root, "_reset": some}, [3]))
    assert weight(env.transform) == pytest.approx(held / 2 + 1)
    env.rollout(1)
    assert weight(env.transform) == pytest.approx(((held / 2 + 1) / 8 + 1.75) / 8 + 1.75)
