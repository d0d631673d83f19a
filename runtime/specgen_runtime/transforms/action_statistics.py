"""Methods of `ActionScaling`: scales that follow from statistics of actions, and the scaling of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from torch import Tensor

if TYPE_CHECKING:
    from specgen_runtime.transforms.generated import GeneratedTransform

__all__ = ["ActionStatistics"]

Numbers = Tensor | float | list[float]


class ActionStatistics:
    """What an `ActionScaling` makes of statistics, and of tensors that are no entries."""

    @classmethod
    def from_stats(
        cls,
        *,
        mean: Numbers | None = None,
        std: Numbers | None = None,
        low: Numbers | None = None,
        high: Numbers | None = None,
        eps: float = 1e-6,
        **keywords: Any,
    ) -> Self:
        """Scale by statistics of recorded actions: to mean 0 and deviation 1, or from `low` and `high` to -1 and 1.

        Recorded data are scaled by `forward`, the entries of `in_keys`: by default those of `in_keys_inv`, else
        ``"action"``. With ``in_keys_inv=[]`` it does nothing in an environment, nor on the way into a replay buffer.

        Args:
            mean: the mean of each number of an action.
            std: its deviation, given with `mean`.
            low: the least of each number, in place of `mean` and `std`.
            high: the largest, given with `low`.
            eps: the least scale.
            keywords: arguments of the constructor.

        Raises:
            ValueError: not exactly one of the two pairs is given, its tensors differ in shape, a number of them is not
                finite, a deviation is negative, or `high` is below `low`.
        """
        if (
            (mean is None) != (std is None)
            or (low is None) != (high is None)
            or (mean is None) == (low is None)
        ):
            raise ValueError("give mean and std, or low and high")
        given = {"mean": mean, "std": std} if mean is not None else {"low": low, "high": high}
        first, second = (torch.as_tensor(one, dtype=torch.get_default_dtype()) for one in given.values())
        if first.shape != second.shape:
            raise ValueError(
                f"both statistics must have the same shape, got {tuple(first.shape)} and {tuple(second.shape)}"
            )
        for name, one in zip(given, (first, second), strict=True):
            if not bool(one.isfinite().all()):
                raise ValueError(f"{name} must be finite, got {one.tolist()}")
        loc, scale = (first, second) if mean is not None else ((first + second) / 2, (second - first) / 2)
        if bool((scale < 0).any()):
            wanted = "std must be >= 0" if mean is not None else f"high must be >= low, {first.tolist()}"
            raise ValueError(f"{wanted}, got {second.tolist()}")
        keywords.setdefault("in_keys", keywords.get("in_keys_inv") or ["action"])
        return cast("Callable[..., Self]", cls)(loc=loc, scale=scale.clamp_min(eps), **keywords)

    @classmethod
    def from_metadata(cls, metadata: Any, **keywords: Any) -> Self:
        """Scale by the statistics that an object says: `action_mean` and `action_std`, else `action_low` and `action_high`.

        Args:
            metadata: an object with these attributes and `action_key`, such as TorchRL's `RobotDatasetMetadata`.
            keywords: arguments of the constructor; `in_keys_inv` is the `action_key` by default.

        Raises:
            ValueError: it says neither pair.
        """
        keywords.setdefault("in_keys_inv", [metadata.action_key])
        keywords.setdefault("in_keys", keywords["in_keys_inv"] or [metadata.action_key])
        for names in (("mean", "std"), ("low", "high")):
            found = {name: getattr(metadata, f"action_{name}") for name in names}
            if all(value is not None for value in found.values()):
                return cls.from_stats(**found, **keywords)
        raise ValueError(
            f"{type(metadata).__name__} has neither action_mean and action_std nor action_low and action_high"
        )

    def normalize(self, action: Tensor) -> Tensor:
        """An action of the environment as the policy would have written it.

        Args:
            action: numbers [*batch, *action].

        Raises:
            RuntimeError: there is no `loc` and `scale`, and no environment that tells the bounds.
            ValueError: they are of another shape than the action.
        """
        loc, scale = self._loc_and_scale(action)
        return (action - loc) / scale

    def denormalize(self, action: Tensor) -> Tensor:
        """What the environment is given for an action that the policy wrote; see `normalize`."""
        loc, scale = self._loc_and_scale(action)
        return action * scale + loc

    def _loc_and_scale(self, action: Tensor) -> tuple[Tensor, Tensor]:
        """What 0 and 1 of the policy are for the environment: 0, and by how much more 1."""
        scaling = cast("GeneratedTransform[Any, Any]", self)
        loc, scale = scaling._buffers["loc"], scaling._buffers["scale"]
        if loc is None or scale is None:
            if scaling.parent is None:
                raise RuntimeError(
                    f"{type(self).__name__} has neither loc and scale nor an environment that tells the bounds of actions"
                )
            low, high = scaling._bounds(scaling.in_keys_inv[0])
            loc, scale = (high + low) / 2, (high - low) / 2
        if not cast("Any", self).standard_normal:
            loc, scale = loc - scale, 2 * scale
        own = zip(reversed(loc.shape), reversed(action.shape), strict=False)
        if loc.ndim > action.ndim or not all(size in (1, wanted) for size, wanted in own):
            raise ValueError(
                f"{type(self).__name__} has loc and scale of the shape {list(loc.shape)}, for actions of the shape "
                f"[*batch, {', '.join(map(str, loc.shape))}], got {list(action.shape)}"
            )
        if not action.is_floating_point():  # whose dtype would round them
            return loc.to(action.device), scale.to(action.device)
        return loc.to(action), scale.to(action)
