"""Collectors: batches of transitions, collected over episodes by a policy."""

from specgen_runtime.collectors.base import BaseCollector
from specgen_runtime.collectors.collector import Collector
from specgen_runtime.collectors.local import MultiAsyncCollector, MultiSyncCollector
from specgen_runtime.collectors.policies import load_weights
from specgen_runtime.collectors.prepared import with_primers, with_transform
from specgen_runtime.collectors.ray import RayCollector
from specgen_runtime.collectors.trajectories import split_trajectories
from specgen_runtime.collectors.worker import WorkerLostError

__all__ = [
    "BaseCollector",
    "Collector",
    "MultiAsyncCollector",
    "MultiSyncCollector",
    "RayCollector",
    "WorkerLostError",
    "load_weights",
    "split_trajectories",
    "with_primers",
    "with_transform",
]
