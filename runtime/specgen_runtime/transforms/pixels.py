"""`PixelRenderTransform`: pictures of an environment as an observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.rendering.env import RenderedEnv
from specgen_runtime.specs import Bounded, Composite, TensorSpec, Unbounded
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import leaf_keys
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase

__all__ = ["PixelRenderTransform"]


class PixelRenderTransform(Transform):
    """Writes the picture that the environment draws of its state, at each reset and step.

    The picture is uint8 `(*batch_size, height, width, 3)`, unless `preproc` makes something else of it. It shows the state of
    the environment itself, whatever transforms before this one make of it. Native environments draw one picture for each
    row, batches of environments one for each of them; Gymnasium's need `render_mode="rgb_array"`.

    The spec of environments that declare their pictures is known; others are reset once, when specs are first asked for,
    to see what they draw.

    Args:
        out_keys: the key of the picture, alone or in a list. None: ``"pixels"``.
        preproc: computes what is written of the array that is drawn.
        render_method: the method of the environment that draws.
        kwargs: keywords of that method.

    Raises:
        ValueError: there is not one key. In an environment: it has no such method, has an entry of that key already, or
            does not draw one picture for each row.
    """

    def __init__(
        self,
        out_keys: NestedKey | Sequence[NestedKey] | None = None,
        preproc: Callable[[Any], Any] | None = None,
        render_method: str = "render",
        **kwargs: Any,
    ) -> None:
        if out_keys is None:
            out_keys = ["pixels"]
        super().__init__([], [out_keys] if isinstance(out_keys, str | tuple) else out_keys)
        if len(self.out_keys) != 1:
            raise ValueError(f"PixelRenderTransform writes one entry, got the keys {self.out_keys}")
        self.preproc = preproc
        self.render_method = render_method
        self.render_kwargs = kwargs

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict.set(self.out_keys[0], self._drawn(self._env()))

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict_reset)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        raise NotImplementedError(
            "PixelRenderTransform shows an environment: of recorded states `env.render(data)` draws pictures"
        )

    def _derives_done(self) -> bool:
        return False

    def _env(self) -> EnvBase:
        if (env := self.parent) is None:
            raise RuntimeError("PixelRenderTransform is part of no environment that could be drawn")
        return env

    def _drawn(self, env: EnvBase) -> Tensor:
        """What is written, drawn now."""
        draw = getattr(env, self.render_method, None)
        if not callable(draw):
            raise ValueError(
                f"PixelRenderTransform needs an environment with a method {self.render_method!r}; {env} has none"
            )
        made = draw(**self.render_kwargs)
        if made is None:
            raise ValueError(
                f"PixelRenderTransform: {self.render_method!r} of {env} gives no array; Gymnasium's environments"
                " need render_mode='rgb_array'"
            )
        return self._written(np.asarray(made), env)

    def _written(self, picture: Any, env: EnvBase) -> Tensor:
        """What is written where `picture` is drawn."""
        made = picture if self.preproc is None else self.preproc(picture)
        # a copy: environments may draw into one array
        pixels = made if isinstance(made, Tensor) else torch.from_numpy(np.array(made, order="C"))
        if pixels.shape[: len(env.batch_size)] != env.batch_size:
            raise ValueError(
                f"PixelRenderTransform needs one picture for each row, {list(env.batch_size)} in front, got the shape"
                f" {list(pixels.shape)}"
            )
        return pixels if env.device is None else pixels.to(env.device)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the picture: whole numbers from 0 to 255; no bounds for what `preproc` makes of it."""
        key = self.out_keys[0]
        if key in leaf_keys(observation_spec):
            raise ValueError(
                f"PixelRenderTransform adds {key!r}, which is there already; give it another key"
            )
        observation_spec[key] = self._pixel_spec(self._env())
        return observation_spec

    def _pixel_spec(self, env: EnvBase) -> TensorSpec:
        base = getattr(env, "base_env", env)
        if isinstance(base, RenderedEnv) and self.render_method == "render":
            shape = (*env.batch_size, *base._image_shape())
            pixels = self._written(np.zeros(shape, dtype=np.uint8), env)
        else:
            env.reset()
            pixels = self._drawn(env)
        if self.preproc is None and pixels.dtype == torch.uint8:
            return Bounded(low=0, high=255, shape=pixels.shape, dtype=torch.uint8, device=env.device)
        return Unbounded(shape=pixels.shape, dtype=pixels.dtype, device=env.device)
