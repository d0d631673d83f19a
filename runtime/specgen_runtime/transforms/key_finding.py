"""`KeyFindingTransform`: finds keys and their specs in an environment, in recorded data, or in specs that are given."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.dtypes import dtype_name
from specgen_runtime.envs.keys import next_key
from specgen_runtime.specs import Unbounded
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import (
    done_sets,
    group_spec,
    hidden_key,
    leaf_keys,
    normal_key,
    private_key,
)
from specgen_runtime.transforms.offline import moment_keys, recorded_group
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.specs import Composite, TensorSpec

__all__ = ["INPUTS", "OUTPUTS", "KeyFindingTransform"]

OUTPUTS = ("observation", "reward", "done")
INPUTS = ("action", "state")


class KeyFindingTransform(Transform):
    """A transform that finds which keys a role stands for, and of which spec they are.

    What tells is the environment before it, or, in no environment, recorded data (`_data`) or specs (`_given`).

    Attributes:
        _acted: the fields of a record that are actions as the policy wrote them.
        _recorded: whether the keys that are read are those of recorded data, and none of an environment.
        _sequential: whether the transform looks at more than one moment (`_step`, `_reset`).
        _around: whether it does so by stepping the environment before it, and only a map makes entries of one moment.
    """

    _acted: tuple[str, ...] = ()
    _recorded: bool = False
    _sequential: bool = False
    _around: bool = False
    _data: TensorDictBase | None
    _given: Composite | None = None  # what a spec method was given outside of environments

    def _select(
        self,
        env: EnvBase | None,
        given: list[NestedKey] | None,
        default: Sequence[NestedKey],
        dtypes: Collection[torch.dtype],
        groups: Sequence[str] = OUTPUTS,
    ) -> list[NestedKey]:
        """The keys that a role stands for.

        Args:
            env: the environment before this transform, if there is one.
            given: the user's choice.
            default: what is taken without it: keys, and groups of the environment's keys (``"env.reward"``), of
                which those with one of `dtypes` are taken.
            dtypes: what the role may be.
            groups: where keys are looked up.

        Raises:
            KeyError: if the environment has no such key.
            TypeError: if an entry has another dtype, or nobody says which keys are meant.
            RuntimeError: if there is no environment to choose from.
        """
        if given is not None:
            return self._checked(env, given, dtypes, groups)
        if not default and groups is OUTPUTS and self._in_keys_inv is None:
            raise TypeError(f"{type(self).__name__} needs `in_keys` or `in_keys_inv`")
        found: list[NestedKey] = []
        for entry in default:
            if isinstance(entry, str) and entry.startswith("env."):
                found += self._group_keys(env, entry.removeprefix("env."), dtypes)
            else:
                found += self._checked(env, [entry], dtypes, groups)
        return list(dict.fromkeys(found))

    def _select_optional(
        self,
        env: EnvBase | None,
        given: list[NestedKey] | None,
        default: Sequence[NestedKey],
        dtypes: Collection[torch.dtype],
        groups: Sequence[str] = OUTPUTS,
    ) -> list[NestedKey]:
        """As `_select`, of a role that passes over those of its own keys that are not there."""
        if given is None:
            default = [key for key in default if _is_group(key) or self._is_there(env, key)]
        return [] if given is None and not default else self._select(env, given, default, dtypes, groups)

    def _if_there(
        self,
        env: EnvBase | None,
        keys: Sequence[NestedKey | None],
        dtypes: Collection[torch.dtype],
        *,
        named: bool,
    ) -> list[NestedKey | None]:
        """The keys of a role that may be missing, None in place of those that are.

        Args:
            env: the environment before this transform, if there is one.
            keys: one for each repetition.
            dtypes: what the role may be.
            named: whether the user named them; then they have to be there.

        Raises:
            KeyError: if the environment lacks one that the user named.
            TypeError: if an entry has another dtype.
        """
        there = [key if named or (key is not None and self._is_there(env, key)) else None for key in keys]
        self._checked(env, [key for key in there if key is not None], dtypes)
        return there

    def _is_there(self, env: EnvBase | None, key: NestedKey) -> bool:
        """Whether an entry is there: in an environment, in recorded data; where neither is known it counts as there."""
        if env is not None:
            return any(key in leaf_keys(group_spec(env, group)) for group in OUTPUTS)
        return self._data is None or key in moment_keys(self._data)

    def _named(
        self,
        given: list[NestedKey] | None,
        default: list[NestedKey],
        what: str,
        part: tuple[int, int] = (0, 1),
    ) -> list[NestedKey]:
        """The keys of an output: the user's, one for each of the `default` ones, or those.

        Args:
            given: the user's choice, or None.
            default: the keys without it.
            what: the name of the argument.
            part: which of how many outputs it is, whose keys the user lists input by input.

        Raises:
            ValueError: if the user gave another number of keys.
        """
        if self._recorded and not default:
            return []
        index, count = part
        if given is not None and len(given) != len(default) * count:
            each = "one" if count == 1 else str(count)
            raise ValueError(
                f"{type(self).__name__} needs {len(default) * count} {what}, {each} for each input, got {len(given)}"
            )
        return default if given is None else given[index::count]

    def _paired_with(self, first: list[NestedKey], keys: list[NestedKey], what: str) -> list[NestedKey]:
        """`keys`, of which each goes with one of `first`.

        Raises:
            ValueError: if they differ in number.
        """
        if len(keys) != len(first):
            raise ValueError(
                f"{type(self).__name__} needs as many {what} as in_keys, got {len(keys)} and {len(first)}"
            )
        return keys

    def _in_place_of(self, keys: str, keyword: str, given: NestedKey | None, default: NestedKey) -> NestedKey:
        """The key that the policy writes in place of several.

        Args:
            keys: the argument that names these.
            keyword, given: the argument that names the key, and what it was given.
            default: the key without it.

        Raises:
            ValueError: if the key is named, and none of these.
        """
        if given is None:
            return default
        if not self._in_keys_inv:
            raise ValueError(
                f"{type(self).__name__}: {keyword} is what the policy writes in place of {keys}, which are not given"
            )
        return normal_key(given)

    def _together(self, keys: list[NestedKey]) -> list[list[NestedKey]]:
        """Keys that are read together, for the one repetition that there is; none where nobody named any."""
        return [keys] if keys else []

    def _without(self, keys: list[NestedKey], left_out: list[Any]) -> list[NestedKey]:
        """`keys` but those of another role: one for each repetition, or several together."""
        flat = [key for each in left_out for key in (each if isinstance(each, list) else [each])]
        return [key for key in keys if key not in flat]

    def _checked(
        self,
        env: EnvBase | None,
        keys: list[NestedKey],
        dtypes: Collection[torch.dtype],
        groups: Sequence[str] = OUTPUTS,
    ) -> list[NestedKey]:
        """`keys`, once they are known to be there and of one of `dtypes`; raises as `_select` does."""
        for key in keys if env is not None else ():
            dtype = self._spec(key, groups).dtype
            if dtype not in dtypes:
                expected = " or ".join(sorted(map(dtype_name, dtypes)))
                given = "no tensor" if dtype is None else dtype_name(dtype)
                raise TypeError(f"{type(self).__name__} needs {expected}, but {key!r} is {given}")
        return keys

    def _hidden(self, key: NestedKey | None, name: str) -> NestedKey:
        """Where something that is not shown is kept for `key`, or for all of them."""
        return (
            private_key(name, f"t{self._place()}")
            if key is None
            else hidden_key(key, f"t{self._place()}", name)
        )

    def _place(self) -> int:
        """The index of this transform in its chain, counted on from the environments that it is wrapped around."""
        if (container := self.container) is None:
            return 0
        return container._first_index + container._index_of(self)

    def _group_keys(
        self, env: EnvBase | None, group: str, dtypes: Collection[torch.dtype]
    ) -> list[NestedKey]:
        if env is None:
            found = recorded_group(
                self._data, group, dtypes, by_dtype=not self._sequential and group not in INPUTS
            )
            if found is not None:
                return found
            raise RuntimeError(
                f"{type(self).__name__} takes its keys from the environment, and it is part of none: "
                "pass its keys, or put it in a TransformedEnv"
            )
        if group == "done":
            return done_sets(env)
        return leaf_keys(group_spec(env, "done" if group == "flags" else group), dtypes)

    def _spec(self, key: NestedKey, groups: Sequence[str] = OUTPUTS) -> TensorSpec:
        """The spec of an entry before this transform.

        Raises:
            KeyError: if the environment has no such entry.
            RuntimeError: if there is neither an environment nor data to tell it from.
        """
        if (env := self.parent) is None:
            return self._recorded_spec(key)
        groups = (*groups, "action") if self._acted and "action" not in groups else groups
        for group in groups:
            spec = group_spec(env, group)
            if key in leaf_keys(spec):
                return spec[key]
        known = sorted(str(each) for group in groups for each in leaf_keys(group_spec(env, group)))
        if "state" not in groups and key in leaf_keys(group_spec(env, "state")):
            raise KeyError(
                f"{type(self).__name__} reads {key!r}, which the environment is given and does not return: "
                "add it to its observation_spec, and return it from _reset and _step"
            )
        raise KeyError(
            f"{type(self).__name__} reads {key!r}, but the environment has only {', '.join(known)}"
        )

    def _mapped_spec(self, key: NestedKey) -> TensorSpec:
        """The spec of an entry as a map of this transform reads it."""
        return self._spec(key)

    def _recorded_spec(self, key: NestedKey) -> TensorSpec:
        if self._given is not None and key in leaf_keys(self._given):
            return self._given[key]
        if self._data is None:
            raise RuntimeError(
                f"{type(self).__name__} is part of no environment that could tell the spec of {key!r}"
            )
        value: Tensor | None = self._data.get(next_key(key), None)
        if value is None:
            value = self._read(self._data, key)
            assert value is not None  # `_read` raises when it may not be missing
        return Unbounded(shape=value.shape, dtype=value.dtype, device=value.device)


def _is_group(entry: NestedKey) -> bool:
    """Whether an entry of a role's default is a group of keys."""
    return isinstance(entry, str) and entry.startswith("env.")
