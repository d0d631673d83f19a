"""Collectors: batches of transitions, collected over episodes by a policy."""

from specgen_runtime.collectors.collector import Collector
from specgen_runtime.collectors.trajectories import split_trajectories

__all__ = ["Collector", "split_trajectories"]
