"""`BatchSizeTransform`, `RemoveEmptySpecs`: the batch size and the nests of an environment's data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase, is_non_tensor, is_tensor_collection

from specgen_runtime.specs import Composite
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import as_tuple, normal_key, subspec
from specgen_runtime.typing import NestedKey

__all__ = ["BatchSizeTransform", "RemoveEmptySpecs"]

_OUTPUTS = ("full_observation_spec", "full_reward_spec", "full_done_spec")
_INPUTS = ("full_state_spec", "full_action_spec")


class BatchSizeTransform(Transform):
    """Gives an environment that takes any batch size a fixed one, or reshapes the batch of another.

    Args:
        batch_size: of an environment that is not batch-locked: what it returns at a reset is expanded to it.
        reshape_fn: of any environment: `reshape`, `flatten`, `unflatten`, `squeeze` or `unsqueeze` of a tensordict, a
            tensor or a spec. Exclusive with `batch_size`.
        reset_func: makes what a reset returns, from the tensordict that `reset` was given and what the environment
            returned.
        env_kwarg: whether it also takes the environment with its transforms, as `env`.

    Raises:
        ValueError: not exactly one of `batch_size` and `reshape_fn`; in an environment: `batch_size` for one that is
            batch-locked to another.
    """

    def __init__(
        self,
        *,
        batch_size: Sequence[int] | None = None,
        reshape_fn: Callable[[Any], Any] | None = None,
        reset_func: Callable[..., TensorDictBase] | None = None,
        env_kwarg: bool = False,
    ) -> None:
        super().__init__(in_keys=[])
        if (batch_size is None) == (reshape_fn is None):
            raise ValueError("BatchSizeTransform takes either batch_size or reshape_fn")
        self.batch_size = None if batch_size is None else torch.Size(batch_size)
        self.reshape_fn = reshape_fn
        self.reset_func = reset_func
        self.env_kwarg = env_kwarg

    def _reshaped(self, value: Any) -> Any:
        return value if self.reshape_fn is None else self.reshape_fn(value)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        reshaped: TensorDictBase = self._reshaped(next_tensordict)
        return reshaped

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if self.reset_func is not None:
            more = {"env": self.container} if self.env_kwarg else {}
            tensordict_reset = self.reset_func(tensordict, tensordict_reset, **more)
        if self.batch_size is not None and tensordict_reset.batch_size != self.batch_size:
            return tensordict_reset.expand(self.batch_size).clone()
        return self._call(tensordict_reset)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        env = self.parent
        if self.reshape_fn is None or env is None:
            return tensordict
        return tensordict.reshape(env.batch_size)

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        if tensordict is None and self.batch_size is not None:
            # The environment makes as many rows as it is asked for, each with a start of its own.
            env = self.parent
            return TensorDict({}, self.batch_size, device=None if env is None else env.device)
        return None if tensordict is None else self._inv_call(tensordict)

    def transform_env_batch_size(self, batch_size: torch.Size) -> torch.Size:
        """The batch size after this transform."""
        if self.batch_size is not None:
            return self.batch_size
        shape: torch.Size = self._reshaped(torch.zeros(batch_size, device="meta")).shape
        return shape

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """Give the specs the new batch size."""
        return self._batched(output_spec)

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Give the specs the new batch size."""
        return self._batched(input_spec)

    def _batched(self, specs: Composite) -> Composite:
        env = self.parent
        if self.batch_size is None:
            reshaped: Composite = self._reshaped(specs)
            return reshaped
        if env is not None and env.batch_locked and env.batch_size != self.batch_size:
            raise ValueError(
                f"BatchSizeTransform(batch_size={list(self.batch_size)}) is for environments that take any batch size;"
                f" this one is locked to {list(env.batch_size)}: give a reshape_fn"
            )
        return specs.expand(self.batch_size)


class RemoveEmptySpecs(Transform):
    """Removes nests without entries from the data and the specs; the environment is given its own again.

    Args:
        in_keys: no use; as in TorchRL.
        out_keys: no use.
        in_keys_inv: no use.
        out_keys_inv: no use.
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__(in_keys=[])

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key, value in _deepest_first(next_tensordict):
            if is_tensor_collection(value) and not is_non_tensor(value) and value.is_empty():
                del next_tensordict[key]
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict_reset)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        env = self.parent
        for name in () if env is None else _INPUTS:
            group: Composite = subspec(env.input_spec, name)  # type: ignore[union-attr]
            for key, spec in group.items(True):
                if isinstance(spec, Composite) and spec.is_empty() and tensordict.get(key, None) is None:
                    tensordict.create_nested(key)
        return tensordict

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """Remove nests without entries."""
        return _pruned(output_spec, _OUTPUTS)

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Remove nests without entries."""
        return _pruned(input_spec, _INPUTS)


def _pruned(specs: Composite, names: Sequence[str]) -> Composite:
    for name in names:
        group = subspec(specs, name)
        for key, spec in _deepest_first(group):
            if isinstance(spec, Composite) and spec.is_empty():
                del group[key]
        specs[name] = group
    return specs


def _deepest_first(nested: Any) -> list[tuple[NestedKey, Any]]:
    return sorted(
        ((normal_key(key), value) for key, value in nested.items(True)),
        key=lambda item: -len(as_tuple(item[0])),
    )
