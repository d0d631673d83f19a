"""What every generated environment must do, whatever it declares."""

from __future__ import annotations

import contextlib
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.checks import check_env_specs
from specgen_runtime.envs.done import any_done, governing_set, rootmost_sets, rows_mask
from specgen_runtime.envs.keys import as_tuple, show_key
from specgen_runtime.specs import TensorSpec
from specgen_runtime.testing.identical import assert_identical

__all__ = [
    "check_fake_tensordict",
    "check_generated_env",
    "check_partial_resets",
    "check_pickling",
    "check_rollout_is_stepping",
    "check_seeding",
]

Env = EnvBase[Any]


def check_generated_env(make: Callable[[], Env], *, seed: int = 0, steps: int = 40) -> None:
    """Check the whole contract: specs, data, seeds, partial resets, rollouts and pickling.

    Args:
        make: makes the environment; it is called several times, and what it makes is closed again.
        seed: seeds the environments and, while the check runs, torch.
        steps: how long the rollouts are; choose more than an episode lasts to see resets inside.

    Raises:
        AssertionError: naming the key, what is expected and what was found.
    """
    with closing(make()) as env:
        check_env_specs(env, seed=seed)
        check_fake_tensordict(env)
        check_partial_resets(env, seed=seed)
    check_seeding(make, seed=seed, steps=steps)
    check_rollout_is_stepping(make, seed=seed, steps=steps)
    check_pickling(make, seed=seed)


def check_fake_tensordict(env: Env) -> None:
    """Check that `fake_tensordict` has the keys, shapes, dtypes and devices of a step.

    Raises:
        AssertionError: naming the key that differs.
    """
    with torch_seeded(0):
        data = env.rand_step()
    fake = env.fake_tensordict()
    kinds = [_kinds(each) for each in (fake, data)]
    for key in sorted(kinds[0].keys() | kinds[1].keys()):
        said, real = (kind.get(key, "nothing") for kind in kinds)
        assert said == real, f"fake_tensordict has {said} at {show_key(key)}, a step has {real}"


def check_seeding(make: Callable[[], Env], *, seed: int = 0, steps: int = 20) -> None:
    """Check that a seed fixes what happens, in a new environment and in a used one, and that seeds matter.

    Raises:
        AssertionError: the same seed gave other data, or another seed gave the same.
    """
    with closing(make()) as first, closing(make()) as second:
        once = _seeded_rollout(first, seed, steps)
        assert_identical(_seeded_rollout(second, seed, steps), once, "the same seed in another environment")
        assert_identical(_seeded_rollout(first, seed, steps), once, "the same seed again")
        other = _seeded_rollout(first, seed + 1, steps)
        same = [torch.equal(once[..., 0].get(key), other[..., 0].get(key)) for key in first.observation_keys]
        assert not all(same), f"the first observations are the same with seed {seed} and with seed {seed + 1}"


def check_rollout_is_stepping(make: Callable[[], Env], *, seed: int = 0, steps: int = 40) -> None:
    """Check that a rollout gives, bit by bit, what stepping gives: data, and random numbers used.

    Both ways to treat the end of an episode are tried, with random actions and with a policy.

    Raises:
        AssertionError: naming the key, the place and the two values.
    """
    with closing(make()) as rolled, closing(make()) as stepped:
        for stop in (True, False):
            for name in ("random actions", "a policy"):
                policy = _policy(rolled) if name == "a policy" else None
                with torch_seeded(seed):
                    rolled.set_seed(seed)
                    found = rolled.rollout(steps, policy, break_when_any_done=stop)
                    left = torch.rand(3)
                with torch_seeded(seed):
                    stepped.set_seed(seed)
                    expected = step_by_step(stepped, steps, policy, stop=stop)
                    left_by_steps = torch.rand(3)
                what = f"rollout with {name}, break_when_any_done={stop}"
                assert_identical(found, expected, what)
                assert torch.equal(left, left_by_steps), f"{what}: another count of torch's random numbers"
                assert_identical(rolled.reset(), stepped.reset(), f"the reset after a {what}")


def check_partial_resets(env: Env, *, seed: int = 0, steps: int = 5) -> None:
    """Check that resetting some environments of a batch starts these anew and keeps every entry of the others.

    Raises:
        AssertionError: naming the key and the row.
    """
    rows = env.batch_size.numel()
    if rows < 2 or not env.batch_size:
        return
    with torch_seeded(seed):
        env.set_seed(seed)
        root = env.reset()
        for _ in range(steps):
            _, root = env.step_and_maybe_reset(env.rand_action(root))
        for row in range(rows):
            root = _reset_row(env, root, row)


def check_pickling(make: Callable[[], Env], *, seed: int = 0) -> None:
    """Check that an environment survives pickling: specs, class, and what it does with a seed.

    Raises:
        AssertionError: the copy differs.
    """
    with closing(make()) as env:
        buffer = io.BytesIO()
        pickle.dump(env, buffer)
        buffer.seek(0)
        with closing(pickle.load(buffer)) as copy:
            assert type(copy) is type(env), f"unpickled a {type(copy).__name__} from a {type(env).__name__}"
            for group in ("action", "observation", "reward", "done", "state"):
                name = f"full_{group}_spec"
                assert getattr(copy, name) == getattr(env, name), f"{name} differs after pickling"
            assert_identical(_seeded_rollout(copy, seed, 5), _seeded_rollout(env, seed, 5), "after pickling")


def step_by_step(env: Env, steps: int, policy: Callable[[Any], Any] | None, *, stop: bool) -> TensorDictBase:
    """What `rollout` promises to equal: reset, then act and step, one after the other."""
    root = env.reset()
    records: list[TensorDictBase] = []
    for step in range(steps):
        root = env.rand_action(root) if policy is None else policy(root)
        if stop or step == steps - 1:
            transition = env.step(root)
            root = env.step_mdp(transition)
        else:
            transition, root = env.step_and_maybe_reset(root)
        records.append(transition.clone())
        if stop and any_done(transition.get("next"), env._done_sets):
            break
    stacked: TensorDictBase = torch.stack(records, env.ndim)
    return stacked


@contextlib.contextmanager
def closing(env: Env) -> Iterator[Env]:
    """Close an environment at the end of the block."""
    try:
        yield env
    finally:
        env.close(raise_if_closed=False)


@contextlib.contextmanager
def torch_seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generators for the block only."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def _seeded_rollout(env: Env, seed: int, steps: int) -> TensorDictBase:
    with torch_seeded(seed):
        env.set_seed(seed)
        data: TensorDictBase = env.rollout(steps, break_when_any_done=False)
        return data


def _policy(env: Env) -> Callable[[TensorDictBase], TensorDictBase]:
    """Actions that depend on what is observed, through the step's position in a fixed table of random ones."""
    leaves: list[tuple[Any, TensorSpec]] = list(env.full_action_spec.items(True, True))
    with torch_seeded(1):
        tables = {key: leaf.rand((2,)) for key, leaf in leaves}
    watched = next(iter(env.observation_keys))

    def act(root: TensorDictBase) -> TensorDictBase:
        choice = int(root.get(watched).double().nan_to_num().sum().item() * 1e4) % 2
        for key, table in tables.items():
            root.set(key, table[choice].clone())
        return root

    return act


def _reset_row(env: Env, root: TensorDictBase, row: int) -> TensorDictBase:
    n, roots = env.ndim, rootmost_sets(env._done_sets)
    before = root.clone()
    masks = {}
    for s in roots:
        flat = torch.zeros((env.batch_size.numel(), *s.shape), dtype=torch.bool, device=env.device)
        flat[row] = True
        masks[s] = flat.reshape(*env.batch_size, *s.shape)
        root.set(s.reset, masks[s].clone())
    after: TensorDictBase = env.reset(root)
    for key in [*env.observation_keys, *env.done_keys]:
        governing = governing_set(key, roots)
        if governing is None:
            continue
        new, old = after.get(key), before.get(key)
        kept = ~rows_mask(masks[governing], new, n).expand_as(new)
        assert torch.equal(new[kept], old[kept]), f"{show_key(key)}: resetting row {row} changed another row"
    for s in roots:
        assert not bool(after.get(s.done)[masks[s]].any()), f"{show_key(s.done)} is set right after a reset"
    assert not any(as_tuple(key)[-1] == "_reset" for key in after.keys(True, True)), (
        "reset left its mask behind"
    )
    return after


def _kinds(data: TensorDictBase) -> dict[tuple[str, ...], str]:
    return {
        as_tuple(key): f"{value.dtype} {list(value.shape)} on {value.device}"
        for key, value in data.items(True, True)
    }
