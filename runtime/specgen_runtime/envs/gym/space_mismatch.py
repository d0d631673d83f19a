"""Whether an installed Gymnasium environment is the one that was declared, and `GymSpaceMismatch`, if not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from specgen_runtime.envs.gym.actions import action_leaves
from specgen_runtime.envs.keys import as_tuple, show_key
from specgen_runtime.specs import Categorical, Composite, MultiCategorical, TensorSpec
from specgen_runtime.specs.gymnasium import has_parts, space_to_spec
from specgen_runtime.typing import NestedKey

__all__ = ["GymSpaceMismatch", "compare_spaces"]


class GymSpaceMismatch(ValueError):  # noqa: N818
    """The installed Gymnasium environment is not the one whose specs were declared.

    Attributes:
        key: the key whose spec differs, or `max_episode_steps`.
        declared: what the schema says.
        found: what Gymnasium says.
    """

    def __init__(self, gym_id: str, key: NestedKey, declared: Any, found: Any) -> None:
        super().__init__(
            f"{gym_id}: the installed Gymnasium environment differs from its declaration in {show_key(key)}:"
            f" declared {declared}, found {found}"
        )
        self.key = key
        self.declared = declared
        self.found = found


def compare_spaces(
    gym_id: str, declared: Composite, space: Any, what: str, *, device: torch.device | None
) -> None:
    """Compare the declared specs of actions or observations with the space that there is.

    Args:
        gym_id: of the environment.
        declared: the specs, by key.
        space: its action or observation space.
        what: `action` or `observation`.
        device: of the specs.

    Raises:
        GymSpaceMismatch: naming the key, what is declared and what was found.
    """
    leaves = declared.values(True, True)
    categorical = any(isinstance(leaf, Categorical | MultiCategorical) for leaf in leaves)

    def spec_of(part: Any) -> TensorSpec:
        return space_to_spec(part, categorical_action_encoding=categorical, device=device)

    expected: Mapping[Any, TensorSpec]
    found: Mapping[Any, TensorSpec]
    if what == "action" and has_parts(space):
        expected = {as_tuple(key): spec for key, spec in declared.items(True, True)}
        found = {(what, *place): spec_of(part) for place, part in action_leaves(space).items()}
    else:
        whole, expected = spec_of(space), dict(declared.items())
        if not isinstance(whole, Composite) and len(expected) != 1:
            raise GymSpaceMismatch(gym_id, what, sorted(expected), f"one space, {whole}")
        found = dict(whole.items()) if isinstance(whole, Composite) else dict.fromkeys(expected, whole)
    for key in {**expected, **found}:
        if expected.get(key) != found.get(key):
            raise GymSpaceMismatch(gym_id, key, expected.get(key), found.get(key))
