"""Where the data of a pipeline come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.check.pipelines.model import Amount, Setting

SamplerKind = Literal["uniform", "without_replacement", "prioritized", "slices"]


@dataclass(frozen=True)
class OnPolicyData:
    """Batches of what the present policy did; `minibatches` or `minibatch_size` is None."""

    num_envs: Setting
    num_steps: Setting
    epochs: Setting
    minibatch_size: Setting | None
    minibatches: Setting | None


@dataclass(frozen=True)
class ReplayData:
    """A replay buffer, and how it is filled and sampled; `gamma` discounts the rewards of `n_step` steps."""

    num_envs: Setting
    num_steps: Setting
    capacity: Setting
    batch_size: Setting
    warm_up_frames: Setting
    updates: Setting
    storage: Literal["memory", "memmap", "device"]
    sampler: SamplerKind
    alpha: Setting | None = None
    beta: Amount | None = None
    n_step: Setting | None = None
    gamma: Setting | None = None


@dataclass(frozen=True)
class RecordedData:
    """Data that are there already: a folder, and the frames of an update."""

    path: str
    batch_size: Setting


PipelineData = OnPolicyData | ReplayData | RecordedData
