"""In which order losses that are called with tensors return their outputs: that of TorchRL, then what it does not return."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tests.objectives.every_loss import KEYWORDS, losses, made, networks

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

OTHER_NAMES = {"next.state_value": "next_state_value"}
"""What is called otherwise here (docs/differences.md)."""


@pytest.mark.peers
@pytest.mark.parametrize("name", sorted(losses()))
def test_order(name: str) -> None:
    theirs: Any = getattr(pytest.importorskip("torchrl.objectives"), name, None)
    if theirs is None:
        pytest.skip("of language models: another place, and records instead of tuples")
    loss = losses()[name]
    known = inspect.signature(theirs.__init__).parameters
    keywords: dict[str, Any] = {"clip_value": 0.2} if "clip_value" in known else {}
    keywords |= {"with_lagrange": True} if "with_lagrange" in known else {}
    given = {**KEYWORDS.get(name, {}), **keywords}
    peer = theirs(**networks(loss), **given)
    wanted = [OTHER_NAMES.get(key, key) for key in getattr(peer, "out_keys", ["loss"])]
    mine = made(loss, **keywords)
    assert list(mine.out_keys)[: len(wanted)] == wanted
