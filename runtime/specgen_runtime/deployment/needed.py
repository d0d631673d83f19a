"""Which transforms a policy needs to act, and which entries they read: of what is given, and of the moment before."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from specgen_runtime.envs.keys import as_tuple, join_key, show_key
from specgen_runtime.transforms.around import AroundTransform
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.compose import leaves
from specgen_runtime.transforms.env import TransformedEnv
from specgen_runtime.transforms.function import FunctionTransform
from specgen_runtime.transforms.generated import GeneratedTransform
from specgen_runtime.transforms.kept_moments import PARTS
from specgen_runtime.transforms.vec_norm import VecNormV2
from specgen_runtime.typing import NestedKey

__all__ = ["Needed", "needed_by"]


class Needed(NamedTuple):
    """What a policy needs to act."""

    observed: list[NestedKey]
    """what the environment observes, and transforms or the policy read"""
    forward: list[Transform]
    """the transforms that make of it what the policy reads, in their order"""
    carried: list[NestedKey]
    """entries that they read of the moment before"""
    inverse: list[Transform]
    """the transforms that make of what the policy writes what the environment is given, in the order in which they do"""


def needed_by(keys: Iterable[NestedKey], env: TransformedEnv[Any]) -> Needed:
    """What is needed for the entries that a policy reads.

    Repetitions of transforms that write nothing of it are left out of their keys, for good.

    Args:
        keys: these entries.
        env: the environment as the policy sees it.

    Raises:
        ValueError: something follows from rewards, which nobody gives a policy; or from a function of a tensordict,
            which does not say what it reads.
    """
    env._stages()  # finds keys, and private places for what is carried
    wanted = {join_key(as_tuple(key)): join_key(as_tuple(key)) for key in keys}
    done, rewards = set(env.base_env.done_keys), set(env.base_env.reward_keys)
    forward: list[Transform] = []
    carried: dict[NestedKey, None] = {}
    transforms = leaves(env.transform)
    inverse = [entry for entry in reversed(transforms) if entry.in_keys_inv]
    for entry in reversed(transforms):
        if isinstance(entry, FunctionTransform):
            raise ValueError(
                "DeployedPolicy: a function of a tensordict in the chain does not say what it reads and writes: make it a"
                " Transform with in_keys and out_keys"
            )
        if isinstance(entry, AroundTransform) and entry._steps_inner_env and entry.in_keys_inv:
            raise ValueError(
                f"DeployedPolicy: {type(entry).__name__} takes several steps for what the policy writes at once: give"
                " each of them to the environment by yourself, with a policy behind the other transforms"
            )
        reads = _kept(entry, wanted)
        if reads is None:
            continue
        forward.insert(0, entry)
        written = entry.out_keys
        of = {key: wanted[key] for key in written if key in wanted}
        user = next(iter(of.values()))
        for key in written:
            wanted.pop(key, None)
        for key in reads:
            wanted.setdefault(key, user)
        carried.update(dict.fromkeys(_carried(entry)))
    for key, user in wanted.items():
        if key in rewards:
            raise ValueError(
                f"DeployedPolicy: the policy reads {show_key(user)}, which follows from the reward {show_key(key)}: nobody"
                " gives a policy rewards outside of a training"
            )
    return Needed([key for key in wanted if key not in done], forward, list(carried), inverse)


def _kept(entry: Transform, wanted: Collection[NestedKey]) -> list[NestedKey] | None:
    """What a transform reads for entries that are wanted, and reads no more for others; None where it writes none."""
    if not isinstance(entry, GeneratedTransform):
        return list(entry.in_keys) if set(entry.out_keys) & set(wanted) else None
    outputs = entry._shown_and_hidden()
    rows = [row for row in entry.keys if set(entry._fields(outputs, [row])) & set(wanted)]
    if not rows:
        return None
    entry.__dict__.update(_bound=rows, _known_pairs=None, _known_drops=None, _overwrites=None)
    return entry._fields(entry._inputs())


def _carried(entry: Transform) -> list[NestedKey]:
    """Where the entries stand that a step of a transform reads of the moment before."""
    if isinstance(entry, VecNormV2) and not entry.stateful:
        return [entry._place(part, key) for part in PARTS for key in entry.in_keys]
    if not isinstance(entry, GeneratedTransform):
        return [*entry.in_keys, *entry.out_keys]
    places = {**entry._private_inputs, **entry._private}
    return [places.get(key, key) for key in (*entry.carry_keys, *entry._fields(entry._acted))]
