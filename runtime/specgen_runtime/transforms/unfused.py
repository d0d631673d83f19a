"""What a chain is made of, and the transforms of any environment as objects of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.transforms.base import Transform

__all__ = ["Unfused"]


class Unfused(NamedTuple):
    """What a generated chain is made of; its `_unfused` tells."""

    env_class: type[EnvBase[Any, Any]]
    """the class of its environment"""
    transforms: Sequence[Transform]
    """its transforms, newly made, in their order"""
