"""`RenderedEnv`: what environments have that declare how a state is drawn."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.base import D, S
from specgen_runtime.envs.generated.env import GeneratedEnv
from specgen_runtime.envs.packing import peek
from specgen_runtime.envs.rendering.picture import Image, Picture
from specgen_runtime.envs.traced import is_traced

__all__ = ["RenderedEnv"]


class RenderedEnv(GeneratedEnv[D, S]):
    """Base of generated environments that declare `render:`.

    It keeps what the last reset or step returned, for `render()`. Rollouts keep nothing: draw what they return,
    `env.render(rollout)`, or call `env.render(tensordict)` in their `callback`.
    """

    render_mode: ClassVar[str] = "rgb_array"
    """What Gymnasium calls pictures that are returned as arrays."""

    _frames_per_second: ClassVar[int] = 30

    @property
    def metadata(self) -> dict[str, Any]:
        """What Gymnasium's environments tell of their pictures."""
        return {"render_modes": [self.render_mode], "render_fps": self._frames_per_second}

    def _picture(self, root: Any) -> Picture:
        """The picture of a Root record, for any leading dimensions. Printed for each environment."""
        raise NotImplementedError

    def render(self, tensordict: TensorDictBase | None = None) -> Image:
        """Draw states.

        Nothing random is drawn, and no state changes.

        Args:
            tensordict: holds the state, in any batch dimensions: a root, the `"next"` of a step, or a whole rollout.
                If None, it is what the last `reset` or `step` returned.

        Returns:
            uint8 `(*tensordict.batch_size, height, width, 3)`: red, green and blue.

        Raises:
            RuntimeError: nothing was reset yet, or an entry has another shape.
            KeyError: a state key is missing.
            ValueError: a number of a shape is not finite.
            ImportError: Pillow is not installed.
        """
        shown = self._last_shown() if tensordict is None else tensordict
        self._check_shown(shown)
        with torch.no_grad():
            return self._picture(self._read(shown)).draw(tuple(shown.batch_size))

    def _image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the picture of one state; nothing is drawn."""
        width, height = self._picture(self._read(self.state_spec.zero())).size
        return height, width, 3

    def _check_shown(self, shown: TensorDictBase) -> None:
        """Refuse a tensordict without the state, or with one of another shape."""
        for entry in self._env_layout.state.entries:
            value = shown.get(entry.leaf.key, None)
            if value is None:
                raise KeyError(
                    f"{type(self).__name__}.render needs the state key {entry.leaf.key!r}; the tensordict has"
                    f" {sorted(map(str, shown.keys(True, True)))}"
                )
            expected = (*shown.batch_size, *entry.shape)
            if tuple(value.shape) != expected:
                raise RuntimeError(
                    f"{type(self).__name__}.render: {entry.leaf.key!r} should have shape {list(expected)},"
                    f" found {list(value.shape)}"
                )

    # what was returned last

    def _show(self, returned: TensorDictBase, root: TensorDictBase | None = None, mask: str = "") -> None:
        """Keep what is returned; where `root` has a `mask`, the other rows are as they are there."""
        if not is_traced():
            held = None if root is None else peek(root, mask)
            self.__dict__["_shown"] = (returned, root if held is not None else None, held)

    def _last_shown(self) -> TensorDictBase:
        shown = self.__dict__.get("_shown")
        if shown is None:
            raise RuntimeError(
                f"{type(self).__name__}.render: nothing was reset yet; call reset first, or pass a tensordict, such as"
                " what a rollout returned, which keeps nothing here"
            )
        returned, root, mask = shown
        if root is None:
            return cast("TensorDictBase", returned)
        kept = returned.empty()
        for entry in self._env_layout.state.entries:
            key = entry.leaf.key
            new, old = returned.get(key), root.get(key, None)
            kept.set(
                key, new if old is None else torch.where(_over(mask, new, len(self._batch_size)), new, old)
            )
        return cast("TensorDictBase", kept)

    def reset(self, tensordict: D | None = None, **kwargs: Any) -> D:
        """Start new episodes; see `EnvBase.reset`."""
        root = super().reset(tensordict, **kwargs)
        self._show(root)
        return root

    def step(self, tensordict: D) -> D:
        """Advance by one step; see `EnvBase.step`."""
        stepped = super().step(tensordict)
        self._show(peek(stepped, "next"))
        return stepped

    def step_and_maybe_reset(self, tensordict: D) -> tuple[D, D]:
        """Advance by one step, then reset the environments that are done; see `EnvBase`."""
        stepped, root = super().step_and_maybe_reset(tensordict)
        self._show(root)
        return stepped, root

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        fresh = super()._reset(tensordict, **kwargs)
        self._show(fresh.copy(), tensordict, "_reset")  # transforms around it write into what it returns
        return fresh

    def _step(self, tensordict: Any) -> Any:
        following = super()._step(tensordict)
        self._show(following.copy(), tensordict, "_step")
        return following

    def __getstate__(self) -> dict[str, Any]:
        # copies and other processes have not shown anything yet
        return {name: value for name, value in self.__dict__.items() if name != "_shown"}


def _over(mask: Tensor, value: Tensor, ndim: int) -> Tensor:
    """A mask of the rows of a batch, as it broadcasts over a value."""
    rows = mask.reshape(*mask.shape[:ndim], -1).any(-1)
    return rows.reshape(rows.shape + (1,) * (value.ndim - ndim))
