"""`ValueEstimatorBase`: what all value estimators share: keys, options, values from a network, what is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import torch
from tensordict import TensorDictBase
from tensordict.nn import skip_existing
from tensordict.utils import NestedKey as TensorDictKey
from tensordict.utils import expand_as_right
from torch import Tensor

from specgen_runtime.envs.keys import next_key
from specgen_runtime.envs.packing import peek
from specgen_runtime.objectives.keys import checked_updates, required
from specgen_runtime.objectives.keyword_call import packed, unpacked
from specgen_runtime.objectives.module_base import TensorDictModuleParent
from specgen_runtime.objectives.value.chunks import chunks
from specgen_runtime.objectives.value.options import EstimatorOptions, positive
from specgen_runtime.objectives.value.shifted import Slots, slots
from specgen_runtime.objectives.value.values import (
    Reading,
    network_values,
    next_record,
    shifted_values,
    state_values,
    stored_values,
)
from specgen_runtime.typing import NestedKey


def _key_of(role: str) -> property:
    """The key in use for a role, as an attribute."""

    def key(self: ValueEstimatorBase) -> NestedKey:
        found: NestedKey = getattr(self.tensor_keys, role)
        return found

    return property(key, doc=f"The key in use for `{role}`.")


class ValueEstimatorBase(TensorDictModuleParent, ABC):
    """Targets for a value network, from rewards and the values of the next states.

    Reads a batch of steps ``[*batch, time]`` with signals ``[*batch, time, 1]``; calling it writes ``advantage``,
    ``value_target`` and the values that it got from the network. Called with tensors by keyword (``next_reward``), it
    returns the advantage and the target. Time is the dimension called ``"time"``, else the last of the batch.

    Args:
        value_network: writes ``tensor_keys.value`` from an observation. Without one the values are read from the
            tensordict (``value`` and ``("next", value)``) or given as ``next_value``. It is no child of the estimator:
            its parameters are not in the estimator's state.
        differentiable: whether calling it lets gradients through to rewards and observations. The parameters of the
            network never get any from here, nor do next observations.
        shifted: call the network once on states and next states in one sequence, for recurrent networks: the next
            state of a step is taken to be the state of the following one, but behind truncations. Not for returns of
            several steps. Steps for whose next state there is no room are marked in ``"shifted_valid"``, bool
            ``[*batch, time]``; their advantage and target are 0.
        shifted_budget: by how many states that sequence is longer than time: one for its end, and one for each
            truncation within.
        skip_existing: True takes values that the data hold instead of calling the network. None does as
            `tensordict.nn.set_skip_existing` says.
        device: of the hyper-parameters.
        deactivate_vmap: call the network once for states and once for next states, instead of once for both.
        value_chunk_size: the most entries, along ``value_chunk_dim``, that the network gets at once.
        num_chunks: into how many parts its data are cut instead.
        num_chunk: another name of it.
        value_chunk_dim: which batch dimension is cut.
        group_key: integers of the leading dimensions of the advantage, such as the numbers of tasks: what is
            standardised is so in each group by itself.

    Raises:
        TypeError: if a number of chunks or slots is no integer.
        ValueError: if it is not positive, or chunks are given in two ways.
    """

    @dataclass
    class _AcceptedKeys:
        advantage: TensorDictKey = "advantage"
        value_target: TensorDictKey = "value_target"
        value: TensorDictKey = "state_value"
        reward: TensorDictKey = "reward"
        done: TensorDictKey = "done"
        terminated: TensorDictKey = "terminated"
        steps_to_next_obs: TensorDictKey = "steps_to_next_obs"
        sample_log_prob: TensorDictKey = "action_log_prob"

    default_keys = _AcceptedKeys
    advantage_key = _key_of("advantage")
    value_target_key = _key_of("value_target")
    value_key = _key_of("value")
    reward_key = _key_of("reward")
    done_key = _key_of("done")
    terminated_key = _key_of("terminated")
    steps_to_next_obs_key = _key_of("steps_to_next_obs")
    sample_log_prob_key = _key_of("sample_log_prob")

    if TYPE_CHECKING:
        __getattr__: None  # type: ignore[misc,assignment]

    time_dim: int | None = None

    def __init__(self, **options: Unpack[EstimatorOptions]) -> None:
        super().__init__()
        device = options.get("device")
        self.value_network = options.get("value_network")
        self.differentiable = options.get("differentiable", False)
        self.shifted = options.get("shifted", False)
        if not isinstance(self.shifted, bool):
            raise TypeError(f"shifted must be True or False, got {self.shifted!r}")
        self.shifted_budget = positive("shifted_budget", options.get("shifted_budget", 1))
        self.skip_existing = options.get("skip_existing")
        self.deactivate_vmap = options.get("deactivate_vmap", False)
        self.group_key = options.get("group_key")
        self._chunks = chunks(
            options.get("value_chunk_size"),
            options.get("num_chunks"),
            options.get("num_chunk"),
            options.get("value_chunk_dim", 0),
        )
        self._device = None if device is None else torch.device(device)
        self._tensor_keys = self._AcceptedKeys()
        unknown = options.keys() - EstimatorOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} got unexpected keywords {', '.join(sorted(unknown))}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("value_network", "actor_network"):
            self.__dict__[name] = value  # not a child: its parameters belong to the policy or the loss
        else:
            super().__setattr__(name, value)

    @property
    def tensor_keys(self) -> Any:
        """The keys in use, by role."""
        return self._tensor_keys

    def set_keys(self, **keys: NestedKey | None) -> None:
        """Rename keys by role; ``None`` restores the default. All or nothing.

        Raises:
            KeyError: for a role that is not accepted.
            ValueError: for a key that is not one.
        """
        updates = checked_updates(self._AcceptedKeys, keys, owner=type(self).__name__, unknown_error=KeyError)
        for name, value in updates.items():
            setattr(self._tensor_keys, name, value)

    @property
    def in_keys(self) -> list[NestedKey]:
        """What calling it reads."""
        keys = self._tensor_keys
        network = self.value_network
        inputs = [keys.value] if network is None else list(network.in_keys)
        signals = [next_key(key) for key in (keys.reward, keys.done, keys.terminated)]
        groups = [] if self.group_key is None else [self.group_key]
        return list(dict.fromkeys([*inputs, *signals, *map(next_key, inputs), *groups]))

    @property
    def out_keys(self) -> list[NestedKey]:
        """What calling it gives."""
        return [self._tensor_keys.advantage, self._tensor_keys.value_target]

    @abstractmethod
    def value_estimate(
        self,
        tensordict: TensorDictBase,
        target_params: TensorDictBase | None = None,
        next_value: Tensor | None = None,
        *,
        time_dim: int | None = None,
    ) -> Tensor:
        """The target of the value of each step of ``tensordict``, in the shape of the rewards.

        Args:
            tensordict: holds the signals under ``"next"``.
            target_params: parameters for the value network, if it computes the next value.
            next_value: the value of the next state, in the shape of the rewards; else it is read or computed.
            time_dim: the batch dimension of time.

        Raises:
            KeyError: if a signal is missing.
            RuntimeError: if the shapes of the signals differ.
        """

    if not TYPE_CHECKING:

        def __call__(self, tensordict: TensorDictBase | None = None, /, **inputs: Any) -> Any:
            """Run `forward` on a tensordict, or on tensors by keyword."""
            if tensordict is not None:
                return super().__call__(tensordict, **inputs)
            options = {
                name: inputs.pop(name) for name in ("params", "target_params", "time_dim") if name in inputs
            }
            data = packed(
                inputs,
                self.in_keys,
                owner=type(self).__name__,
                features=dict.fromkeys(self._signal_keys(), 1),
            )
            return unpacked(super().__call__(data, **options), self.out_keys)

    def forward(
        self,
        tensordict: TensorDictBase,
        *,
        params: TensorDictBase | None = None,
        target_params: TensorDictBase | None = None,
        time_dim: int | None = None,
    ) -> TensorDictBase:
        """Write the advantage, the value target and the values into ``tensordict``, and return it.

        Args:
            tensordict: a batch of steps.
            params: parameters for the value network.
            target_params: others for the next states.
            time_dim: the batch dimension of time.

        Raises:
            RuntimeError: if ``tensordict`` has no batch dimension, or is locked.
            KeyError: if an entry is missing.
        """
        self._check(tensordict)
        if tensordict.is_locked:
            raise RuntimeError(f"{type(self).__name__} writes into the tensordict, which is locked")
        time = self._time(tensordict, time_dim)
        with nullcontext() if self.differentiable else torch.no_grad():
            value, next_value, valid, steps = self._values(tensordict, params, target_params, time)
            advantage, target = self._advantage_and_target(steps, value, next_value, time, valid)
        if valid is not None:
            zero = advantage.new_zeros(())
            mask = expand_as_right(valid, advantage)
            advantage, target = torch.where(mask, advantage, zero), torch.where(mask, target, zero)
            tensordict.set("shifted_valid", valid)
        if self.value_network is not None:
            tensordict.set(self._tensor_keys.value, value)
            tensordict.set(next_key(self._tensor_keys.value), next_value)
        tensordict.set(self._tensor_keys.advantage, advantage)
        tensordict.set(self._tensor_keys.value_target, target)
        return tensordict

    def _advantage_and_target(
        self, steps: TensorDictBase, value: Tensor, next_value: Tensor, time: int, valid: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """What `forward` writes, from the values; ``valid`` says which steps count, if not all do."""
        target = self.value_estimate(steps, next_value=next_value, time_dim=time)
        return target - value, target

    def _values(
        self,
        tensordict: TensorDictBase,
        params: TensorDictBase | None,
        target_params: TensorDictBase | None,
        time: int,
    ) -> tuple[Tensor, Tensor, Tensor | None, TensorDictBase]:
        """The value, that of the next state, which steps count, and the steps, cut where the values are."""
        key, owner = self._tensor_keys.value, type(self).__name__
        places = self._slots(tensordict, time) if self.shifted and self.value_network is not None else None
        if self.value_network is None or (self._skips() and self._holds_values(tensordict)):
            value, next_value = stored_values(tensordict, key, owner=owner)
        elif places is None:
            value, next_value = state_values(tensordict, self._reading(time), params, target_params)
        elif target_params is not None:
            raise ValueError(
                f"{owner}: shifted=True calls the network once, so target_params cannot be others than params"
            )
        else:
            value, next_value = shifted_values(tensordict, self._reading(time), params, places)
        if places is None:
            return value, next_value.detach(), peek(tensordict, "shifted_valid"), tensordict
        return value, next_value.detach(), places.valid, self._cut(tensordict, places)

    def _next_value(
        self, tensordict: TensorDictBase, target_params: TensorDictBase | None, time: int
    ) -> Tensor:
        """The value of the next state alone."""
        if self.value_network is None:
            key = next_key(self._tensor_keys.value)
            return required(tensordict, key, owner=type(self).__name__, role="the value of the next state")
        record = next_record(tensordict, self.value_network)
        return network_values(record, self._reading(time), target_params).detach()

    def _reading(self, time: int) -> Reading:
        assert self.value_network is not None
        apart = self.deactivate_vmap or self._chunks.size is not None or self._chunks.count is not None
        return Reading(self.value_network, self._tensor_keys.value, self._chunks, apart, time)

    def _skips(self) -> bool:
        return bool(skip_existing() if self.skip_existing is None else self.skip_existing)

    def _holds_values(self, tensordict: TensorDictBase) -> bool:
        key = self._tensor_keys.value
        return all(peek(tensordict, one) is not None for one in (key, next_key(key)))

    def _slots(self, tensordict: TensorDictBase, time: int) -> Slots:
        done, terminated = (
            self._signal(tensordict, role).flatten(tensordict.ndim).any(-1) for role in ("done", "terminated")
        )
        return slots(done, terminated, time, self.shifted_budget)

    def _cut(self, tensordict: TensorDictBase, places: Slots) -> TensorDictBase:
        """The data with trajectories that end where the sequence has no room for more."""
        done = self._signal(tensordict, "done")
        last = expand_as_right(places.last, done)
        return tensordict.copy().set(next_key(self._tensor_keys.done), done | last)

    def _signal(self, tensordict: TensorDictBase, role: str) -> Tensor:
        key = next_key(getattr(self._tensor_keys, role))
        found = peek(tensordict, key)
        if isinstance(found, Tensor):
            return found
        why = (
            " (`done` cannot replace it: a truncated episode still has a future)"
            if role == "terminated"
            else ""
        )
        return required(tensordict, key, owner=type(self).__name__, role=f"{role}{why}")

    def _signal_keys(self) -> list[NestedKey]:
        keys = self._tensor_keys
        return [next_key(key) for key in (keys.reward, keys.done, keys.terminated)]

    def _discount(self, gamma: Tensor, tensordict: TensorDictBase, reward: Tensor) -> Tensor:
        """``gamma``, to the power of the steps that the data say lie between a state and the next one."""
        steps = peek(tensordict, self._tensor_keys.steps_to_next_obs)
        if steps is None:
            return gamma
        if steps.numel() != reward.numel():
            raise RuntimeError(
                f"{type(self).__name__}: {self._tensor_keys.steps_to_next_obs!r} has shape {tuple(steps.shape)} and "
                f"the reward {tuple(reward.shape)}: there must be one number for each reward"
            )
        powers: Tensor = gamma.to(reward) ** steps.reshape(reward.shape)
        return powers

    def _groups(self, tensordict: TensorDictBase) -> Tensor | None:
        if self.group_key is None:
            return None
        return required(tensordict, self.group_key, owner=type(self).__name__, role="the group (group_key)")

    def _time(self, tensordict: TensorDictBase, time_dim: int | None) -> int:
        """The batch dimension of time, from the front; -1 without batch dimensions."""
        dims: int = tensordict.batch_dims
        chosen = self.time_dim if time_dim is None else time_dim
        if chosen is None:
            names = list(tensordict.names)
            return names.index("time") if "time" in names else dims - 1
        if not -dims <= chosen < dims:
            raise RuntimeError(
                f"{type(self).__name__}: time_dim={chosen} is no batch dimension of data of batch size "
                f"{tuple(tensordict.batch_size)}"
            )
        return chosen % dims

    def _check(self, tensordict: TensorDictBase) -> None:
        if tensordict.batch_dims < 1:
            raise RuntimeError(f"{type(self).__name__} needs a tensordict with at least one batch dimension")
