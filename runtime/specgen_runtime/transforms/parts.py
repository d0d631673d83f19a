"""A `TransformedEnv` in parts: transforms that step the environment before them stand between one part and the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.generated.env import GeneratedEnv
from specgen_runtime.envs.mdp import following_root
from specgen_runtime.envs.packing import peek
from specgen_runtime.envs.partial_resets import merge_reset
from specgen_runtime.envs.partial_steps import begin_partial, keep_others, set_masks
from specgen_runtime.envs.stepping import complete_step
from specgen_runtime.transforms.around import AroundTransform
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.flags import raise_done

if TYPE_CHECKING:
    from specgen_runtime.envs.layout import Layout
    from specgen_runtime.transforms.env import TransformedEnv

__all__ = ["InnerEnv", "parts_of"]


class InnerEnv:
    """The base environment with the first transforms of a `TransformedEnv`: what the transform behind them steps.

    Its transforms are those of the whole environment, not copies of them.

    Args:
        whole: the environment.
        transforms: those that are in this part, and not in the one before.
        before: the part before; None for the base environment.
        driver: the transform that steps the part before; None for the base environment.
        behind: the transform that steps this part; None for the whole environment.
    """

    def __init__(
        self,
        whole: TransformedEnv,
        transforms: Sequence[Transform],
        before: InnerEnv | None,
        driver: AroundTransform[Any, Any] | None,
        behind: AroundTransform[Any, Any] | None,
    ) -> None:
        self._whole = whole
        self._transforms = tuple(transforms)
        self._before = before
        self._driver = driver
        self._behind = behind
        own: Sequence[Transform] = transforms if driver is None else (driver, *transforms)
        self._inverting = tuple(
            entry
            for entry in reversed(own)
            if type(entry)._inv_call is not Transform._inv_call or entry.in_keys_inv
        )

    @property
    def env(self) -> TransformedEnv:
        """This part as an environment: its specs and random actions."""
        if self._behind is None:
            return self._whole
        env = self._behind.parent
        assert env is not None  # it is part of one
        return env

    @property
    def layout(self) -> Layout:
        """The specs of this part and what follows from them."""
        return self.env._env_layout

    @property
    def computes(self) -> bool:
        """Whether a step is a function of its tensordict, so that what it gives can be thrown away."""
        return _computes_steps(self._whole.base_env)

    @property
    def fused_alike(self) -> bool:
        """Whether a fused chain steps the same environment: it draws as often, whatever the data are."""
        return isinstance(self._whole.base_env, GeneratedEnv) and self.computes

    def step(self, tensordict: TensorDictBase) -> TensorDictBase:
        """One step.

        Args:
            tensordict: the root, as the user of this part sees it. Not modified.

        Returns:
            What becomes `"next"`: observations, rewards and done flags.
        """
        return self.step_rows(tensordict)[0]

    def step_rows(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, Tensor | None]:
        """One step, and which rows take it; see `step`.

        Args:
            tensordict: see `step`.

        Returns:
            What becomes `"next"`, and a bool of the batch size: the rows that no transform of this part leaves out. None
            is all.
        """
        whole = self._whole
        stages = whole._stages()
        private = stages.private_state if self._before is None else {}
        inner: Any = tensordict
        if self._inverting or private:
            inner = tensordict.copy()
            for entry in self._inverting:
                inner = entry._inv_call(inner)
            for key, place in private.items():
                inner.set(key, tensordict.get(place))
        mask = moved = None
        if self._inverting and peek(inner, "_step") is not peek(tensordict, "_step"):
            # A transform says who steps: it and those beside it see nothing of the others, either.
            moved = inner.pop("_step")
            mask, skip = begin_partial(self.env, tensordict.copy().set("_step", moved))
            moved = moved.reshape(tensordict.batch_size)
            if skip is not None and self.fused_alike and not bool(moved.any()):
                mask = moved  # nothing comes of the step, but that it draws
            elif skip is not None:
                return skip, moved
            if mask is not None:
                inner.set("_step", mask)
        following: Any
        if self._before is None:
            following = whole.base_env._step(inner)
            complete_step(whole.base_env, following)
            whole._stash_state(following)
        else:
            assert self._driver is not None  # what is before a part is stepped by a transform
            following = self._driver._around_step(inner, self._before)
        root = tensordict if mask is None else tensordict.copy().set("_step", mask)
        for entry in self._transforms:
            if entry._derives_done():
                flags = [each.read(following) for each in stages.flag_sets]
                following = entry._step(root, following)
                raise_done(following, stages.flag_sets, flags)
            else:
                following = entry._step(root, following)
        if mask is not None:
            complete_step(self.env, following)
            following = keep_others(self.layout, tensordict, following, mask)
        return following, moved

    def reset(
        self, given: TensorDictBase | None, request: TensorDictBase | None, **kwargs: Any
    ) -> TensorDictBase:
        """New episodes.

        Args:
            given: what `reset` was given.
            request: the same in the form that the base environment expects.
            **kwargs: of the base environment.

        Returns:
            Fresh observations and done flags, for all rows.
        """
        if self._before is None:
            base = self._whole.base_env
            if request is not None:
                request = self._as_environment_has_it(request)
            fresh = base._reset(request, **kwargs)
            base.__dict__["_begun"] = True
            base._complete_dones(fresh)
            self._whole._stash_state(fresh)
        else:
            assert self._driver is not None
            fresh = self._before.reset(given, request, **kwargs)
            fresh = self._driver._around_reset(_or_empty(given, fresh), fresh, self._before)
            fresh = self._driver._reset(_or_empty(given, fresh), fresh)
        for entry in self._transforms:
            fresh = entry._reset(_or_empty(given, fresh), fresh)
        return fresh

    def _as_environment_has_it(self, request: TensorDictBase) -> TensorDictBase:
        """What the base environment is asked to reset: its own state, which it may keep in some rows."""
        stages = self._whole._stages()
        if stages.unlike:
            # What the transforms made of them is nothing that the environment could keep.
            request = request.exclude(*stages.unlike)
        for key, place in stages.private_state.items():
            own: Tensor | None = request.get(place, None)
            if own is not None:
                request.set(key, own)
        return request

    def next_root(self, tensordict: TensorDictBase, following: TensorDictBase) -> TensorDictBase:
        """The root of the next step, with the action of the last one."""
        return following_root(self.layout.step_plan, tensordict, following)

    def done_rows(self, tensordict: TensorDictBase) -> Tensor:
        """Which rows are done: any of their root-most flags is set; bool of the batch size."""
        flags = (tensordict.get(s.done) for s in self.layout.root_sets)
        rows = [flag.flatten(tensordict.batch_dims).any(-1) for flag in flags]
        return rows[0] if len(rows) == 1 else torch.stack(rows).any(0)

    def write_rows(self, tensordict: TensorDictBase, other: TensorDictBase, rows: Tensor) -> None:
        """Write `other` into a tensordict, in place, in some rows (bool of the batch size)."""
        merge_reset(tensordict, other, set_masks(self.layout, rows), fill=True, what="step")


def parts_of(whole: TransformedEnv, transforms: Sequence[Transform]) -> InnerEnv:
    """The whole environment in parts: the last one, which knows those before it."""
    part: InnerEnv | None = None
    driver: AroundTransform[Any, Any] | None = None
    taken: list[Transform] = []
    for entry in transforms:
        if isinstance(entry, AroundTransform) and entry._steps_inner_env:
            part = InnerEnv(whole, taken, part, driver, entry)
            driver, taken = entry, []
        else:
            taken.append(entry)
    return InnerEnv(whole, taken, part, driver, None)


def _computes_steps(env: EnvBase[Any]) -> bool:
    if isinstance(env, GeneratedEnv):
        return not env._keeps_state
    if type(env)._steps_rows is not EnvBase._steps_rows:
        return False  # what is inside may keep more than its tensordict
    return not env._supports_partial_steps and bool(env._env_layout.state.keys)


def _or_empty(given: TensorDictBase | None, fresh: TensorDictBase) -> TensorDictBase:
    return fresh.empty() if given is None else given
