"""`ExpandAs`: an entry repeated for the further dimensions of another, as a done flag for each agent."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from specgen_runtime.envs.keys import show_key
from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import normal_key, subspec
from specgen_runtime.typing import NestedKey

__all__ = ["ExpandAs"]

_GROUPS = ("full_observation_spec", "full_reward_spec", "full_done_spec")


class ExpandAs(Transform):
    """Repeats an entry for the dimensions that another one has behind its own.

    A flag `[*batch, 1]` beside rewards `[*batch, agents, 1]` becomes `[*batch, agents, 1]`. A reset, which returns no
    rewards, takes their shape from the specs.

    Args:
        in_key: what is repeated: an observation, a reward or a done flag.
        ref_key: what has the shape.
        out_key: where it is written; a done flag becomes an observation there. None: in place of the entry, which a
            done flag can't be.

    Raises:
        KeyError: in an environment without one of the two; at a call: the entry is missing.
        ValueError: the shapes do not fit; a done flag has no `out_key` of its own.
    """

    def __init__(self, in_key: NestedKey, ref_key: NestedKey, out_key: NestedKey | None = None) -> None:
        self.ref_key = normal_key(ref_key)
        super().__init__([in_key], [in_key if out_key is None else out_key])

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        ref = self._read(next_tensordict, self.ref_key)
        assert ref is not None
        return self._written(next_tensordict, ref.shape)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if self._read(tensordict_reset, self.in_keys[0], tolerant=True) is None:
            return tensordict_reset  # rewards
        ref = self._read(tensordict_reset, self.ref_key, tolerant=True)
        if ref is not None or self.parent is None:
            return self._call(tensordict_reset)
        return self._written(tensordict_reset, self._spec(self.parent.output_spec, self.ref_key)[1].shape)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        moments = [tensordict]
        if isinstance(following := tensordict.get("next", None), TensorDictBase):
            moments.append(following)
        keys = (self.in_keys[0], self.ref_key)
        complete = [one for one in moments if all(self._read(one, key, True) is not None for key in keys)]
        for moment in complete or moments[-1:]:
            self._call(moment)
        return tensordict

    def _written(self, tensordict: TensorDictBase, shape: torch.Size) -> TensorDictBase:
        value = self._read(tensordict, self.in_keys[0])
        assert value is not None
        return tensordict.set(self.out_keys[0], self._expanded(value, shape))

    def _expanded(self, value: Any, shape: torch.Size) -> Any:
        found = list(value.shape)
        try:
            while value.ndim < len(shape):
                value = value.unsqueeze(-1)
            return value.expand(shape)
        except (RuntimeError, ValueError):
            raise ValueError(
                f"ExpandAs: {show_key(self.in_keys[0])} has the shape {found}, which can't be repeated to {list(shape)} of "
                f"{show_key(self.ref_key)}"
            ) from None

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs with that of the repeated entry."""
        in_key, out_key = self.in_keys[0], self.out_keys[0]
        _, ref = self._spec(output_spec, self.ref_key)
        group, spec = self._spec(output_spec, in_key)
        if group == "full_done_spec":
            if out_key == in_key:
                raise ValueError(
                    f"ExpandAs: {show_key(in_key)} is a done flag, which keeps its shape: give an out_key"
                )
            group = "full_observation_spec"
        output_spec = output_spec.clone()
        written = subspec(output_spec, group)
        written[out_key] = self._expanded(spec.clone(), ref.shape)
        output_spec[group] = written
        return output_spec

    def _spec(self, output_spec: Composite, key: NestedKey) -> tuple[str, TensorSpec]:
        for group in _GROUPS:
            spec = subspec(output_spec, group).get(key, None)
            if isinstance(spec, TensorSpec):
                return group, spec
        raise KeyError(f"ExpandAs: the environment returns no {show_key(key)}")
