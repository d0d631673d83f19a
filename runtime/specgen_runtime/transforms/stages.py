"""`Stages`: the specs between the transforms of an environment, and what its steps and resets need of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tensordict import is_tensorclass

from specgen_runtime.specs import Composite
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.bound import BoundTransform
from specgen_runtime.transforms.columns import column_keys, reward_and_done_columns
from specgen_runtime.transforms.flags import FlagSet, flag_sets
from specgen_runtime.transforms.keys import as_tuple, is_private, leaf_keys, private_key, subspec
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase

__all__ = ["Stage", "Stages"]


class Stage(NamedTuple):
    """The specs between two transforms.

    Attributes:
        inputs: of what the environment is given.
        outputs: of what it returns.
        columns: the entries that are stored with a trailing 1 which is no dimension of theirs.
    """

    inputs: Composite
    outputs: Composite
    columns: frozenset[NestedKey]


class Stages:
    """The specs before, between and after the transforms of an environment.

    Args:
        base_env: the environment inside.
        chain: the transforms, in order.
        first_index: how many transforms wrapped environments have: counted on from there, private keys never collide.

    Attributes:
        specs: one more than there are transforms; the last ones are what users see. It grows while `find` runs,
            so that a transform can ask for the environment before it.
        private_state: state entries of the environment that a transform rewrites, with the place where the
            environment's own value is kept.
        flag_sets: the done flags of what users see, the root-most level first.
        unlike: observations of the environment that users see in another shape or dtype.
        written: the entries that transforms write or drop.
    """

    def __init__(self, base_env: EnvBase[Any], chain: Sequence[Transform], first_index: int) -> None:
        self._base_env = base_env
        self._chain = tuple(chain)
        self._first_index = first_index
        self.specs: list[Stage] = []
        self.private_state: dict[NestedKey, NestedKey] = {}
        self.flag_sets: tuple[FlagSet, ...] = ()
        self.unlike: tuple[NestedKey, ...] = ()
        self.written: frozenset[NestedKey] = frozenset()

    def find(self) -> None:
        """Let each transform change the specs of the one before it."""
        self._walk()
        # Only now is it known who writes what; places for private carries are part of the specs.
        if self._assign_private_carries():
            self._walk()
        self._settle()

    def until(self, chain: Sequence[Transform]) -> Stages:
        """Those of the first transforms only, of which `chain` holds copies; nothing is worked out twice."""
        first = Stages(self._base_env, chain, self._first_index)
        first.specs = self.specs[: len(first._chain) + 1]
        first.private_state = dict(self.private_state)
        first._settle()
        return first

    def _walk(self) -> None:
        inputs, outputs = self._base_env.input_spec.clone(), self._base_env.output_spec.clone()
        for key, place in self.private_state.items():
            spec = subspec(inputs, "full_state_spec")[key]
            for part, name in ((inputs, "full_state_spec"), (outputs, "full_observation_spec")):
                part[name] = subspec(part, name).set(place, spec.clone())
        columns = column_keys(self._base_env) | reward_and_done_columns(outputs)
        self.specs = [Stage(inputs.lock_(), outputs.lock_(), columns)]
        for entry in self._chain:
            entry.__dict__["_parent"] = None
            before = self.specs[-1]
            inputs = entry.transform_input_spec(before.inputs.clone())
            outputs = entry.transform_output_spec(before.outputs.clone())
            kept = (
                entry._columns_behind(before.columns) if isinstance(entry, BoundTransform) else before.columns
            )
            columns = kept | reward_and_done_columns(outputs)
            self.specs.append(Stage(inputs.lock_(), outputs.lock_(), columns))

    def _assign_private_carries(self) -> bool:
        written = {key for entry in self._chain for key in _rewritten_by(entry)}
        state = written.intersection(self._base_env.state_keys).intersection(self._base_env.observation_keys)
        owner = f"e{self._first_index}"
        private = {
            key: private_key(key, owner, _open_depth(self._base_env.full_observation_spec, key))
            for key in sorted(state, key=str)
            if not is_private(key)
        }
        changed = private != self.private_state
        self.private_state = private
        for index, entry in enumerate(self._chain):
            if isinstance(entry, BoundTransform) and (wanted := entry.carry_keys):
                rewritten = {key for later in self._chain[index + 1 :] for key in _rewritten_by(later)}
                changed |= entry._set_private(self._first_index + index, rewritten.intersection(wanted))
            if isinstance(entry, BoundTransform):
                _refuse_changed_actions(entry, self._chain[index:])
        return changed

    def _settle(self) -> None:
        self.flag_sets = flag_sets(leaf_keys(subspec(self.specs[-1].outputs, "full_done_spec")))
        self.written = frozenset(key for entry in self._chain for key in _rewritten_by(entry))
        inner, outer = (
            subspec(stage.outputs, "full_observation_spec") for stage in (self.specs[0], self.specs[-1])
        )
        shown = leaf_keys(outer)
        self.unlike = tuple(
            key
            for key in leaf_keys(inner)
            if key in shown and (outer[key].shape, outer[key].dtype) != (inner[key].shape, inner[key].dtype)
        )


def _open_depth(spec: Composite, key: NestedKey) -> int:
    """How many names of a key lead to where any entry can be: tensor classes have entries of their own only."""
    names = as_tuple(key)
    for depth in range(1, len(names)):
        inner = spec[names[:depth]]
        if isinstance(inner, Composite) and is_tensorclass(inner.data_cls):
            return depth - 1
    return len(names) - 1


def _refuse_changed_actions(entry: BoundTransform[Any, Any], chain: Sequence[Transform]) -> None:
    """Refuse an action that a transform reads as the policy wrote it, where it or one behind it changes that.

    Raises:
        ValueError: there is one.
    """
    for key in entry._fields(entry._acted):
        changes = next((later for later in chain if key in later.in_keys_inv), None)
        if changes is not None:
            raise ValueError(
                f"{type(entry).__name__} reads {key!r} as the policy wrote it, and {type(changes).__name__} changes it:"
                f" put {type(entry).__name__} behind that"
            )


def _rewritten_by(entry: Transform) -> list[NestedKey]:
    """The entries that are not behind `entry` what they are before it."""
    return [*entry.out_keys, *(entry.dropped_keys if isinstance(entry, BoundTransform) else ())]
