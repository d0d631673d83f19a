"""`check_env`: all checks of the contract of `EnvBase`."""

from __future__ import annotations

from collections.abc import Sequence

from specgen_runtime.envs.check_specs import check_env_specs
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
from specgen_runtime.testing.running import Make, closing, made
from specgen_runtime.testing.seed_checks import check_seeding
from specgen_runtime.testing.spec_checks import (
    check_fake_tensordict,
    check_random_actions,
    check_specs_are_locked,
    check_specs_stay,
)
from specgen_runtime.testing.step_checks import check_aliasing, check_batch_size, check_preset_next
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["check_env"]


def check_env(
    make: Make,
    *,
    seed: int = 0,
    steps: int = 40,
    deterministic: bool = False,
    pickling: bool = True,
    devices: Sequence[DEVICE_TYPING] | None = None,
) -> None:
    """Check the whole contract of an environment: any `EnvBase`, generated or written by hand.

    Example, in a test of yours::

        def test_my_env():
            check_env(lambda: MyEnv(batch_size=(3,)), steps=100)

    Specs (`check_env_specs`, locked, unchanged by use, `fake_tensordict`, random actions), seeds, partial
    resets, batch sizes, presets in `"next"`, aliasing, rollouts in every mode against stepping, the rules of
    ending, devices, state dict, pickling and closing: each check is a function of its own in
    `specgen_runtime.testing`, which says what it promises.

    Args:
        make: makes the environment, as its class or a lambda does; it is called many times, and what it makes is
            closed again.
        seed: seeds the environments and, while the check runs, torch.
        steps: how long the rollouts are; choose more than an episode lasts to see resets inside.
        deterministic: whether the environment draws no random numbers, so that all seeds give the same.
        pickling: whether to check pickling; False for environments that hold what can't be pickled.
        devices: where to move it; `meta`, `cpu` and, where there is one, `cuda` if None. `()` for nowhere.

    Raises:
        AssertionError: naming the key, what is expected and what was found. Errors that the environment
            itself raises pass through.
        TypeError: `make` is an environment, or makes no `EnvBase`.
    """
    with closing(made(make)) as env:
        check_env_specs(env, seed=seed)
        check_specs_are_locked(env)
        check_fake_tensordict(env)
        check_random_actions(env, seed=seed)
        check_batch_size(env, seed=seed)
        check_preset_next(env, seed=seed)
        check_partial_resets(env, seed=seed)
    check_specs_stay(make, seed=seed)
    check_seeding(make, seed=seed, steps=min(steps, 20), deterministic=deterministic)
    check_done_rules(make, seed=seed, steps=steps)
    check_aliasing(make, seed=seed)
    check_step_and_maybe_reset(make, seed=seed, steps=min(steps, 60))
    check_rollout_is_stepping(make, seed=seed, steps=steps)
    check_devices(make, devices, seed=seed)
    check_state_dict(make, seed=seed)
    if pickling:
        check_pickling(make, seed=seed)
    check_closing(make)
