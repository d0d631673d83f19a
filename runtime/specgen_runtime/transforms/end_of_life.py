"""Methods of `EndOfLifeTransform`: what losses are told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from specgen_runtime.objectives import LossModule
    from specgen_runtime.transforms.generated import GeneratedTransform

__all__ = ["EndOfLifeKeys"]


class EndOfLifeKeys:
    """What an `EndOfLifeTransform` tells losses."""

    def register_keys(self, loss: LossModule) -> None:
        """Let a lost life be an end for a loss: its `done` and `terminated` are what this transform writes.

        Raises:
            ValueError: there are several ends, of groups: `loss.set_keys` says which.
        """
        keys = cast("GeneratedTransform[Any, Any]", self).out_keys
        if len(keys) != 1:
            raise ValueError(
                f"{type(self).__name__} writes {keys}: say by `loss.set_keys` which one ends episodes"
            )
        loss.set_keys(done=keys[0], terminated=keys[0])
