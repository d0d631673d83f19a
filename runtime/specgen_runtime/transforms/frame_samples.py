"""Frames of replay buffers that are put side by side when they are sampled, so that each is stored once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tensordict import TensorDictBase

from specgen_runtime.transforms.keys import remove
from specgen_runtime.transforms.offline import recorded_moments
from specgen_runtime.transforms.replay import ReplayTransform

if TYPE_CHECKING:
    from specgen_runtime.data import SliceSampler
    from specgen_runtime.transforms.generated import GeneratedTransform

__all__ = ["FrameSamples", "StackedFrames"]


class FrameSamples:
    """How a `CatFrames` puts frames side by side that a replay buffer keeps one by one."""

    N: int
    future: bool

    def make_rb_transform_and_sampler(
        self, batch_size: int, **sampler_kwargs: Any
    ) -> tuple[StackedFrames, SliceSampler]:
        """A transform and a sampler for a replay buffer that stores single frames, and samples them stacked.

        The sampler draws parts of `N` moments of one episode, as many as the buffer's `batch_size` says; the transform
        returns the last moment of each, with `future` the first. What is written into the buffer loses its stacked frames.

        Args:
            batch_size: how many moments a sample is to have; the buffer's own says it again, and holds.
            sampler_kwargs: arguments of `SliceSampler`.

        Raises:
            ValueError: the stacked frames stand in place of the single ones, which nobody could store.
        """
        from specgen_runtime.data.slices import WholePartSampler

        frames = cast("GeneratedTransform[Any, Any]", self).clone()
        if same := [row.frame for row in cast("Any", frames).keys if row.frame == row.stacked]:
            raise ValueError(
                f"{type(self).__name__} writes {same[0]!r} in place of the frames: name other `out_keys`, so that a"
                " replay buffer can keep single ones"
            )
        cast("Any", frames).as_inverse = False
        return StackedFrames(frames, self.N, 0 if self.future else -1), WholePartSampler(
            slice_len=self.N, **sampler_kwargs
        )


class StackedFrames(ReplayTransform):
    """Stacks the frames of the parts that a `WholePartSampler` draws, and returns one moment of each.

    On the way into a replay buffer, stacked frames are left out.

    Args:
        frames: what puts them side by side.
        length: how many moments a part has.
        chosen: which of them is returned.
    """

    def __init__(self, frames: GeneratedTransform[Any, Any], length: int, chosen: int) -> None:
        super().__init__(frames.in_keys, frames.out_keys)
        self.frames = frames
        self.length = length
        self.chosen = chosen

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self.frames(tensordict.reshape(-1, self.length))[:, self.chosen]

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        for moment in recorded_moments(tensordict):
            for key in self.out_keys:
                remove(moment, key)
        return tensordict
