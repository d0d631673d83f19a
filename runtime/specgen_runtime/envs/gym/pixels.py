"""Rendered images as observations."""

from __future__ import annotations

from typing import Any

import numpy as np

from specgen_runtime.specs.gymnasium import import_gymnasium, space_kind

__all__ = ["shows_pixels", "with_pixels"]


def shows_pixels(space: Any) -> bool:
    """Whether observations are images already: a Box of numbers from 0 to 255 `(H, W, 3)`, or a Dict with `pixels`."""
    kind = space_kind(space)
    if kind == "Dict":
        return "pixels" in space.spaces
    return (
        kind == "Box"
        and len(space.shape) == 3
        and space.shape[-1] == 3
        and bool(np.all(space.low == 0) and np.all(space.high == 255))
    )


def with_pixels(env: Any, pixels_only: bool) -> Any:
    """Make rendered images observations: `pixels`, uint8 `(H, W, 3)`.

    Args:
        env: a single Gymnasium environment. It is reset, to see how large its images are.
        pixels_only: whether they take the place of the observation; else it keeps its keys, or `observation`.

    Raises:
        ValueError: the environment does not render to arrays.
    """
    mode = getattr(env, "render_mode", None)
    if mode is None or mode == "human":
        raise ValueError(
            f"from_pixels=True needs an environment that renders to arrays, found render_mode={mode!r}; make it"
            " with gymnasium.make(..., render_mode='rgb_array')"
        )
    wrappers = import_gymnasium().wrappers
    return wrappers.AddRenderObservation(env, render_only=pixels_only, obs_key="observation")
