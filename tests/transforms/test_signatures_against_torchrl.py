"""The keywords of TorchRL's constructors that ours lack: each is in docs/differences.md, or has no meaning here."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import specgen_runtime.transforms as by_hand
import specgen_std.transforms as declared

pytestmark = pytest.mark.peers

LACKING = {
    "CatFrames": {"future", "mask_key"},
    "CatTensors": {"unsqueeze_if_oor"},
    "DiscreteActionProjection": {"include_forward"},
    "EndOfLifeTransform": {"eol_attribute"},
    "FlattenAction": {"action_shape"},
    "MultiAction": {"dim", "stack_observations", "action_key", "chunk_key"},
    "RNDTransform": {"normalize_obs", "normalize_reward"},
    "RandomTruncationTransform": {"done_key"},
    "Stack": {"in_key_inv", "out_keys_inv"},
    "ToTensorImage": {"shape_tolerant"},
    "TrajCounter": {"repeats"},
    "VecNorm": {"shared_td", "lock", "shapes", "new_api"},
}
COLLECTED = {"args", "kwargs", "trsfs", "self"}


def keywords(of: Any) -> set[str]:
    return set(inspect.signature(of.__init__).parameters) - COLLECTED


def test_keywords_of_constructors() -> None:
    theirs = pytest.importorskip("torchrl.envs.transforms", reason="the extra `peers`")
    lacking: dict[str, set[str]] = {}
    compared = 0
    for name in theirs.__all__:
        ours = getattr(declared, name, None) or getattr(by_hand, name, None)
        if ours is None or not inspect.isclass(peer := getattr(theirs, name)):
            continue
        compared += 1
        if missing := keywords(peer) - keywords(ours):
            lacking[name] = missing
    assert compared > 50
    assert lacking == LACKING
