"""`BatchedEnv`: several environments as one, wherever they live."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase

from specgen_runtime.envs.base import D
from specgen_runtime.envs.batched.arguments import as_kwargs
from specgen_runtime.envs.batched.fast_path import BatchFastPath
from specgen_runtime.envs.batched.partial_steps import step_some
from specgen_runtime.envs.batched.pooled import PooledEnv
from specgen_runtime.envs.batched.rows import Memo, split_rows
from specgen_runtime.envs.data_checks import cast_actions, check_tensordict
from specgen_runtime.envs.done import DoneSet, pop_reset_masks
from specgen_runtime.envs.mdp import step_mdp
from specgen_runtime.envs.packing import holds, peek, put
from specgen_runtime.envs.partial_steps import step_mask
from specgen_runtime.envs.random_actions import draw_masked_actions
from specgen_runtime.envs.seeds import as_seed
from specgen_runtime.envs.spec_leaves import leaves_of

__all__ = ["BatchedEnv"]


class BatchedEnv(PooledEnv[D]):
    """Base of environments that consist of others: `SerialEnv`, `ParallelEnv`, `RayEnv`.

    The batch size is `(num_workers, *inner)`. Results are those of the single environments with the same seeds, bit
    by bit. Environments whose data have the same keys, shapes and dtypes give dense tensordicts; others give lazy
    stacks, and their specs are stacks too.

    It starts on its own when it is first used, and again when it is used after `close`. Public attributes and methods
    that it does not have are those of the environments: `env.some_attribute` is the list of their values, and
    `env.some_method(...)` the list of the results. Asking for one starts it.
    """

    # reset and step

    def reset(self, tensordict: D | None = None, *, set_state: bool | None = None, **kwargs: Any) -> D:
        """Start new episodes; see `EnvBase.reset`.

        Only environments with something to reset are asked. What a partial reset keeps and `tensordict` does not have
        is what the environment last gave.

        Args:
            tensordict: updated in place.
            set_state: passed to the environments' `reset`, if given.
            **kwargs: likewise; `list_of_kwargs`, a list of dicts, has those of each.
        """
        self._live()
        if set_state is not None:
            kwargs["set_state"] = set_state
        if tensordict is None:
            path = None if kwargs else self._fast_path()
            fresh: D = (
                self._stack(self._reset_rows(None, {}, kwargs)) if path is None else self._guarded(path.reset)
            )
            self.__dict__["_begun"] = True
            return fresh
        check_tensordict(self._env_layout, tensordict, "reset")
        masks = pop_reset_masks(tensordict, self._done_sets, self._device)
        if masks and not any(bool(mask.any()) for mask in masks.values()):
            return tensordict
        memo: Memo = {}
        asked = split_rows(tensordict, memo)
        rows = self._reset_rows(asked, masks, kwargs)
        lazy = tensordict if isinstance(tensordict, LazyStackedTensorDict) else None
        if lazy is not None and lazy.stack_dim == 0:
            for own, row in zip(lazy.tensordicts, rows, strict=True):
                own.update(self._moved(row))
        else:
            tensordict.update(self._stack(rows, memo))
        self.__dict__["_begun"] = True
        return tensordict

    def _reset_rows(
        self, rows: list[Any] | None, masks: Mapping[DoneSet, torch.Tensor], kwargs: dict[str, Any]
    ) -> list[Any]:
        """Reset the environments that the masks select, and give the rows of all."""
        each = self._reset_kwargs(kwargs)
        if rows is None:
            fresh = self._run("reset", {place: (None, each[place]) for place in range(self.num_workers)})
            result = list(fresh.values())
            self._last.take(result)
            return result
        wanted: dict[int, Any] = {}
        result = list(rows)
        for place, row in enumerate(rows):
            parts = {s: mask[place] for s, mask in masks.items()}
            if masks and not all(bool(part.all()) for part in parts.values()):
                self._fill(row, place)
            if not masks or any(bool(part.any()) for part in parts.values()):
                for s, part in parts.items():
                    row.set(s.reset, part)
                wanted[place] = (row, each[place])
        for place, row in self._run("reset", wanted).items():
            result[place] = row
        self._last.take(result)
        return result

    def _fill(self, row: Any, place: int) -> None:
        """Add to a row what its environment last gave, where the caller left it out."""
        last = self._last.row(place)
        if last is None:
            return
        own = self._descriptions[place].specs
        for name in ("full_observation_spec", "full_done_spec"):
            for leaf in leaves_of(own[name]):
                if not leaf.items and row.get(leaf.key, None) is None:
                    value = last.get(leaf.key, None)
                    if value is not None:
                        row.set(leaf.key, value)

    def _reset_kwargs(self, kwargs: dict[str, Any]) -> list[dict[str, Any]]:
        """The keyword arguments of each environment's reset."""
        several = kwargs.pop("list_of_kwargs", None)
        if several is None:
            return [kwargs] * self.num_workers
        return [{**own, **kwargs} for own in as_kwargs(self.num_workers, several, "list_of_kwargs")]

    def step(self, tensordict: D) -> D:
        """Advance by one step; see `EnvBase.step`."""
        self._live()
        check_tensordict(self._env_layout, tensordict, "step")
        cast_actions(self._env_layout, tensordict)
        path = self._fast_path_for(tensordict)
        if path is not None:
            put(tensordict, "next", self._guarded(path.step, tensordict))
        else:
            tensordict.set("next", self._next(tensordict))
            if peek(tensordict, "_step") is not None:
                del tensordict["_step"]
        return tensordict

    def _next(self, tensordict: Any) -> Any:
        """One step of all environments (or those in a `_step` mask), row by row: `"next"`."""
        if peek(tensordict, "_step") is not None:
            return step_some(self, tensordict, step_mask(self._env_layout, tensordict))
        memo: Memo = {}
        rows = split_rows(tensordict, memo)
        answers = list(self._run("step", dict(enumerate(rows))).values())
        self._last.take(answers)
        return self._stack(answers, memo)

    def step_and_maybe_reset(self, tensordict: D) -> tuple[D, D]:
        """Advance by one step, then reset the environments that are done; see `EnvBase`."""
        self._live()
        check_tensordict(self._env_layout, tensordict, "step_and_maybe_reset")
        cast_actions(self._env_layout, tensordict)
        if peek(tensordict, "_step") is not None:
            return super().step_and_maybe_reset(tensordict)
        path = self._fast_path_for(tensordict)
        root: Any
        if path is not None:
            following, root = self._guarded(path.step_and_maybe_reset, tensordict)
            put(tensordict, "next", following)
        else:
            following, root = self._next_and_root(tensordict)
            tensordict.set("next", following)
        return tensordict, root

    def _next_and_root(self, tensordict: Any) -> tuple[Any, Any]:
        """One step of all environments, row by row: `"next"`, and the root after the resets."""
        memo: Memo = {}
        rows = split_rows(tensordict, memo)
        answers = list(self._run("step_and_maybe_reset", dict(enumerate(rows))).values())
        roots = [root for _, root in answers]
        self._last.take(roots)
        return self._stack([following for following, _ in answers], memo), self._stack(roots, memo)

    @property
    def _supports_set_state(self) -> bool:  # type: ignore[override]
        return all(each.sets_state for each in self._descriptions)

    def _steps_rows(self) -> bool:
        return all(each.steps_rows for each in self._descriptions)

    # the fast path

    def _fast_path(self) -> BatchFastPath | None:
        """What steps the batch as a whole, if that can be at the moment."""
        return None

    def _fast_path_for(self, tensordict: Any) -> BatchFastPath | None:
        """The fast path, if it takes a root."""
        if type(tensordict) is not TensorDict or tensordict._td_dim_names is not None:
            return None
        if holds(tensordict, "_step"):
            return None
        path = self._fast_path()
        return path if path is not None and path.takes(tensordict) else None

    def _guarded(self, command: Callable[..., Any], *arguments: Any) -> Any:
        """Give a command to the fast path."""
        try:
            return command(*arguments)
        except BaseException:
            self._forget_after_error()
            raise

    # what EnvBase calls

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        given: TensorDictBase = tensordict
        if given.get("next", None) is not None:  # presets are `step`'s
            given = given.exclude("next")
        following: TensorDictBase = self._next(given)
        return following

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        result: TensorDictBase
        if tensordict is None:
            result = self._stack(self._reset_rows(None, {}, kwargs))
            return result
        request = tensordict.copy()
        masks = pop_reset_masks(request, self._done_sets, self._device)
        rows = self._reset_rows(split_rows(request, {}), masks, kwargs)
        fresh = []
        for place, row in enumerate(rows):
            own = self._descriptions[place].specs
            kept = [
                leaf.key
                for name in ("full_observation_spec", "full_done_spec")
                for leaf in leaves_of(own[name])
            ]
            fresh.append(row.select(*kept, strict=False))
        result = self._stack(fresh)
        return result

    def step_mdp(self, next_tensordict: D) -> D:
        """The root that follows a transition; see `EnvBase.step_mdp`."""
        if not self._ragged:
            return super().step_mdp(next_tensordict)
        # Each environment has its own keys.
        rows = []
        for row, each in zip(split_rows(next_tensordict), self._descriptions, strict=True):
            rewards, dones, actions = (
                [leaf.key for leaf in leaves_of(each.specs[name])]
                for name in ("full_reward_spec", "full_done_spec", "full_action_spec")
            )
            rows.append(
                step_mdp(row, exclude_action=False, reward_keys=rewards, done_keys=dones, action_keys=actions)
            )
        root: D = LazyStackedTensorDict.lazy_stack(rows, 0)
        return root

    # seeds

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the environments.

        The first gets `seed`; each other one gets the seed that the one before it returned for the next, or 1 more
        where that is the same (a single environment returns its own).

        Args:
            seed: the first seed; None changes nothing.
            static_seed: give all of them the same seed.

        Returns:
            The seed that a further environment would get: `seed + num_workers` if all are single environments; `seed`
            itself if `static_seed`.

        Raises:
            TypeError: the seed is not an integer.
        """
        first = as_seed(seed)
        if first is None or static_seed:
            self._every("seed", (first, static_seed))
            return first
        own = first
        for place in range(self.num_workers):
            following = self._run("seed", {place: (own, False)})[place]
            own = own + 1 if following is None or following == own else following
        return own

    def _set_seed(self, seed: int | None) -> None:
        self.set_seed(seed)

    # the rest

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """The state dict of each environment, under `worker0`, `worker1` and so on."""
        return {f"worker{i}": state for i, state in enumerate(self._every("state_dict", (args, kwargs)))}

    def load_state_dict(self, state_dict: Mapping[str, Any], **kwargs: Any) -> None:  # type: ignore[override]
        """Load what `state_dict` gave, or the state dict of one environment into all of them.

        Raises:
            KeyError: it has the state of other environments than these.
        """
        places = range(self.num_workers)
        if "worker0" not in state_dict:
            states = [state_dict] * self.num_workers
        else:
            expected = {f"worker{i}" for i in places}
            if state_dict.keys() != expected:
                raise KeyError(f"the state dict is of {sorted(state_dict)}, expected {sorted(expected)}")
            states = [state_dict[f"worker{i}"] for i in places]
        self._run("load_state_dict", {i: (states[i], kwargs) for i in places})

    def add_truncated_keys(self) -> Self:
        """Not for batches.

        Raises:
            RuntimeError: always; the environments inside declare their flags.
        """
        raise RuntimeError(
            f"{type(self).__name__} has the flags of the environments inside: call add_truncated_keys on those, in the"
            " functions that make them"
        )

    def rand_action(self, tensordict: D | None = None) -> D:
        """Write random actions, allowed ones where the environments have masks; see `EnvBase.rand_action`."""
        if self._action_masks and not self._ragged:
            root = self.reset() if tensordict is None else tensordict
            allowed: D = draw_masked_actions(self._env_layout, root, self._action_masks)
            return allowed
        if not self.share_individual_td:
            return super().rand_action(tensordict)
        if tensordict is not None:
            check_tensordict(self._env_layout, tensordict, "rand_action")
        lazy: Any = self._empty() if tensordict is None else tensordict
        if not isinstance(lazy, LazyStackedTensorDict) or lazy.stack_dim != 0:
            return super().rand_action(tensordict)
        self._update_rows(lazy, self._env_layout.action.spec.rand())
        result: D = lazy
        return result

    def fake_tensordict(self) -> D:
        """One transition of zeros, with the keys, shapes, dtypes and device of the specs."""
        if not self.share_individual_td:
            return super().fake_tensordict()
        root: Any = self._empty()
        following: Any = self._empty()
        for name in ("full_state_spec", "full_observation_spec", "full_done_spec", "full_action_spec"):
            self._update_rows(root, self._env_layout.specs[name].zero())
        for name in ("full_observation_spec", "full_reward_spec", "full_done_spec"):
            self._update_rows(following, self._env_layout.specs[name].zero())
        root.set("next", following)
        result: D = root
        return result

    def _empty(self) -> Any:
        inner = self._batch_size[1:]
        rows = [TensorDict({}, batch_size=inner, device=self._device) for _ in range(self.num_workers)]
        return LazyStackedTensorDict.lazy_stack(rows, 0)

    @staticmethod
    def _update_rows(lazy: Any, values: Any) -> None:
        for own, row in zip(lazy.tensordicts, values.unbind(0), strict=True):
            own.update(row)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move this environment's data to a device; see `EnvBase.to`."""
        result = super().to(*args, **kwargs)
        self._own_device = self._device is not None
        self._last.take()
        return result
