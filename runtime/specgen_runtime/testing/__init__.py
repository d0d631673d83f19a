"""The contract of generated classes, as functions that raise AssertionError: call them from your own tests."""

from specgen_runtime.testing.env_contract import (
    check_fake_tensordict,
    check_generated_env,
    check_partial_resets,
    check_pickling,
    check_rollout_is_stepping,
    check_seeding,
)
from specgen_runtime.testing.identical import assert_identical

__all__ = [
    "assert_identical",
    "check_fake_tensordict",
    "check_generated_env",
    "check_partial_resets",
    "check_pickling",
    "check_rollout_is_stepping",
    "check_seeding",
]
