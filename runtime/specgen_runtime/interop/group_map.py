"""Reads the groups of agents that an environment, ours or TorchRL's, declares."""

from __future__ import annotations

from typing import Any

__all__ = ["group_map_of"]


def group_map_of(env: Any) -> dict[str, list[str]]:
    """Return the groups of agents of an environment, by name; of a batch, those that all of its environments have.

    Raises:
        AttributeError: it has no groups, or the environments of a batch have different ones.
    """
    found = env.group_map
    if callable(found):  # TorchRL's ParallelEnv asks its workers when it is called
        found = found()
    if isinstance(found, list) and all(each == found[0] for each in found):
        found = found[0]
    if not found or isinstance(found, list):
        raise AttributeError(f"{type(env).__name__} has no groups of agents: {found}")
    groups: dict[str, list[str]] = found
    return groups
