"""What a root already holds under `"next"` when it is stepped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensordict import TensorDictBase

from specgen_runtime.envs.entries import peek
from specgen_runtime.envs.keys import as_tuple, join_key
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.key_access import KeyAccess

__all__ = ["add_presets"]

_GIVEN = ("full_observation_spec", "full_reward_spec", "full_done_spec")


def add_presets(env: KeyAccess, following: TensorDictBase, preset: Any) -> None:
    """Write into what `_step` returned the values that stood under `"next"` before, in place.

    What is complete (it has every observation, reward and done flag of the specs) is the result of an earlier step:
    none of it counts, but for entries that no spec names and `_step` did not give, such as those of a policy. Of
    anything else every value prevails, and flags that are not among them follow from those that are. This looks at the data only, so that copies, rows of rollouts and data from
    other processes are treated alike.

    Raises:
        TypeError: `preset` is no tensordict.
    """
    if not isinstance(preset, TensorDictBase):
        raise TypeError(f"'next' must be a tensordict, found {type(preset).__name__}")
    if any(e.leaf.find(preset) is None for e in env._expected(*_GIVEN)):
        following.exclude(*_outdated_flags(env, preset), inplace=True)
        following.update(preset)
        return
    known = {join_key(as_tuple(e.leaf.key)) for e in env._expected(*_GIVEN)}
    for key in preset.keys(True, True):
        if join_key(as_tuple(key)) not in known and peek(following, key) is None:
            following.set(key, preset.get(key))


def _outdated_flags(env: KeyAccess, preset: TensorDictBase) -> list[NestedKey]:
    """The done flags that `_step` gave and that have to follow from those that were there before."""
    outdated: list[NestedKey] = []
    for s in env._done_sets:
        flags = [key for key in (s.done, s.terminated, s.truncated) if key is not None]
        given = [key for key in flags if peek(preset, key) is not None]
        if s.done in given:
            outdated += [key for key in flags if key not in given]
        elif given:
            outdated.append(s.done)
    return outdated
