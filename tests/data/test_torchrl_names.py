"""Which classes, keywords and methods of TorchRL's replay buffers are not here: all others are."""

from __future__ import annotations

import inspect

import pytest
import specgen_runtime.data as ours

theirs = pytest.importorskip("torchrl.data.replay_buffers", reason="the extra `peers`")

pytestmark = pytest.mark.peers

CLASSES = {
    *("StoreStorage", "ConsumingSampler", "PromptGroupSampler"),
    *("StalenessAwareSampler", "StreamingSliceSampler"),
    "TensorDictRoundRobinWriter",
    *("OfflineToOnlineReplayBuffer", "RayReplayBuffer", "RemoteTensorDictReplayBuffer"),
}
"""Kinds of buffers, storages, samplers and writers."""

_BUFFER = {
    *("checkpointer", "compilable", "consume_after_n_samples", "delayed_init", "sample_unit", "shared"),
    *("service_backend", "service_backend_options", "transform_factory", "transport", "transport_options"),
}
_STORAGE = {"checkpointer", "cleanup_memmap", "compilable", "consolidated", "shared_init"}
_SLICES = {"compile", "ends", "trajectories", "use_gpu"}
KEYWORDS = {
    "ReplayBuffer": _BUFFER,
    "TensorDictReplayBuffer": _BUFFER,
    "PrioritizedReplayBuffer": {*_BUFFER, "sampler_device", "sync"},
    "TensorDictPrioritizedReplayBuffer": {*_BUFFER, "sampler_device", "sync"},
    "TensorStorage": {"checkpointer", "compilable"},
    "LazyTensorStorage": _STORAGE,
    "LazyMemmapStorage": _STORAGE,
    "ListStorage": {"checkpointer", "compilable"},
    "LazyStackStorage": {"checkpointer", "compilable"},
    "RoundRobinWriter": {"compilable"},
    "ImmutableDatasetWriter": {"compilable"},
    "TensorDictMaxValueWriter": {"compilable"},
    "RandomSampler": set(),
    "SamplerWithoutReplacement": set(),
    "PrioritizedSampler": {"device"},
    "SliceSampler": {*_SLICES, "fragmented", "step_key"},
    "SliceSamplerWithoutReplacement": {*_SLICES, "fragmented", "step_key"},
    "PrioritizedSliceSampler": {*_SLICES, "device", "fragmented", "step_key"},
    "StorageEnsemble": {"checkpointer", "compilable"},
    "SamplerEnsemble": set(),
    "WriterEnsemble": {"compilable"},
    "ReplayBufferEnsemble": {*_BUFFER, "rbs"},
}

METHODS = {
    *("as_remote", "client", "is_alive", "service_backend", "share", "shutdown", "start", "synchronize"),
    *("dump", "load", "save", "register_load_hook", "register_save_hook"),
    *("can_sample", "initialized", "query", "read_all_in_order", "stats", "write_all"),
    *("mark_update", "set_", "set_at_", "update_", "submit_update_if_present", "update_if_present"),
}


def keywords(cls: type) -> set[str]:
    """The keywords of a class and of those that it hands them on to."""
    found: set[str] = set()
    for each in cls.__mro__:
        if "__init__" in vars(each) and each is not object:
            found |= set(inspect.signature(each.__init__).parameters)  # type: ignore[misc]
    return found - {"self", "args", "kwargs", "options"}


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords(name: str) -> None:
    assert keywords(getattr(theirs, name)) - keywords(getattr(ours, name)) == KEYWORDS[name]


def test_classes() -> None:
    kinds = ("Buffer", "Storage", "Sampler", "Writer", "StorageEnsemble", "WriterEnsemble", "SamplerEnsemble")
    there = {name for name in theirs.__all__ if name.endswith((*kinds, "BufferEnsemble"))}
    assert there - set(ours.__all__) == CLASSES


def test_methods() -> None:
    mine = ours.TensorDictReplayBuffer(storage=ours.LazyTensorStorage(3))
    there = {name for name in dir(theirs.TensorDictReplayBuffer) if not name.startswith("_")}
    assert there - set(dir(mine)) == METHODS
    sample = (kind.TensorDictReplayBuffer.sample for kind in (theirs, ours))
    left_out, _ = (set(inspect.signature(method).parameters) for method in sample)
    assert left_out - {"self", "batch_size", "return_info"} == {"include_info"}
