"""Environments with the transforms that a collector gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import nn

from specgen_runtime.collectors.limited_rollouts import LimitedSteps
from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.modules.recurrent.primers import get_primers_from_module
from specgen_runtime.params import int_param
from specgen_runtime.specs import TensorSpec
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.compose import Compose
from specgen_runtime.transforms.env import TransformedEnv
from specgen_runtime.transforms.generated import GeneratedTransform
from specgen_runtime.transforms.keys import sibling
from specgen_runtime.transforms.like import bounded_like, flag_like
from specgen_runtime.transforms.primer import TensorDictPrimer
from specgen_runtime.typing import NestedKey

__all__ = ["EpisodeStarts", "StepLimit", "with_primers", "with_step_limit", "with_transform"]


def with_primers(env: EnvBase[Any], policy: Any) -> EnvBase[Any]:
    """The environment with what modules of a policy need that remember: their states, and which steps are the first ones.

    Entries that it has already are left as they are.
    """
    if not isinstance(policy, nn.Module):
        return env
    known = {as_tuple(key) for key in (*env.observation_keys, *env.state_keys)}
    added: list[Transform] = [
        EpisodeStarts(key[-1])
        for key in dict.fromkeys(map(as_tuple, _first_steps(policy)))
        if key not in known
    ]
    primers = get_primers_from_module(policy, warn=False)
    for primer in primers if isinstance(primers, Compose) else [primers]:
        if isinstance(primer, TensorDictPrimer) and not known.issuperset(
            map(as_tuple, primer.primers.keys(True, True))
        ):
            added.append(primer)
    return TransformedEnv(env, Compose(*added)) if added else env


def _first_steps(policy: nn.Module) -> Iterator[NestedKey]:
    """Where modules of a policy read whether a step is the first of its episode: each says it as its `is_init_key`."""
    for module in policy.modules():
        key: NestedKey | None = getattr(module, "is_init_key", None)
        if key is not None:
            yield key


def with_transform(
    transform: Callable[[], Transform],
    make_env: Callable[..., EnvBase[Any]],
    *arguments: Any,
    **keywords: Any,
) -> EnvBase[Any]:
    """An environment with a transform behind it; what `partial` makes of it can be sent to a worker.

    Args:
        transform: its class, or what makes it.
        make_env: makes the environment, given the arguments and keywords.
        *arguments: of it.
        **keywords: of it.
    """
    return TransformedEnv(make_env(*arguments, **keywords), transform())


def with_step_limit(env: EnvBase[Any], max_frames_per_traj: int) -> EnvBase[Any]:
    """The environment with truncated episodes, or as it is where the limit is not positive.

    Raises:
        TypeError: if the limit is no whole number.
        ValueError: if the environment counts steps itself.
    """
    max_steps = int_param("max_frames_per_traj", max_frames_per_traj)
    if max_steps <= 0:
        return env
    if any("step_count" in as_tuple(key) for key in env.observation_keys):
        raise ValueError(
            "max_frames_per_traj counts steps at 'step_count', and the environment has such an entry: give its own"
            " step counter the limit"
        )
    return TransformedEnv(env, StepLimit(max_steps))


class EpisodeStartsKeys(NamedTuple):
    """What the transform reads and writes beside one done flag."""

    done: NestedKey
    is_init: NestedKey


class EpisodeStarts(GeneratedTransform[EpisodeStartsKeys]):
    """Writes, beside the done flag of every root-most done set, bool of its shape: whether a step is the first of its episode.

    It is `InitTracker` for one done set at least: that one is generated, and the runtime stands below what is.

    Args:
        name: of the entries.
    """

    _writes = ("is_init",)
    _beside: ClassVar[Mapping[str, str]] = {"is_init": "done"}
    _sequential = True

    def __init__(self, name: str = "is_init") -> None:
        super().__init__()
        self.name = name

    def _bind(self, env: EnvBase | None) -> list[EpisodeStartsKeys]:
        done = self._select(env, None, ("env.done",), (torch.bool,))
        return [EpisodeStartsKeys(key, sibling(key, self.name)) for key in done]

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        return {key.is_init: flag_like(self._spec(key.done)) for key in self.keys}

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            self._write(
                tensordict_reset, key.is_init, torch.ones_like(self._require(tensordict_reset, key.done))
            )
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            self._write(
                next_tensordict, key.is_init, torch.zeros_like(self._require(next_tensordict, key.done))
            )
        return next_tensordict


class StepLimitKeys(NamedTuple):
    """What the transform reads and writes beside one done flag."""

    done: NestedKey
    step_count: NestedKey
    truncated: NestedKey


class StepLimit(GeneratedTransform[StepLimitKeys]):
    """Truncates episodes that have lasted a number of steps.

    Writes, beside the done flag of every root-most done set, ``"step_count"``, int64 of its shape, the steps since the last
    reset; and ``"truncated"``.

    Args:
        max_steps: the longest episode.
    """

    _writes: tuple[str, ...] = ("step_count", "truncated")
    _recalls = ("step_count",)
    _carries = ("step_count",)
    _flags = ("truncated",)
    _beside: ClassVar[Mapping[str, str]] = {"step_count": "done"}
    _sequential = True
    _rollout_steps = LimitedSteps

    def __init__(self, max_steps: int) -> None:
        super().__init__()
        self.max_steps = max_steps

    def _bind(self, env: EnvBase | None) -> list[StepLimitKeys]:
        done = self._select(env, None, ("env.done",), (torch.bool,))
        return [StepLimitKeys(key, sibling(key, "step_count"), sibling(key, "truncated")) for key in done]

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        for key in self.keys:
            done = self._spec(key.done)
            specs[key.step_count] = bounded_like(done, 0, 2**63 - 1, torch.int64)
            specs[key.truncated] = flag_like(done)
        return specs

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            self._keep(tensordict_reset, key.step_count, torch.zeros_like(self._blank(key.step_count)))
            self._write(tensordict_reset, key.truncated, self._flag(tensordict_reset, key.truncated))
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            step_count = self._recall(tensordict, key.step_count) + 1
            self._keep(next_tensordict, key.step_count, step_count)
            truncated = self._flag(next_tensordict, key.truncated) | (step_count >= self.max_steps)
            self._write(next_tensordict, key.truncated, truncated)
        return next_tensordict
