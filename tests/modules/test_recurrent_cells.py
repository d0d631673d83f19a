"""`LSTMCell` and `GRUCell`: torch's numbers and TorchRL's, compiled and mapped, too."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import GRUCell, LSTMCell
from torch import nn

CELLS = [(LSTMCell, nn.LSTMCell), (GRUCell, nn.GRUCell)]
INPUT, SIZE = 3, 5


def pair(kinds: tuple[Any, Any], **keywords: Any) -> tuple[Any, Any]:
    mine, theirs = (kind(INPUT, SIZE, dtype=torch.float64, **keywords) for kind in kinds)
    theirs.load_state_dict(mine.state_dict())
    return mine, theirs


def states(cell: Any, *shape: int) -> Any:
    one = [torch.randn(*shape, SIZE, dtype=torch.float64) for _ in range(2)]
    return tuple(one) if isinstance(cell, nn.LSTMCell) else one[0]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("kinds", CELLS, ids=["LSTM", "GRU"])
def test_mapped_and_compiled_as_torchs(kinds: tuple[Any, Any], given: bool, bias: bool) -> None:
    torch.manual_seed(0)
    mine, theirs = pair(kinds, bias=bias)
    x = torch.randn(4, 2, INPUT, dtype=torch.float64)
    before = states(mine, 4, 2) if given else None
    rows = [theirs(x[i], None if before is None else nested(before, i)) for i in range(4)]
    expected = (
        tuple(map(torch.stack, zip(*rows, strict=True))) if isinstance(rows[0], tuple) else torch.stack(rows)
    )
    mapped = torch.vmap(mine)(x, before) if given else torch.vmap(mine)(x)
    torch.testing.assert_close(mapped, expected)
    one = torch.compile(mine, fullgraph=True, backend="aot_eager")(
        x[0], None if before is None else nested(before, 0)
    )
    torch.testing.assert_close(one, rows[0])
    torch.testing.assert_close(mine(x[0], None if before is None else nested(before, 0)), rows[0])


def nested(before: Any, index: int) -> Any:
    return tuple(one[index] for one in before) if isinstance(before, tuple) else before[index]


@pytest.mark.peers
@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell"])
@pytest.mark.parametrize("shape", [(), (2,)], ids=str)
def test_gradients_are_torchrls(name: str, shape: tuple[int, ...]) -> None:
    peer = pytest.importorskip("torchrl.modules")
    torch.manual_seed(1)
    mine, theirs = pair(({"LSTMCell": LSTMCell, "GRUCell": GRUCell}[name], getattr(peer, name)))
    x, before = torch.randn(4, *shape, INPUT, dtype=torch.float64), states(mine, 4, *shape)
    found = []
    for cell in (mine, theirs):
        made = torch.vmap(cell)(x, before)
        h = made[0] if isinstance(made, tuple) else made
        h.square().sum().backward()
        found.append([h, *(parameter.grad for parameter in cell.parameters())])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("kinds", CELLS, ids=["LSTM", "GRU"])
def test_too_many_dimensions_are_refused(kinds: tuple[Any, Any]) -> None:
    mine, _ = pair(kinds)
    x = torch.zeros(2, 2, 2, INPUT, dtype=torch.float64)
    with pytest.raises(ValueError, match="2D"):
        mine(x[0])
    with pytest.raises(ValueError, match=r"input has one dimension or two, got shape \[2, 2, 3\]"):
        torch.vmap(mine)(x)
