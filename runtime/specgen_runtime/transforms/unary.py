"""`UnaryTransform`: any function of one entry; `Hash`: fingerprints of entries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import torch
from tensordict import NonTensorStack, TensorDict, TensorDictBase, is_non_tensor
from torch import Tensor

from specgen_runtime.envs.keys import show_key
from specgen_runtime.specs import Composite, TensorSpec, make_composite_from_td
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import leaf_keys
from specgen_runtime.transforms.spec_changes import like_value
from specgen_runtime.typing import NestedKey

__all__ = ["Hash", "UnaryTransform", "nested_list"]


class UnaryTransform(Transform):
    """Applies a function to each of some entries: at reset, at step, offline, and another one to actions.

    What it gives for zeros decides the spec of an output, without bounds. Of an action the policy sees what `fn` gives for
    the environment's, if `inv_fn` gives one of the environment's for that; else an entry like the environment's.

    Args:
        in_keys: the entries that `fn` reads.
        out_keys: the entries that it writes.
        in_keys_inv: the entries that the environment is given.
        out_keys_inv: the entries of the policy that `inv_fn` reads.
        fn: takes a tensor, or, for data that are none, what they are: a list where there is a batch.
        inv_fn: the function for what the policy wrote. None: `fn`.
        use_raw_nontensor: hand over `NonTensorData` as it is.

    Raises:
        ValueError: in an environment: `inv_fn` gives nothing that the environment takes.
    """

    enable_inv_on_reset = True

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None,
        out_keys: Sequence[NestedKey] | None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        *,
        fn: Callable[[Any], Any],
        inv_fn: Callable[[Any], Any] | None = None,
        use_raw_nontensor: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self._fn = fn
        self._inv_fn = fn if inv_fn is None else inv_fn
        self.use_raw_nontensor = use_raw_nontensor

    def _apply_transform(self, obs: Any) -> Any:
        return _storable(self._fn(self._unwrapped(obs)))

    def _inv_apply_transform(self, state: Any) -> Any:
        return _storable(self._inv_fn(self._unwrapped(state)))

    def _unwrapped(self, value: Any) -> Any:
        return value.tolist() if is_non_tensor(value) and not self.use_raw_nontensor else value

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._map(tensordict_reset, tolerant=True)  # rewards are missing

    # ----------------------------------------------------------------- specs

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add what `fn` makes of observations."""
        return self._with_outputs(observation_spec)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Add what `fn` makes of rewards."""
        return self._with_outputs(reward_spec)

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Add what `fn` makes of done flags."""
        return self._with_outputs(done_spec)

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """Replace actions by what the policy gives."""
        return self._with_inputs(action_spec)

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """Replace states by what the user gives."""
        return self._with_inputs(state_spec)

    def _with_outputs(self, specs: Composite) -> Composite:
        present = leaf_keys(specs)
        for in_key, out_key in self._pairs():
            if in_key in present:
                made = self._made(self._apply_transform, specs[in_key], specs)
                if _is_plain(made):
                    specs[out_key] = like_value(made)
                else:
                    specs[out_key] = _spec_of(made, specs)
        return specs

    def _with_inputs(self, specs: Composite) -> Composite:
        present = leaf_keys(specs)
        for in_key, out_key in self._pairs_inv():
            if in_key not in present:
                continue
            inner = specs[in_key]
            outer = next(
                (each for each in self._candidates(inner, specs) if self._fits(each, inner, specs)), None
            )
            if outer is None:
                raise ValueError(
                    f"{type(self).__name__}: neither for what fn makes of {show_key(in_key)} nor for such an entry itself"
                    f" does inv_fn give what the environment takes, {inner}"
                )
            if out_key != in_key:
                del specs[in_key]
            specs[out_key] = outer
        return specs

    def _candidates(self, inner: TensorSpec, specs: Composite) -> list[TensorSpec]:
        found: list[TensorSpec] = []
        try:
            made = self._made(self._apply_transform, inner, specs)
            found.append(like_value(made) if _is_plain(made) else _spec_of(made, specs))
        except Exception:  # `fn` may be a function of other entries
            pass
        return [*found, inner.clone()]

    def _fits(self, outer: TensorSpec, inner: TensorSpec, specs: Composite) -> bool:
        try:
            back = self._made(self._inv_apply_transform, outer, specs)
        except Exception:
            return False
        like = inner.zero()
        if isinstance(like, Tensor) and isinstance(back, Tensor):
            return back.shape == like.shape and back.dtype == like.dtype
        return not isinstance(like, Tensor) and not isinstance(back, Tensor)

    def _made(self, function: Callable[[Any], Any], spec: TensorSpec, specs: Composite) -> Any:
        """What a function gives for the zeros of a spec, which is one of `specs`."""
        with torch.random.fork_rng(devices=[]):
            return function(spec.zero())


class Hash(UnaryTransform):
    """Writes a fingerprint of each of some entries, and looks up what an action is the fingerprint of.

    Args:
        in_keys: the entries that are read: text, other data, or tensors, whose batch dimensions get a fingerprint each.
        out_keys: the entries that are written, `uint8[*batch, 32]`.
        in_keys_inv: the entries that the environment is given: what was fingerprinted.
        out_keys_inv: the policy's fingerprints.
        hash_fn: from a value, and the seed if one is given, to a tensor. None: `reproducible_hash`.
        seed: handed to `hash_fn`.
        use_raw_nontensor: hand over `NonTensorData` as it is.
        repertoire: what fingerprints, as tuples, stand for; grows with each value. It is not copied. None: a new one
            where there are inverse keys.
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None,
        out_keys: Sequence[NestedKey] | None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        *,
        hash_fn: Callable[..., Tensor] | None = None,
        seed: Any = None,
        use_raw_nontensor: bool = False,
        repertoire: MutableMapping[Any, Any] | None = None,
    ) -> None:
        super().__init__(
            in_keys,
            out_keys,
            in_keys_inv,
            out_keys_inv,
            fn=self.call_hash_fn,
            inv_fn=self.get_input_from_hash,
            use_raw_nontensor=use_raw_nontensor,
        )
        self.hash_fn = self.reproducible_hash if hash_fn is None else hash_fn
        self.seed = seed
        self.repertoire = {} if repertoire is None and self.in_keys_inv else repertoire
        self._batch_dims = 0

    def _map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        self._batch_dims = tensordict.batch_dims
        return super()._map(tensordict, tolerant)

    def _inverse_map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        self._batch_dims = tensordict.batch_dims
        return super()._inverse_map(tensordict, tolerant)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._batch_dims = tensordict.batch_dims
        return super()._offline(tensordict)

    def _fits(self, outer: TensorSpec, inner: TensorSpec, specs: Composite) -> bool:
        return True  # a fingerprint stands for the value that it was made of

    def _made(self, function: Callable[[Any], Any], spec: TensorSpec, specs: Composite) -> Any:
        self._batch_dims = specs.ndim
        kept = None if self.repertoire is None else dict(self.repertoire)
        try:
            return super()._made(function, spec, specs)
        finally:
            if self.repertoire is not None and kept is not None:
                self.repertoire.clear()
                self.repertoire.update(kept)

    def call_hash_fn(self, value: Any) -> Tensor:
        """The fingerprint of a value; of each row of a batch one.

        Raises:
            TypeError: `hash_fn` returns no tensor.
        """
        rows: Any = value if self._batch_dims and isinstance(value, (Tensor, list)) else None
        if rows is not None:
            return self._in_batch(rows, self._batch_dims)
        return self._one(value)

    def _in_batch(self, value: Any, dims: int) -> Tensor:
        if dims == 0:
            return self._one(value)
        return torch.stack([self._in_batch(row, dims - 1) for row in value])

    def _one(self, value: Any) -> Tensor:
        made: Any = self.hash_fn(value) if self.seed is None else self.hash_fn(value, self.seed)
        if not isinstance(made, Tensor):
            raise TypeError(f"hash_fn returns a tensor, got {type(made).__name__}")
        if self.repertoire is not None:
            self.repertoire[self.hash_to_repertoire_key(made)] = (
                value.clone() if isinstance(value, Tensor) else value
            )
        return made

    def get_input_from_hash(self, hash_tensor: Tensor) -> Any:
        """What a fingerprint stands for; of a batch, what each of them does.

        Raises:
            RuntimeError: nothing is remembered.
            KeyError: no value of this fingerprint was seen.
        """
        if self.repertoire is None:
            raise RuntimeError("this Hash remembers nothing: give inverse keys, or a repertoire")
        if self._batch_dims and hash_tensor.ndim > 1:
            found = [self._looked_up(each) for each in hash_tensor.flatten(0, self._batch_dims - 1)]
            if all(isinstance(each, Tensor) for each in found):
                return torch.stack(found).reshape(*hash_tensor.shape[: self._batch_dims], *found[0].shape)
            return nested_list(found, list(hash_tensor.shape[: self._batch_dims]))
        return self._looked_up(hash_tensor)

    def _looked_up(self, hash_tensor: Tensor) -> Any:
        key = self.hash_to_repertoire_key(hash_tensor)
        if self.repertoire is None or key not in self.repertoire:
            raise KeyError(f"no value of the fingerprint {bytes(hash_tensor.tolist()).hex()} was seen")
        return self.repertoire[key]

    @staticmethod
    def hash_to_repertoire_key(hash_tensor: Any) -> Any:
        """A fingerprint as nested tuples of numbers."""
        values = hash_tensor.tolist() if isinstance(hash_tensor, Tensor) else hash_tensor
        if isinstance(values, list):
            return tuple(Hash.hash_to_repertoire_key(each) for each in values)
        return values

    @staticmethod
    def reproducible_hash(string: Any, seed: Any = None) -> Tensor:
        """The SHA-256 of the text of a value, `uint8[32]`; of all numbers of a tensor, with their dtype and shape.

        Args:
            string: the value; None is the empty text.
            seed: its text is put in front.
        """
        if isinstance(string, Tensor):
            plain = string.detach().cpu().contiguous()
            told = (
                f"{plain.dtype}{list(plain.shape)}".encode()
                + plain.reshape(-1).view(torch.uint8).numpy().tobytes()
            )
        else:
            told = ("" if string is None else str(string)).encode("utf-8")
        digest = hashlib.sha256(("" if seed is None else str(seed)).encode("utf-8") + told).digest()
        return torch.frombuffer(bytearray(digest), dtype=torch.uint8)

    def get_extra_state(self) -> dict[str, Any]:
        """What fingerprints stand for."""
        return {"repertoire": None if self.repertoire is None else dict(self.repertoire)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore what fingerprints stand for."""
        if state["repertoire"] is not None:
            self.repertoire = {**state["repertoire"]} if self.repertoire is None else self.repertoire
            self.repertoire.update(state["repertoire"])


def _is_plain(value: Any) -> bool:
    """Whether a value is a tensor, and no nest or other data."""
    return isinstance(value, Tensor)


def _spec_of(value: Any, specs: Composite) -> TensorSpec:
    """The spec of a value that is no tensor."""
    made: Composite = make_composite_from_td(
        TensorDict({"value": value}, specs.shape, device=specs.device), unsqueeze_null_shapes=False
    )
    return made["value"]


def _storable(value: Any) -> Any:
    """A value as a tensordict can hold it: a list of data that are no tensors becomes a stack."""
    return NonTensorStack.from_list(value) if isinstance(value, list) else value


def nested_list(values: list[Any], shape: list[int]) -> list[Any]:
    """Values in a row as nested lists of a shape."""
    if len(shape) <= 1:
        return values
    size = len(values) // shape[0]
    return [nested_list(values[index * size : (index + 1) * size], shape[1:]) for index in range(shape[0])]
