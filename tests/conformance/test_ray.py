"""The contract over environments in Ray's actors."""

from __future__ import annotations

from functools import partial

import pytest
from specgen_runtime.envs import RayEnv, check_env_specs
from specgen_runtime.testing import (
    check_batch_size,
    check_partial_resets,
    check_preset_next,
    check_random_actions,
    check_rollout_is_stepping,
)

from tests.conformance.walks import Walk

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]


def test_actors() -> None:
    # actors start slowly: one pair of them for all checks
    env = RayEnv(2, partial(Walk, batch_size=()), ray_options={"num_cpus": 0.1})
    check_env_specs(env, seed=0)
    check_random_actions(env)
    check_partial_resets(env)
    check_batch_size(env)
    check_preset_next(env)
    check_rollout_is_stepping(lambda: env, steps=12)
    assert env.is_closed
