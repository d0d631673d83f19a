"""When the training of a pipeline is looked at, kept and ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.check.pipelines.model import Setting


@dataclass(frozen=True)
class Until:
    """A metric of an update, and the number above which passes over a batch end."""

    metric: str
    above: Setting


@dataclass(frozen=True)
class Limits:
    """When training is looked at, kept and ended.

    Attributes:
        frames, updates: how long it goes on; one of them is None where the other says it.
        hours: after how many it ends at the latest.
        stop_return: the mean return of an evaluation that ends it.
        evaluate_every: frames, or updates where those are counted, between two evaluations.
        episodes: episodes of an evaluation.
        episode_steps: steps after which one of them counts as it is; None leaves it to `evaluate` of the runtime.
        deterministic: whether the policy takes its likeliest action there.
        checkpoint_every: frames, or updates, between two checkpoints.
        keep: how many checkpoints are kept.
        keeps_buffer: whether they hold the replay buffer.
        until: the condition under which passes over a batch end.
        measured: of groups of agents, that whose return it is.
    """

    frames: Setting | None
    updates: Setting | None
    hours: Setting | None
    stop_return: Setting | None
    evaluate_every: Setting
    episodes: Setting
    episode_steps: Setting | None
    deterministic: bool
    checkpoint_every: Setting
    keep: int
    keeps_buffer: bool = True
    measured: str | None = None
    until: Until | None = None

    @property
    def unit(self) -> Literal["frames", "updates"]:
        """What is counted."""
        return "updates" if self.frames is None else "frames"

    @property
    def total(self) -> Setting:
        """How long the training goes on, in that unit."""
        found = self.updates if self.frames is None else self.frames
        assert found is not None
        return found
