"""Replay buffers: storages, samplers and writers, with TorchRL's names; `MultiStep` of a collector's batches."""

from specgen_runtime.data.compressed import CompressedListStorage
from specgen_runtime.data.ensemble import ReplayBufferEnsemble
from specgen_runtime.data.ensemble_parts import SamplerEnsemble, StorageEnsemble, WriterEnsemble
from specgen_runtime.data.hindsight import HERReplayBuffer, HindsightStrategy
from specgen_runtime.data.list_storages import LazyStackStorage, ListStorage
from specgen_runtime.data.max_value_writer import TensorDictMaxValueWriter
from specgen_runtime.data.multi_step import MultiStep
from specgen_runtime.data.prioritized import PrioritizedSampler
from specgen_runtime.data.prioritized_slices import PrioritizedSliceSampler
from specgen_runtime.data.recorded import MissingDataError, RecordedDataError, load_recorded
from specgen_runtime.data.replay_buffer import ReplayBuffer
from specgen_runtime.data.samplers import RandomSampler, Sampler, SamplerWithoutReplacement
from specgen_runtime.data.slices import SliceSampler, SliceSamplerWithoutReplacement
from specgen_runtime.data.storage import Storage
from specgen_runtime.data.storages import LazyMemmapStorage, LazyTensorStorage, TensorStorage
from specgen_runtime.data.tensordict_replay_buffer import (
    PrioritizedReplayBuffer,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)
from specgen_runtime.data.writers import ImmutableDatasetWriter, RoundRobinWriter, Writer

__all__ = [
    "CompressedListStorage",
    "HERReplayBuffer",
    "HindsightStrategy",
    "ImmutableDatasetWriter",
    "LazyMemmapStorage",
    "LazyStackStorage",
    "LazyTensorStorage",
    "ListStorage",
    "MissingDataError",
    "MultiStep",
    "PrioritizedReplayBuffer",
    "PrioritizedSampler",
    "PrioritizedSliceSampler",
    "RandomSampler",
    "RecordedDataError",
    "ReplayBuffer",
    "ReplayBufferEnsemble",
    "RoundRobinWriter",
    "Sampler",
    "SamplerEnsemble",
    "SamplerWithoutReplacement",
    "SliceSampler",
    "SliceSamplerWithoutReplacement",
    "Storage",
    "StorageEnsemble",
    "TensorDictMaxValueWriter",
    "TensorDictPrioritizedReplayBuffer",
    "TensorDictReplayBuffer",
    "TensorStorage",
    "Writer",
    "WriterEnsemble",
    "load_recorded",
]
