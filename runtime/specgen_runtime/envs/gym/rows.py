"""`GymRowSteps`: steps of a generated Gymnasium environment that are computed by NumPy, and become tensors at the end.

A few numbers cost NumPy a third of what they cost torch, one number a tenth, and what Gymnasium returns is NumPy's
already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_, itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.envs.gym.row_tensors import RowEntry, RowTensors
from specgen_runtime.envs.gym.values import reward_tensor
from specgen_runtime.envs.overrides import method_place
from specgen_runtime.envs.packing import owning_td, plain_entries
from specgen_runtime.envs.policy import check_action_values
from specgen_runtime.specs.classes.categorical import Categorical
from specgen_runtime.typing import Array

if TYPE_CHECKING:
    from specgen_runtime.envs.gym.generated import GeneratedGymEnv

__all__ = ["GymRowSteps"]

_METHOD = "_gym_row"
_REPLACED = ("_advance", "_gym_step", "_next_entries", "_read", "_root_entries")
"""What a step of `_METHOD` stands for: whoever writes one of these anew means the steps, too."""

_SIZE = torch.Size(())
_FEW = 32
"""Up to so many classes, Gymnasium's action of each is kept."""

_RAISED, _NOT_RAISED = np.True_, np.False_


class GymRowSteps:
    """Takes steps by the `_gym_row` of an environment.

    Values, by key, are what `_gym_row` takes and gives: one of NumPy's numbers for what is stored as `(1,)` and has
    no dimension of its own, such as rewards and flags, else an array.

    Args:
        env: a generated environment with one action and one observation, whose keys are flat and whose data are on
            the CPU.
    """

    def __init__(self, env: GeneratedGymEnv[Any, Any]) -> None:
        self._env, self._source, self._device = env, env._gym_source, env.device
        layout, format_ = env._env_layout, env._row_format
        assert format_ is not None
        ((self._action, spec),) = env._action_leaves
        self._spec, self._action_shape, self._action_dtype = spec, spec.shape, spec.dtype
        self._actions = _actions_of_classes(env, spec)
        self._drawn: RowTensors | None = None
        if type(spec) is Categorical and spec.shape == ():
            self._drawn = RowTensors({self._action: RowEntry((), _array_dtype(spec.dtype))})
        self._rewards: tuple[Any, ...] = layout.reward.keys
        self._own = 1 + len(layout.observation.keys) + len(layout.done.keys)
        self._shape, self._dtype = format_.shape, format_.fits
        numbers = {*env._columns, *layout.done.keys, *layout.reward.keys}
        self._forms: dict[Any, RowEntry] = {
            e.leaf.key: RowEntry(e.shape, _array_dtype(e.dtype), e.leaf.key in numbers)
            for e in layout.observation.entries + layout.done.entries + layout.reward.entries
        }
        self._new: RowTensors | None = None
        self._pick_arrays: Callable[[Sequence[Array]], tuple[Array, ...]] = tuple
        self._reward = np.zeros(1, np.float32)
        # What a step reads of its root.
        self._fits = [(e.leaf.key, e.shape, e.dtype) for e in layout.state.entries + layout.done.entries]
        self._read: list[Any] = [key for key, _, _ in self._fits]
        self._places = [0 if self._forms[key].is_number else ... for key in self._read]
        # Those of it that can have gradients.
        self._floats = [at for at, key in enumerate(self._read) if self._forms[key].dtype.kind == "f"]
        # Of the last step: the tensors that the next one reads if it goes on from there, where they are, their arrays.
        self._pick = itemgetter(*self._read)
        self._tensors: tuple[Tensor, ...] = ()
        self._addresses: list[int] = []
        self._arrays: Sequence[Array] = ()
        self._done = False

    @classmethod
    def of(cls, env: GeneratedGymEnv[Any, Any]) -> GymRowSteps | None:
        """The steps of an environment; None where its class has no `_gym_row`, or takes other steps by now."""
        places = {name: method_place(type(env), name) for name in (_METHOD, *_REPLACED)}
        if places[_METHOD] != min(places.values()) or not env.__dict__.keys().isdisjoint(places):
            return None
        if env._row_format is None or env._off_cpu or not env._flat or len(env._action_leaves) != 1:
            return None
        if len(env.done_keys) < 2 or env._closed or env._check_finite or env._rewritten:
            return None
        return cls(env)

    def draw(self, tensordict: Any) -> bool:
        """Write a random action, as the action spec draws it; False, and nothing done, if this needs the general way."""
        new, held = self._drawn, _entries_of_root(tensordict)
        if new is None or held is None or self._spec._mask is not None:
            return False
        held[self._action] = new.take()[0][self._action].random_(0, self._spec.n)
        return True

    def step(self, tensordict: Any) -> bool:
        """Take a step and write `"next"`; False, and nothing done, if this needs the general way.

        Raises:
            ValueError: the action is outside its spec, or Gymnasium gave what its space does not have.
        """
        held = _entries_of_root(tensordict)
        return held is not None and self._write_next(held) is not None

    def step_and_reset(self, tensordict: Any) -> Any:
        """`step`, and the root behind it, in which a new episode begins where that is over; None where it is False."""
        held = _entries_of_root(tensordict)
        entries = None if held is None else self._write_next(held)
        return None if held is None or entries is None else self._following(held, entries)

    def _write_next(self, held: dict[str, Any]) -> dict[str, Tensor] | None:
        """Take a step from a root of these entries, and write its `"next"`, whose entries are returned; or None."""
        action = held.get(self._action)
        if (
            type(action) is not Tensor
            or action.shape != self._action_shape
            or action.dtype is not self._action_dtype
        ):
            return None
        read = self._read_values(held)
        if read is None:
            return None
        values = self.take(read, self._given(action))
        new = self._new or self._begin_rows(values)
        entries, arrays = new.written(values)
        self._tensors, self._arrays = self._pick(entries), self._pick_arrays(arrays)
        self._addresses = list(map(Tensor.data_ptr, self._tensors))
        self._done = bool(values["done"])
        held["next"] = owning_td(entries, _SIZE, self._device)
        return entries

    def _begin_rows(self, values: Mapping[str, Any]) -> RowTensors:
        """What makes tensors of all values that `_gym_row` gives, in their order."""
        self._new = RowTensors({key: self._forms[key] for key in values})
        order = list(values)
        self._pick_arrays = itemgetter(*(order.index(key) for key in self._read))
        return self._new

    def take(self, held: Mapping[str, Any], action: Any) -> dict[str, Any]:
        """Take a step: the values of what `"next"` holds.

        Args:
            held: the values of the state and done flags before it.
            action: Gymnasium's.

        Raises:
            ValueError: Gymnasium gave what its space does not have.
        """
        env = self._env
        observation, reward, terminated, truncated, _info = self._source.env.step(action)
        alike = type(observation) is np.ndarray and observation.dtype is self._dtype
        self._reward[0] = reward if isinstance(reward, float) else reward_tensor(reward).item()
        return env._gym_row(
            held,
            observation.copy()
            if alike and observation.shape == self._shape
            else env._encode_all(observation).numpy(),
            self._reward[0],
            _RAISED if terminated else _NOT_RAISED,
            _RAISED if truncated else _NOT_RAISED,
        )

    def _read_values(self, held: Mapping[str, Any]) -> dict[str, Any] | None:
        """The values of what the step before gave; None if one is not there, or not as the specs say."""
        try:
            tensors = self._pick(held)
        except KeyError:
            return None
        arrays = self._arrays
        if not (
            # What we made ourselves fits, unless somebody has given the tensor other memory or a gradient since.
            len(self._tensors) == len(tensors)
            and all(map(is_, tensors, self._tensors))
            and list(map(Tensor.data_ptr, tensors)) == self._addresses
            and True not in [tensors[at].requires_grad for at in self._floats]
        ):
            for tensor, (_, shape, dtype) in zip(tensors, self._fits, strict=True):
                if (
                    type(tensor) is not Tensor
                    or tensor.shape != shape
                    or tensor.dtype is not dtype
                    or tensor.requires_grad
                ):
                    return None
            arrays = list(map(Tensor.numpy, tensors))
        return {key: array[place] for key, array, place in zip(self._read, arrays, self._places, strict=True)}

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

    def decode(self, action: Tensor) -> Any:
        """Gymnasium's action, of a tensor as declared.

        Raises:
            ValueError: it is not in its space.
        """
        if self._actions:
            place = action.item()
            if 0 <= place < len(self._actions):
                return self._actions[int(place)]
        if self._env._gym_inverts:
            return self._given(action)
        return self._env._decode(action)

    def _given(self, action: Tensor) -> Any:
        """Gymnasium's action, of one that is in its spec.

        Raises:
            ValueError: it is not.
        """
        if self._actions and self._spec._mask is None:
            place = action.item()
            if 0 <= place < len(self._actions):
                return self._actions[int(place)]
        env = self._env
        check_action_values(env._env_layout, env._action_leaves, (action,))
        return env._decode(env._gym_action((action,)) if env._gym_inverts else action)

    def first(self) -> dict[str, Any]:
        """Start an episode: the values of its root."""
        entries = self._env._root_entries(self._env._fresh())
        return self.values_of({key: value.numpy() for key, value in entries.items()})

    def _following(self, held: dict[str, Any], entries: dict[str, Tensor]) -> Any:
        """The root behind a step: the entries of `"next"` but the reward, or those of a new episode, over the root's.

        Args:
            held: the entries of the root, and `"next"`.
            entries: of `"next"`.
        """
        env = self._env
        if self._done:  # after the step that was just taken
            entries = env._root_entries(env._fresh())
        root = {**held, **entries}
        del root["next"]
        for key in self._rewards:
            root.pop(key, None)
        if len(root) > self._own:  # containers are not shared
            for name, value in root.items():
                root[name] = value if isinstance(value, Tensor) else value.copy()
        return owning_td(root, _SIZE, self._device)


def _entries_of_root(tensordict: Any) -> dict[str, Any] | None:
    """The entries of a root of which the general way would make nothing special; None of any other, and under a trace."""
    if torch.compiler.is_dynamo_compiling() or torch._C._functorch.maybe_current_level() is not None:
        return None
    held = plain_entries(tensordict)
    return None if held is None or "next" in held or "_step" in held else held


def _actions_of_classes(env: GeneratedGymEnv[Any, Any], spec: Any) -> list[Any]:
    """Gymnasium's action of each class, where an action is one of a few classes, as Gymnasium has it."""
    if env._gym_inverts or type(spec) is not Categorical or spec.shape != () or spec.n > _FEW:
        return []
    return [env._decode(torch.tensor(place, dtype=spec.dtype)) for place in range(spec.n)]


def _array_dtype(dtype: torch.dtype | None) -> np.dtype[Any]:
    return torch.empty((), dtype=dtype).numpy().dtype
