"""Checks of seeds: the same seed gives the same data, another one other data."""

from __future__ import annotations

from specgen_runtime.testing.identical import assert_identical
from specgen_runtime.testing.running import (
    Env,
    Make,
    acting_alike,
    closing,
    made,
    seeded_rollout,
    torch_seeded,
)

__all__ = ["check_seeding"]


def check_seeding(make: Make, *, seed: int = 0, steps: int = 20, deterministic: bool = False) -> None:
    """Check that a seed fixes what happens, in a new environment and in a used one, and that seeds matter.

    Also that the environment's own draws hang on `set_seed` alone and not on the state of torch's global
    generator (from which random actions come, those of resets as well), and what `set_seed` returns: the seed for the next environment,
    the input for a single one or with `static_seed`, None for None.

    Args:
        make: makes the environment.
        seed: the seed to try; the next one is tried too.
        steps: how long the rollouts are.
        deterministic: whether the environment draws nothing, so that all seeds give the same.

    Raises:
        AssertionError: the same seed gave other data, or another seed gave the same.
    """
    with closing(made(make)) as first, closing(made(make)) as second:
        _check_returned(first, seed)
        once = seeded_rollout(first, seed, steps)
        assert_identical(seeded_rollout(second, seed, steps), once, "the same seed in another environment")
        assert_identical(seeded_rollout(first, seed, steps), once, "the same seed again")
        starts = []
        for noise in (seed + 11, seed + 12):
            with torch_seeded(noise):
                first.set_seed(seed)
                with acting_alike(first, seed):
                    starts.append(first.reset().clone())
        assert_identical(
            starts[1], starts[0], "the same seed, another state of torch's global generator before set_seed"
        )
        if deterministic:
            return
        with torch_seeded(seed):
            first.set_seed(seed + 1)
            other = first.rollout(steps, break_when_any_done=False)
        try:
            assert_identical(other, once)
        except AssertionError:
            return
        raise AssertionError(
            f"seed {seed} and seed {seed + 1} give the same, for the same actions; deterministic=True says that"
            " an environment draws nothing"
        )


def _check_returned(env: Env, seed: int) -> None:
    following = env.set_seed(seed)
    assert isinstance(following, int), f"set_seed({seed}) returned {following!r}, expected the next seed"
    static = env.set_seed(seed, static_seed=True)
    assert static == seed, f"set_seed({seed}, static_seed=True) returned {static!r}, expected the input"
    nothing = env.set_seed(None)
    assert nothing is None, f"set_seed(None) returned {nothing!r}, expected None"
