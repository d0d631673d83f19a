"""Metrics within metrics, by whatever holds them."""

from __future__ import annotations

import torch
from specgen_runtime.training.metric_means import MetricMeans, named_metrics
from tensordict import TensorDict


def test_mapping_that_holds_a_tensordict() -> None:
    nested = TensorDict({"actor": torch.tensor(2.0), "critic": {"low": torch.tensor(3.0)}})
    means = MetricMeans()
    for _ in range(2):
        means.add({"loss": torch.tensor(1.0), "parts": nested, "plain": {"norm": 4.0}})
    taken = {name: (float(total), count) for name, (total, count) in means.take().items()}
    assert taken == {
        "loss": (2.0, 2),
        "parts/actor": (4.0, 2),
        "parts/critic/low": (6.0, 2),
        "plain/norm": (8.0, 2),
    }


def test_named_as_a_tensordict_of_the_same_nests() -> None:
    nests = {"a": {"b": torch.tensor(1.0)}, "c": torch.tensor(2.0)}
    assert sorted(named_metrics(nests)) == sorted(named_metrics(TensorDict(nests))) == ["a/b", "c"]
