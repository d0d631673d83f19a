"""The contract of environments, as functions that raise AssertionError: call them from your own tests."""

from specgen_runtime.testing.env_contract import check_env
from specgen_runtime.testing.identical import assert_identical
from specgen_runtime.testing.lifetime_checks import (
    check_closing,
    check_devices,
    check_pickling,
    check_state_dict,
)
from specgen_runtime.testing.reset_checks import check_partial_resets
from specgen_runtime.testing.rollout_checks import (
    check_done_rules,
    check_rollout_is_stepping,
    check_step_and_maybe_reset,
)
from specgen_runtime.testing.seed_checks import check_seeding
from specgen_runtime.testing.spec_checks import (
    check_fake_tensordict,
    check_random_actions,
    check_specs_are_locked,
    check_specs_stay,
    check_values,
)
from specgen_runtime.testing.step_checks import check_aliasing, check_batch_size, check_preset_next

__all__ = [
    "assert_identical",
    "check_aliasing",
    "check_batch_size",
    "check_closing",
    "check_devices",
    "check_done_rules",
    "check_env",
    "check_fake_tensordict",
    "check_partial_resets",
    "check_pickling",
    "check_preset_next",
    "check_random_actions",
    "check_rollout_is_stepping",
    "check_seeding",
    "check_specs_are_locked",
    "check_specs_stay",
    "check_state_dict",
    "check_step_and_maybe_reset",
    "check_values",
]
