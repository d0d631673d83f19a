"""`BatchedEnv`: several environments as one, wherever they live."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase

from specgen_runtime.envs.base import D, EnvBase
from specgen_runtime.envs.batched import row_steps
from specgen_runtime.envs.batched.arguments import EnvFunction, as_functions, as_kwargs, refuse_deprecated
from specgen_runtime.envs.batched.attributes import attribute_of_all, refuse_params
from specgen_runtime.envs.batched.description import Description, common_device, differ, joined
from specgen_runtime.envs.batched.fast_path import BatchFastPath
from specgen_runtime.envs.batched.pool import Pool
from specgen_runtime.envs.batched.rows import LastOutputs, Memo, moved, split_rows, stack_rows
from specgen_runtime.envs.data_checks import cast_actions, check_tensordict
from specgen_runtime.envs.done import pop_reset_masks
from specgen_runtime.envs.packing import holds, peek, put, update_with
from specgen_runtime.envs.random_actions import draw_masked_actions
from specgen_runtime.envs.seeds import as_seed
from specgen_runtime.envs.stepping import written_by_policy
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["BatchedEnv"]


class BatchedEnv(EnvBase[D]):
    """Base of environments that consist of others: `SerialEnv`, `ParallelEnv`, `RayEnv`.

    The batch size is `(num_workers, *inner)`. Results are those of the single environments with the same seeds, bit
    by bit. Environments whose data have the same keys, shapes and dtypes give dense tensordicts; others give lazy
    stacks, and their specs are stacks too.

    It starts on its own when it is first used, and again when it is used after `close`. Public attributes and methods that
    it does not have are lists of those of the environments, `env.some_attribute` and `env.some_method(...)`, and start it.
    """

    _shutdown_timeout: float = 10.0
    """How many seconds environments have to close."""

    def __init__(
        self,
        num_workers: int,
        create_env_fn: EnvFunction[D] | Sequence[EnvFunction[D]],
        *,
        create_env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
        pin_memory: bool,
        share_individual_td: bool | None,
        policy_proof: Callable[..., Any] | None,
        device: DEVICE_TYPING | None,
        allow_step_when_done: bool,
        non_blocking: bool,
    ) -> None:
        functions = as_functions(num_workers, create_env_fn)
        refuse_deprecated(pin_memory, allow_step_when_done, policy_proof)
        super().__init__(device=device)
        self.num_workers = num_workers
        self.create_env_fn = list(functions)
        self.create_env_kwargs = as_kwargs(num_workers, create_env_kwargs)
        self.share_individual_td = share_individual_td
        self.non_blocking = bool(non_blocking)
        self._wanted_lazy = share_individual_td
        self._own_device = device is not None
        self._pool: Pool | None = None
        self._stale = False
        self._last = LastOutputs()

    # what a subclass writes

    @abstractmethod
    def _open(self) -> Pool:
        """Make the environments."""

    def _take_specs(self, descriptions: Sequence[Description]) -> None:
        """Take on the specs of the environments, all of which are given.

        Raises:
            ValueError: they can't be one batch.
        """
        whole = joined(descriptions, self._device if self._own_device else common_device(descriptions))
        self._ragged = differ(descriptions, stacked=self._wanted_lazy is False)
        self._descriptions = tuple(descriptions)
        self._device, self._batch_size = whole.device, whole.batch_size
        self._groups = {}
        self._known_layout = None
        for name, spec in whole.specs.items():
            self._set_group(name, spec)
        if not self._done_sets:
            raise ValueError(
                "the environments' done flags have no key in common: a batch of them would never end"
            )
        self.share_individual_td = self._ragged or bool(self._wanted_lazy)
        self._allow_done_after_reset, self._resets_itself = whole.allow_done_after_reset, whole.resets_itself
        self._action_masks, self._acts_in_resets = whole.action_masks, whole.acts_in_resets

    # starting and closing

    @property
    def is_closed(self) -> bool:
        """Whether the environments are not there: before the first use, and after `close`."""
        return self._pool is None

    @is_closed.setter
    def is_closed(self, value: bool) -> None:
        raise RuntimeError("is_closed follows from start() and close()")

    def start(self) -> None:
        """Make the environments; otherwise the first use does.

        Raises:
            RuntimeError: they are there already.
        """
        if self._pool is not None:
            raise RuntimeError(f"{type(self).__name__} has started already")
        self._live()

    def _live(self) -> Pool:
        if self._pool is None:
            self._pool = self._open()
            self._last.take()
        return self._pool

    def _refuse_if_closed(self) -> None:
        self._live()

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environments. The next use makes new ones.

        Raises:
            RuntimeError: there are none, and `raise_if_closed`.
        """
        pool = self._pool
        self._forget_pool()
        if pool is not None:
            pool.close(self._shutdown_timeout)
        elif raise_if_closed:
            raise RuntimeError(f"{type(self).__name__} is closed already, or was never used")

    def _forget_pool(self) -> None:
        """The environments are gone."""
        self._pool = None
        self.__dict__["_begun"] = False
        self._last.take()

    def update_kwargs(self, kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Change the keyword arguments with which environments are made, from the next start on.

        Args:
            kwargs: what to add or replace, for all environments or for each.

        Raises:
            TypeError: neither a mapping nor a sequence of mappings.
            RuntimeError: there are more or fewer mappings than environments.
        """
        changes = as_kwargs(self.num_workers, kwargs, "kwargs")
        for own, new in zip(self.create_env_kwargs, changes, strict=True):
            own.update(new)
        self._stale = True

    # rows and batches

    def _run(self, command: str, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Give a command to some environments; if the pool closed over it, so has this."""
        return self._guarded(self._live().run, command, arguments)  # type: ignore[no-any-return]

    def _guarded(self, command: Callable[..., Any], *arguments: Any) -> Any:
        """Call what speaks to the environments; after an error, forget what they gave, and a pool that is gone."""
        try:
            return command(*arguments)
        except BaseException:
            self._last.take()
            if self._pool is not None and self._pool.closed:
                self._forget_pool()
            raise

    def _every(self, command: str, argument: Any = None) -> list[Any]:
        """Give the same command to all environments."""
        return list(self._run(command, dict.fromkeys(range(self.num_workers), argument)).values())

    def _stack(self, rows: Sequence[Any], memo: Memo | None = None) -> Any:
        """The batch of what the environments answered, on this environment's device."""
        if self.share_individual_td or (self._own_device and len({row.device for row in rows}) > 1):
            rows = [self._moved(row) for row in rows]
        if self.share_individual_td:
            return LazyStackedTensorDict.lazy_stack(list(rows), 0)
        return self._moved(stack_rows(rows, memo))

    def _moved(self, tensordict: Any) -> Any:
        return moved(tensordict, self._device, non_blocking=self.non_blocking)

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
            if path is None:
                root: Any = self._stack(row_steps.reset_rows(self, None, {}, kwargs))
            else:
                root = self._guarded(path.reset)
            self.__dict__["_begun"] = True
            return root  # type: ignore[no-any-return]
        check_tensordict(self._env_layout, tensordict, "reset")
        masks = pop_reset_masks(tensordict, self._done_sets, self._device)
        if masks and not any(bool(mask.any()) for mask in masks.values()):
            return tensordict
        memo: Memo = {}
        rows = split_rows(tensordict, memo)  # as long as they are here, the memo knows them
        stack = self._stack(row_steps.reset_rows(self, rows, masks, kwargs), memo)
        updated: D = update_with(tensordict, stack)
        self.__dict__["_begun"] = True
        return updated

    def step(self, tensordict: D) -> D:
        """Advance by one step; see `EnvBase.step`."""
        path = self._checked_path(tensordict, "step")
        if path is not None:
            put(tensordict, "next", self._guarded(path.step, tensordict))
        else:
            tensordict.set("next", row_steps.step_rows(self, tensordict))
            if peek(tensordict, "_step") is not None:
                del tensordict["_step"]
        return tensordict

    def step_and_maybe_reset(self, tensordict: D) -> tuple[D, D]:
        """Advance by one step, then reset the environments that are done; see `EnvBase`."""
        path = self._checked_path(tensordict, "step_and_maybe_reset")
        if peek(tensordict, "_step") is not None:
            return super().step_and_maybe_reset(tensordict)
        root: Any
        if path is not None:
            following, root = self._guarded(path.step_and_maybe_reset, tensordict)
            put(tensordict, "next", following)
        else:
            following, root = row_steps.step_and_reset_rows(self, tensordict)
            tensordict.set("next", following)
        return tensordict, root

    @property
    def _supports_set_state(self) -> bool:  # type: ignore[override]
        return all(each.sets_state for each in self._descriptions)

    def _steps_rows(self) -> bool:
        return all(each.steps_rows for each in self._descriptions)

    # the fast path

    def _fast_path(self) -> BatchFastPath | None:
        """What steps the batch as a whole, if that can be at the moment."""
        return None

    def _checked_path(self, tensordict: Any, method: str) -> BatchFastPath | None:
        """Check a root for a step; the fast path, if it takes it."""
        self._live()
        check_tensordict(self._env_layout, tensordict, method)
        cast_actions(self._env_layout, tensordict)
        plain = type(tensordict) is TensorDict and tensordict._td_dim_names is None
        path = self._fast_path() if plain and not holds(tensordict, "_step") else None
        return path if path is not None and path.takes(tensordict) else None

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if tensordict.get("next", None) is not None and written_by_policy(self, tensordict) is None:
            tensordict = tensordict.exclude("next")  # the result of an earlier step
        following: TensorDictBase = row_steps.step_rows(self, tensordict)
        return following

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        if tensordict is None:
            fresh = row_steps.reset_rows(self, None, {}, kwargs)
        else:
            request = tensordict.copy()
            masks = pop_reset_masks(request, self._done_sets, self._device)
            fresh = row_steps.observed_rows(
                self, row_steps.reset_rows(self, split_rows(request, {}), masks, kwargs)
            )
        result: TensorDictBase = self._stack(fresh)
        return result

    def step_mdp(self, next_tensordict: D) -> D:
        """The root that follows a transition; see `EnvBase.step_mdp`."""
        root: D = (
            row_steps.lazy_step_mdp(self, next_tensordict)
            if self._ragged
            else super().step_mdp(next_tensordict)
        )
        return root

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

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """The state dict of each environment, under `worker0`, `worker1` and so on."""
        return {f"worker{i}": state for i, state in enumerate(self._every("state_dict", (args, kwargs)))}

    def load_state_dict(self, state_dict: Mapping[str, Any], **kwargs: Any) -> None:  # type: ignore[override]
        """Load what `state_dict` gave, or the state dict of one environment into all of them.

        Raises:
            KeyError: it has the state of other environments than these.
        """
        expected = [f"worker{i}" for i in range(self.num_workers)]
        if "worker0" not in state_dict:
            state_dict = dict.fromkeys(expected, state_dict)
        elif state_dict.keys() != set(expected):
            raise KeyError(f"the state dict is of {sorted(state_dict)}, expected {sorted(expected)}")
        self._run("load_state_dict", {i: (state_dict[name], kwargs) for i, name in enumerate(expected)})

    def add_truncated_keys(self) -> Self:
        """Not for batches: raises RuntimeError, as the environments inside declare their flags."""
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
        if tensordict is not None:
            check_tensordict(self._env_layout, tensordict, "rand_action")
        lazy: Any = tensordict
        if lazy is None and self.share_individual_td:
            lazy = row_steps.empty_rows(self)
        if not self.share_individual_td or not isinstance(lazy, LazyStackedTensorDict) or lazy.stack_dim != 0:
            return super().rand_action(lazy)
        row_steps.update_rows(lazy, self._env_layout.action.spec.rand())
        return lazy  # type: ignore[no-any-return]

    def fake_tensordict(self) -> D:
        """One transition of zeros, with the keys, shapes, dtypes and device of the specs."""
        lazy: Any = row_steps.lazy_zero_transition(self) if self.share_individual_td else None
        return super().fake_tensordict() if lazy is None else lazy  # type: ignore[no-any-return]

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move this environment's data to a device; see `EnvBase.to`."""
        result = super().to(*args, **kwargs)
        self._own_device = self._device is not None
        self._last.take()
        return result

    def __setattr__(self, name: str, value: Any) -> None:
        refuse_params(name, type(self).__name__)
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:  # type: ignore[override]  # of nn.Module, which has one, too
        if name.startswith("_") or hasattr(type(self), name) or "_descriptions" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return attribute_of_all(self._live(), name, type(self).__name__)

    def __getstate__(self) -> dict[str, Any]:
        # The environments stay: a copy makes its own.
        return {**self.__dict__, "_pool": None, "_last": LastOutputs()}

    def __repr__(self) -> str:
        names = dict.fromkeys(each.name for each in self._descriptions)
        return f"{type(self).__name__}({', '.join(names)}, batch_size={list(self.batch_size)}, device={self.device})"
