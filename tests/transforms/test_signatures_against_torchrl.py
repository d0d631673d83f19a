"""What constructors and methods of TorchRL's transforms ours lack: a row of docs/differences.md, or here what is to come."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import specgen_runtime.transforms as by_hand
import specgen_std.transforms as declared

pytestmark = pytest.mark.peers

NOT_YET: dict[str, set[str]] = {}
METHODS_LACKING = {
    "ActionChunkTransform": {
        "append": "theirs is a chain of two transforms, ours is one",
        "insert": "the same",
        "pop": "the same",
    },
    "ActionDiscretizer": {"custom_arange": "a function of theirs that makes the numbers of intervals"},
    "CatFrames": {
        "unfolding": "`forward` of recorded data",
    },
    "MultiAction": {"from_vla": "the keys of such models are not known here; `out_keys_inv` names them"},
    "Tokenizer": {
        "call_tokenizer_fn": "`forward`",
        "call_tokenizer_inv_fn": "`inv`",
    },
    "VecNorm": {
        "build_td_for_shared_vecnorm": "theirs raises NotImplementedError; `share_memory()`",
    },
}
LEDGER = (Path(__file__).resolve().parents[2] / "docs" / "differences.md").read_text(encoding="utf-8")
COLLECTED = {"args", "kwargs", "trsfs", "self"}


def keywords(of: Any) -> set[str]:
    return set(inspect.signature(of.__init__).parameters) - COLLECTED


def is_intended(name: str, keyword: str) -> bool:
    """Whether a row of the ledger says of a transform that it lacks a keyword, and why."""
    code = re.compile(rf"`[^`]*\b{keyword}\b[^`]*`")
    rows = [line.split(" | ") for line in LEDGER.splitlines() if line.startswith("| ")]
    return any(
        re.search(rf"\b{name}\b", row[0]) and code.search(row[0]) and row[2].strip()
        for row in rows
        if len(row) > 3
    )


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
    unsaid = {
        name: rest
        for name, missing in lacking.items()
        if (rest := {keyword for keyword in missing if not is_intended(name, keyword)})
    }
    assert unsaid == NOT_YET


def methods(of: type) -> set[str]:
    """The public methods of one of TorchRL's transforms that its transforms define."""
    own = [kind for kind in of.__mro__ if kind.__module__.startswith("torchrl.envs.transforms")]
    return {
        name
        for kind in own
        for name, value in vars(kind).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or isinstance(value, classmethod | staticmethod))
    }


def test_public_methods() -> None:
    theirs = pytest.importorskip("torchrl.envs.transforms", reason="the extra `peers`")
    lacking: dict[str, set[str]] = {}
    for name in theirs.__all__:
        ours = getattr(declared, name, None) or getattr(by_hand, name, None)
        if ours is None or not inspect.isclass(peer := getattr(theirs, name)):
            continue
        if missing := {method for method in methods(peer) if not hasattr(ours, method)}:
            lacking[name] = missing
    assert lacking == {name: set(reasons) for name, reasons in METHODS_LACKING.items()}
