"""`GymRowSteps`: steps of a generated Gymnasium environment that are computed by NumPy, and become tensors at the end.

A few numbers cost NumPy a third of what they cost torch, one number a tenth, and what Gymnasium returns is NumPy's
already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from specgen_runtime.envs.generated.root_entries import needed_entries
from specgen_runtime.envs.gym.row_tensors import NewRow, NewTensors, RowEntry, RowTensors
from specgen_runtime.envs.gym.values import reward_tensor
from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.envs.overrides import method_place
from specgen_runtime.envs.packing import entries_of_root, owning_td
from specgen_runtime.envs.policy import check_action_values
from specgen_runtime.specs.classes.categorical import Categorical
from specgen_runtime.typing import Array

if TYPE_CHECKING:
    from specgen_runtime.envs.gym.generated import GeneratedGymEnv

__all__ = ["GymRowSteps"]

_ROW = "_gym_row"
_STEPPED_BY = ("_advance", "_gym_step", "_next_entries", "_read", "_root_entries")
"""What a step of `_ROW` stands for: whoever writes one of these anew means the steps, too."""

_FIRST = "_gym_first_row"
_RESET_BY = ("_fresh", "_gym_firsts", "_gym_reset", "_root_entries")
"""What a reset of `_FIRST` stands for, likewise."""

_SIZE = torch.Size(())
_FEW = 32
"""Up to so many classes, Gymnasium's action of each is kept."""

_FIRST_BYTES = 2**22
"""So much memory is taken for a large entry before anybody knows how many steps there will be."""

_RAISED, _NOT_RAISED = np.True_, np.False_


def _like_torch(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """A function of NumPy's that says nothing of what overflows, or is no number.

    NumPy 2 keeps that in the context: to enter one that was made once takes a tenth of the time of `errstate`.
    """
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        return np.errstate(all="ignore")(function)
    with np.errstate(all="ignore"):
        return partial(copy_context().run, function)


class GymRowSteps:
    """Takes steps by the `_gym_row` of an environment.

    Values, by key, are what `_gym_row` takes and gives: one of NumPy's numbers for what is stored as `(1,)` and has
    no dimension of its own, such as rewards and flags, else an array.

    Args:
        env: a generated environment with one observation; all its keys but those of actions are flat, and its data on
            the CPU.
    """

    def __init__(self, env: GeneratedGymEnv[Any, Any]) -> None:
        self._env, self._source, self._device = env, env._gym_source, env.device
        layout, format_ = env._env_layout, env._row_format
        assert format_ is not None
        self._actions = [
            (as_tuple(key)[:-1], as_tuple(key)[-1], leaf.shape, leaf.dtype)
            for key, leaf in env._action_leaves
        ]
        (*nests, self._action), spec = as_tuple(env._action_leaves[0][0]), env._action_leaves[0][1]
        self._spec = spec
        single = len(self._actions) == 1 and not nests
        self._classes = _actions_of_classes(env, spec) if single else {}
        self._drawn: NewTensors | None = None
        if single and type(spec) is Categorical and spec.shape == () and not env._action_masks:
            self._drawn = NewTensors(RowEntry((), _array_dtype(spec.dtype)))
        self._rewards: tuple[Any, ...] = layout.reward.keys
        # A root of no more entries has nothing but tensors.
        self._own = 1 + len(layout.observation.keys) + len(layout.done.keys) if single else 0
        self._shape, self._dtype = format_.shape, format_.fits
        numbers = {*env._columns, *layout.done.keys, *layout.reward.keys}
        self._forms: dict[Any, RowEntry] = {
            e.leaf.key: RowEntry(e.shape, _array_dtype(e.dtype), e.leaf.key in numbers)
            for e in layout.observation.entries + layout.done.entries + layout.reward.entries
        }
        self._begins = _stands_for(env, _FIRST, _RESET_BY)
        self._row, self._first = _like_torch(env._gym_row), _like_torch(env._gym_first_row)
        self._reward = np.zeros(1, np.float32)
        self._new_steps: RowTensors | None = None
        self._new_roots: RowTensors | None = None
        # What a root has to hold, and what a step reads of it.
        self._fits: dict[Any, Any] = {e.leaf.key: (e.shape, e.dtype) for e in needed_entries(env)}
        self._read = env._gym_row_reads
        self._unread: list[Any] = [key for key in self._fits if key not in self._read]
        # Of the last step or reset.
        self._last: NewRow | None = None
        self._done = False

    @classmethod
    def of(cls, env: GeneratedGymEnv[Any, Any]) -> GymRowSteps | None:
        """The steps of an environment; None where its class has no `_gym_row`, or takes other steps by now."""
        if not _stands_for(env, _ROW, _STEPPED_BY):
            return None
        keys = env.observation_keys + env.done_keys + env.reward_keys
        flat = all(isinstance(key, str) for key in keys) and bool(env._action_leaves)
        if env._row_format is None or env._off_cpu or not flat:
            return None
        if len(env.done_keys) < 2 or env._closed or env._check_finite or env._rewritten:
            return None
        return cls(env)

    def draw(self, tensordict: Any) -> bool:
        """Write a random action, as the action spec draws it; False, and nothing done, if this needs the general way."""
        new, held = self._drawn, entries_of_root(tensordict)
        if new is None or held is None or self._spec._mask is not None:
            return False
        held[self._action] = new.take().random_(0, self._spec.n)
        return True

    def step(self, tensordict: Any) -> bool:
        """Take a step and write `"next"`; False, and nothing done, if this needs the general way.

        Raises:
            ValueError: the action is outside its spec, or Gymnasium gave what its space does not have.
        """
        held = entries_of_root(tensordict)
        return held is not None and self._write_next(held) is not None

    def step_and_reset(self, tensordict: Any) -> Any:
        """`step`, and the root behind it, in which a new episode begins where that is over; None where it is False."""
        held = entries_of_root(tensordict)
        entries = None if held is None else self._write_next(held)
        return None if held is None or entries is None else self._following(held, entries)

    def _write_next(self, held: dict[str, Any]) -> dict[str, Tensor] | None:
        """Take a step from a root of these entries, and write its `"next"`, whose entries are returned; or None."""
        actions = self._actions_of(held)
        read = None if actions is None else self._read_values(held)
        if actions is None or read is None:
            return None
        values = self.take(read, self._given(actions))
        new = self._new_steps = self._new_steps or self._made_for(values)
        row = self._last = new.written(values)
        self._done = bool(values["done"])
        held["next"] = owning_td(row[0], _SIZE, self._device)
        return row[0]

    def _actions_of(self, held: dict[str, Any]) -> tuple[Tensor, ...] | None:
        """The actions in a root, in their order; None if one is not there, or not as its spec says."""
        found = []
        for nests, name, shape, dtype in self._actions:
            entries = held
            for nest in nests:
                inner: Any = entries.get(nest)
                if type(inner) is not TensorDict:
                    return None
                entries = inner._tensordict
            action = entries.get(name)
            if type(action) is not Tensor or action.shape != shape or action.dtype is not dtype:
                return None
            found.append(action)
        return tuple(found)

    def _made_for(self, values: Mapping[str, Any]) -> RowTensors:
        """What makes the tensors of such values, in their order."""
        return RowTensors({key: self._forms[key] for key in values}, self._read)

    def take(self, held: Sequence[Any], action: Any) -> dict[str, Any]:
        """Take a step: the values of what `"next"` holds.

        Args:
            held: the values of what it reads of the root.
            action: Gymnasium's.

        Raises:
            ValueError: Gymnasium gave what its space does not have.
        """
        observation, reward, terminated, truncated, _info = self._source.step(action)
        self._reward[0] = reward if isinstance(reward, float) else reward_tensor(reward).item()
        return self._row(
            held,
            self._observed(observation),
            self._reward[0],
            _RAISED if terminated else _NOT_RAISED,
            _RAISED if truncated else _NOT_RAISED,
        )

    def _observed(self, observation: Any) -> Array:
        """What Gymnasium gave, as its spec says."""
        alike = type(observation) is np.ndarray and observation.dtype is self._dtype
        array: Array = (
            observation
            if alike and observation.shape == self._shape
            else self._env._encode_all(observation).numpy()
        )
        return array

    def _read_values(self, held: dict[str, Any]) -> list[Any] | None:
        """The values that a step reads of a root; None if one is not there, or the root is not as the specs say."""
        if self._last is not None:
            entries, _, reads, at = self._last
            values = []
            for key, column, first, apart in reads:
                tensor = entries[key]
                # What we made ourselves fits, unless somebody has given it other memory or a gradient since.
                if (
                    held.get(key) is not tensor
                    or tensor.data_ptr() != first + at * apart
                    or tensor.requires_grad
                ):
                    break
                values.append(column[at])
            else:
                for key in self._unread:
                    if held.get(key) is not entries[key]:
                        break
                else:
                    return values
        for name, (shape, dtype) in self._fits.items():
            found = held.get(name)
            if (
                type(found) is not Tensor
                or found.shape != shape
                or found.dtype is not dtype
                or found.requires_grad
            ):
                return None
        return list(self.values_of({key: held[key].numpy() for key in self._read}).values())

    def values_of(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        """The values that some arrays hold."""
        return {key: array[0] if self._forms[key].is_number else array for key, array in arrays.items()}

    def tensor(self, key: str, value: Any) -> Tensor:
        """The tensor of a value."""
        form = self._forms[key]
        return torch.from_numpy(np.array((value,), form.dtype) if form.is_number else value)

    def column(self, key: str, values: Sequence[Any]) -> Array:
        """The values that an entry had at several steps as an array `(steps, *shape)`."""
        form = self._forms[key]
        few = form.is_number or not form.shape
        joined = np.array(values, form.dtype) if few else np.concatenate(values)
        return joined.reshape(len(values), *form.shape)

    def is_large(self, key: str) -> bool:
        """Whether the values of an entry are copied at each step of a rollout, not joined at its end."""
        return self._forms[key].is_large

    def room(self, key: str, steps: int | None) -> Array:
        """Memory for the values of a large entry at so many steps; at some if nobody knows how many there will be."""
        form = self._forms[key]
        return np.empty((steps or max(1, _FIRST_BYTES // form.nbytes), *form.shape), form.dtype)

    @staticmethod
    def resized(room: Array, steps: int) -> Array:
        """The same values with memory for more or fewer of them."""
        if len(room) == steps:
            return room
        other = np.empty((steps, *room.shape[1:]), room.dtype)
        kept = min(steps, len(room))
        other[:kept] = room[:kept]
        return other

    def decode(self, actions: tuple[Tensor, ...]) -> Any:
        """Gymnasium's action, of tensors as declared.

        Raises:
            ValueError: it is not in its space.
        """
        if self._classes:
            found = self._classes.get(actions[0].item())
            if found is not None:
                return found
        if self._env._gym_inverts:
            return self._given(actions)
        return self._env._decode(*actions)

    def _given(self, actions: tuple[Tensor, ...]) -> Any:
        """Gymnasium's action, of those that are in their specs.

        Raises:
            ValueError: one is not.
        """
        if self._classes and self._spec._mask is None:
            found = self._classes.get(actions[0].item())
            if found is not None:
                return found
        env = self._env
        check_action_values(env._env_layout, env._action_leaves, actions)
        given = env._gym_action(actions) if env._gym_inverts else actions
        return env._decode(*given) if isinstance(given, tuple) else env._decode(given)

    def first(self) -> dict[str, Any]:
        """Start an episode: the values of its root."""
        env = self._env
        if self._begins:
            observation, _info = self._source.reset({})
            return self._first(self._observed(observation))
        return self.values_of({key: value.numpy() for key, value in env._root_entries(env._fresh()).items()})

    def _following(self, held: dict[str, Any], entries: dict[str, Tensor]) -> Any:
        """The root behind a step: the entries of `"next"` but the reward, or those of a new episode, over the root's.

        Args:
            held: the entries of the root, and `"next"`.
            entries: of `"next"`.
        """
        if self._done:  # after the step that was just taken
            values = self.first()
            new = self._new_roots = self._new_roots or self._made_for(values)
            self._last = new.written(values)
            entries = self._last[0]
        root = {**held, **entries}
        del root["next"]
        for key in self._rewards:
            root.pop(key, None)
        if len(root) > self._own:  # containers are not shared
            for name, value in root.items():
                root[name] = value if isinstance(value, Tensor) else value.copy()
        return owning_td(root, _SIZE, self._device)


def _stands_for(env: GeneratedGymEnv[Any, Any], method: str, others: tuple[str, ...]) -> bool:
    """Whether a method does what others do: nobody has written one of them anew since it was, or set one on the object."""
    places = {name: method_place(type(env), name) for name in (method, *others)}
    return places[method] == min(places.values()) and env.__dict__.keys().isdisjoint(places)


def _actions_of_classes(env: GeneratedGymEnv[Any, Any], spec: Any) -> dict[Any, Any]:
    """Gymnasium's action of each class, where an action is one of a few classes, as Gymnasium has it."""
    if env._gym_inverts or type(spec) is not Categorical or spec.shape != () or spec.n > _FEW:
        return {}
    return {place: env._decode(torch.tensor(place, dtype=spec.dtype)) for place in range(spec.n)}


def _array_dtype(dtype: torch.dtype | None) -> np.dtype[Any]:
    return torch.empty((), dtype=dtype).numpy().dtype
