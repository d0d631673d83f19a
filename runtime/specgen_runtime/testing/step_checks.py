"""Checks of a step: batch sizes, refused inputs, preset values in `"next"`, and memory that is not shared."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import as_tuple, show_key
from specgen_runtime.envs.spec_leaves import leaves_of
from specgen_runtime.testing.identical import assert_identical
from specgen_runtime.testing.running import Env, Make, acting_alike, closing, made, torch_seeded

__all__ = ["check_aliasing", "check_batch_size", "check_preset_next"]


def check_batch_size(env: Env, *, seed: int = 0) -> None:
    """Check batch sizes: of all results, of inputs that are refused, and `batch_locked`.

    A locked environment, and one with a batch size, refuses any other with a RuntimeError; an unlocked one
    without takes any. `batch_locked` can't be assigned.

    Raises:
        AssertionError: naming the method.
    """
    size = env.batch_size
    try:
        env.batch_locked = not env.batch_locked
    except RuntimeError:
        pass
    else:
        raise AssertionError("batch_locked can be assigned; it is read-only")
    with torch_seeded(seed):
        root = env.reset()
        _check_size(root, size, "reset")
        _check_size(env.rand_action(), size, "rand_action")
        step, following = env.step_and_maybe_reset(env.rand_action(root))
        _check_size(step, size, "step")
        _check_size(step.get("next"), size, "step, 'next'")
        _check_size(following, size, "step_and_maybe_reset")
        _check_size(env.rollout(2, break_when_any_done=False), torch.Size((*size, 2)), "rollout")
        larger = torch.Size((2, *size))
        if env.batch_locked or size:
            for method in ("reset", "step"):
                wrong: Any = TensorDict({}, batch_size=larger, device=env.device)
                refused = ""
                try:
                    getattr(env, method)(wrong)
                except RuntimeError as error:
                    refused = str(error)
                assert refused, f"{method} accepts batch size {list(larger)}, expected {list(size)} only"
        else:
            several: Any = env.reset().expand(larger).clone()
            step = env.step(env.rand_action(several))
            _check_size(step, larger, "step of an environment that is not batch_locked")
            _check_size(step.get("next"), larger, "'next' of an environment that is not batch_locked")


def _check_size(data: TensorDictBase, size: torch.Size, method: str) -> None:
    found = data.batch_size
    assert found == size, f"{method}: batch size {list(found)}, expected {list(size)}"


def check_preset_next(env: Env, *, seed: int = 0) -> None:
    """Check that values which stand in `"next"` before a step prevail over the computed ones.

    Raises:
        AssertionError: naming the key.
    """
    for name in ("full_reward_spec", "full_observation_spec"):
        for leaf in leaves_of(getattr(env, name)):
            if leaf.items:
                continue
            with torch_seeded(seed):
                env.set_seed(seed)
                root = env.rand_action(env.reset())
                computed = leaf.find(env.step(root.clone()).get("next"))
                if not isinstance(computed, Tensor) or computed.is_nested:
                    continue
                env.set_seed(seed)
                root.update(env.reset())
                preset = computed + 1 if computed.dtype is not torch.bool else ~computed
                following: Any = root.empty()
                root.set("next", following.set(leaf.key, preset.clone()))
                found = leaf.find(env.step(root).get("next"))
            assert torch.equal(found.nan_to_num(), preset.nan_to_num()), (
                f"{leaf} was given in 'next' and must prevail, but step has overwritten it"
            )
            for key in (*env.observation_keys, *env.reward_keys, *env.done_keys):
                there = root.get(("next", *as_tuple(key)), None)
                assert there is not None, f"step with {leaf} given in 'next' leaves out {show_key(key)}"


def check_aliasing(make: Make, *, seed: int = 0, steps: int = 4) -> None:
    """Check that data belong to whoever has them.

    A step must not change what it is given besides writing `"next"`, later steps and resets must not change
    what earlier ones gave, and overwriting results must not reach the environment.

    Raises:
        AssertionError: naming the key and the step.
    """
    with closing(made(make)) as plain, closing(made(make)) as scribbled, torch_seeded(seed):
        plain.set_seed(seed)
        scribbled.set_seed(seed)
        with acting_alike(plain, seed):
            root = plain.reset()
        with acting_alike(scribbled, seed):
            other = scribbled.reset().clone()
        kept: list[tuple[str, TensorDictBase, TensorDictBase]] = [("reset", root, root.clone())]
        for step in range(steps):
            current = plain.rand_action(root.clone())
            given = current.clone()
            transition = plain.step(current)
            assert_identical(
                transition.exclude("next"), given, f"step {step}: what step was given, besides 'next'"
            )
            other = other.update(given.select(*plain.action_keys))
            found = scribbled.step(other)
            copy = found.clone()
            assert_identical(copy, transition, f"step {step}: after earlier results were overwritten")
            _scribble(found)
            kept.append((f"step {step}", transition, transition.clone()))
            with acting_alike(plain, seed + step):
                root = plain.maybe_reset(plain.step_mdp(transition.clone()))
            with acting_alike(scribbled, seed + step):
                after = scribbled.maybe_reset(scribbled.step_mdp(copy))
            other = after.clone()
            _scribble(after)
            for what, now, before in kept:
                assert_identical(now, before, f"the result of {what} after step {step}")


def _scribble(data: TensorDictBase) -> None:
    """Overwrite all tensors in place."""
    for value in data.values(True, True):
        if isinstance(value, Tensor) and not value.is_nested and value.is_leaf and not _overlapping(value):
            with torch.no_grad():
                value.fill_(True if value.dtype is torch.bool else 77)


def _overlapping(value: Tensor) -> bool:
    """Whether places of a tensor share memory, as after `expand`: they can't be written to."""
    return any(size > 1 and stride == 0 for size, stride in zip(value.shape, value.stride(), strict=True))
