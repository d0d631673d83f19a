"""Where policies write what they draw and its log-probability."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

from torch import nn

from specgen_runtime.envs.keys import as_tuple, join_key
from specgen_runtime.typing import NestedKey


class PolicyKeys(NamedTuple):
    """Where a policy writes; None where it does not say one key.

    Attributes:
        sample: what it draws; of several parts what holds all of them.
        log_prob: its log-probability.
    """

    sample: NestedKey | None
    log_prob: NestedKey | None


def written_by_policy(policy: nn.Module) -> PolicyKeys:
    """Where a policy writes what it draws and its log-probability, by its ``dist_sample_keys`` and ``log_prob_keys``."""
    samples: list[NestedKey] = list(getattr(policy, "dist_sample_keys", None) or ())
    log_probs: list[NestedKey] = list(getattr(policy, "log_prob_keys", None) or ())
    return PolicyKeys(_holding(samples), log_probs[0] if len(log_probs) == 1 else None)


def _holding(keys: list[NestedKey]) -> NestedKey | None:
    """The key of what holds the entries of all ``keys``; None if that is nothing but the data."""
    names = zip(*map(as_tuple, keys), strict=False)
    path = [one[0] for one in takewhile(lambda level: len(set(level)) == 1, names)]
    return join_key(path) if path else None
