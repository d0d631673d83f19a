"""Runs environments for the checks: with seeds, with policies, and closed again."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.spec_leaves import leaves_of
from specgen_runtime.specs.non_tensors.data import data_text

__all__ = ["Env", "Make", "closing", "joined", "made", "seeded_rollout", "table_policy", "torch_seeded"]

Env = EnvBase[Any]
Make = Callable[[], Env]


def made(make: Make) -> Env:
    """The environment that `make` makes.

    Raises:
        TypeError: `make` is an environment instead of a function, or makes something else.
    """
    name = type(make).__name__
    if isinstance(make, EnvBase):
        raise TypeError(
            f"environments are checked from their start, several at once: give a function that makes one, "
            f"such as `lambda: {name}(...)`, instead of an object of class {name}"
        )
    env: Any = make()
    if not isinstance(env, EnvBase):
        raise TypeError(
            f"what is checked is an EnvBase; {make!r} made an object of class {type(env).__name__}"
        )
    return env


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


def acting_alike(env: Env, seed: int) -> contextlib.AbstractContextManager[None]:
    """Let resets inside draw the same random actions, where they draw some: those are of torch's global generators."""
    return torch_seeded(seed) if env._acts_in_resets else contextlib.nullcontext()


def seeded_rollout(env: Env, seed: int, steps: int) -> TensorDictBase:
    """A rollout with random actions from a seeded start, through the ends of episodes."""
    env.reset()  # some make what they hold only now, and draw from torch's generator to seed it
    with torch_seeded(seed):
        env.set_seed(seed)
        data: TensorDictBase = env.rollout(steps, break_when_any_done=False)
        return data


def table_policy(env: Env) -> Callable[[TensorDictBase], TensorDictBase]:
    """One of two random actions, by a checksum of what is observed."""
    with torch_seeded(1):
        tables = [env.full_action_spec.rand() for _ in range(2)]
    watched = leaves_of(env.full_observation_spec)

    def act(root: TensorDictBase) -> TensorDictBase:
        total = 0
        for leaf in watched:
            total = _checksum(leaf.find(root), total)
        return root.update(tables[total % 2].clone())

    return act


def _checksum(value: Any, start: int) -> int:
    """The checksum of the bits of a value, and of what stands before it."""
    if not isinstance(value, Tensor):
        return zlib.crc32(data_text(value).encode(), start)
    for part in value.unbind(0) if value.is_nested else (value,):
        # laid out anew: of an expanded tensor no bytes can be seen
        flat = part.detach().cpu().reshape(-1).clone(memory_format=torch.contiguous_format)
        start = zlib.crc32(flat.view(torch.uint8).numpy().tobytes(), start)
    return start


def joined(records: list[TensorDictBase], dim: int) -> TensorDictBase:
    """Transitions stacked over time, lazily where they differ in their sizes."""
    try:
        stacked: TensorDictBase = LazyStackedTensorDict.maybe_dense_stack(records, dim)
    except NotImplementedError:  # torch stacks no nested tensor
        stacked = LazyStackedTensorDict.lazy_stack(records, dim)
    return stacked
