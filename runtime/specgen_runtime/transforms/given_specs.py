"""Spec methods of transforms that are in no environment: what they need to know is in the specs that they are given."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from specgen_runtime.envs.done import FLAGS
from specgen_runtime.envs.keys import leaf_name
from specgen_runtime.specs import Composite
from specgen_runtime.transforms.keys import leaf_keys, normal_key

if TYPE_CHECKING:
    from specgen_runtime.transforms.entries import EntriesTransform

__all__ = ["from_given_specs"]

T = TypeVar("T", bound="EntriesTransform[Any, Any]")

_OF_ANY_GROUP = ("transform_observation_spec", "transform_state_spec")
"""The methods that add what is made of flags and rewards, too, which are not among the specs that they are given."""

_OF_OTHER_GROUPS = (*FLAGS, "reward")
"""What flags and rewards are called: without them nothing can be said, which is an error, as nobody may miss a count."""


def from_given_specs(method: Callable[[T, Composite], Composite]) -> Callable[[T, Any], Any]:
    """Let a spec method take keys, shapes and dtypes from the specs that it is given, if there is no environment.

    The method then also takes the spec of the only entry that the transform reads, and gives that of the one it writes.

    Args:
        method: from a group of specs to a group of specs.

    Raises:
        KeyError: at a call: what is carried is made of flags or rewards, which are not among the specs.
    """

    @wraps(method)
    def call(self: T, specs: Any) -> Any:
        if self.parent is not None or self._given is not None:
            return method(self, specs)
        if not isinstance(specs, Composite):
            reads, writes = self._in_keys or self._in_keys_inv, self._out_keys or self._out_keys_inv
            if reads is None and method.__name__ == "transform_reward_spec":
                with suppress(RuntimeError):  # what they are called without an environment
                    reads = self.in_keys
            if not reads or len(reads) != 1:
                raise TypeError(
                    f"{type(self).__name__} reads several entries, or says not which: give a Composite of their specs"
                )
            found = call(self, Composite({reads[0]: specs}))
            added = [key for key in leaf_keys(found) if key != normal_key(reads[0])]
            return found[added[0] if len(added) == 1 else (writes or reads)[0]]
        twin = self.clone()
        given = specs.clone()
        twin.__dict__.update(_given=given, _data=specs.zero())
        if method.__name__ == "transform_reward_spec":
            twin.__dict__["_given_rewards"] = given
        # It changes what it finds among these specs; of other groups of an environment there is nothing to say.
        known, inputs = {*leaf_keys(given)}, twin._inputs()
        told = twin._sequential and method.__name__ in _OF_ANY_GROUP
        twin._bound = [
            row
            for row in twin.keys
            if all(
                key in known or (told and leaf_name(key) in _OF_OTHER_GROUPS)
                for key in twin._fields(inputs, [row])
            )
        ]
        return method(twin, specs)

    return call
