"""`VmapModule`: modules that are given a batch dimension more than they know."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.modules import VmapModule
from tensordict import TensorDict
from tensordict.nn import TensorDictModule


def summed() -> TensorDictModule:
    """Sums over the first dimension that it sees: which one that is depends on the one that is hidden."""
    return TensorDictModule(lambda x: x.cumsum(0), in_keys=["x"], out_keys=["y"])


def data() -> TensorDict:
    return TensorDict({"x": torch.arange(24.0).reshape(4, 2, 3), "kept": torch.ones(4, 2)}, [4, 2])


@pytest.mark.peers
@pytest.mark.parametrize("mock", [False, True])
@pytest.mark.parametrize("dim", [0, 1, None])
def test_the_numbers_are_torchrls(dim: int | None, mock: bool) -> None:
    theirs = pytest.importorskip("torchrl.modules")
    given, other = data(), data()
    made, expected = VmapModule(summed(), dim, mock)(given), theirs.VmapModule(summed(), dim, mock)(other)
    assert made is given
    assert set(made.keys()) == {"x", "y", "kept"}
    torch.testing.assert_close(made["y"], expected["y"])
    assert torch.equal(made["x"], data()["x"])


def test_mock_can_be_switched() -> None:
    """`item` is what `torch.vmap` can't map."""
    module = VmapModule(TensorDictModule(lambda x: x * x.max().item(), in_keys=["x"], out_keys=["y"]), 0)
    with pytest.raises(RuntimeError, match="vmap"):
        module(data())
    module.mock_()
    x = data()["x"]
    torch.testing.assert_close(module(data())["y"], x * x.amax((1, 2), keepdim=True))


def test_gradients_reach_the_module() -> None:
    layer = torch.nn.Linear(3, 1)
    module = VmapModule(TensorDictModule(layer, in_keys=["x"], out_keys=["y"]), 1)
    module(data())["y"].sum().backward()
    torch.testing.assert_close(layer.weight.grad, data()["x"].sum((0, 1)).unsqueeze(0))


@pytest.mark.parametrize("dim", [2, -3])
def test_a_dimension_that_is_not_there(dim: int) -> None:
    with pytest.raises(
        ValueError, match=rf"maps batch dimension {dim}, got a tensordict of batch size \[4, 2\]"
    ):
        VmapModule(summed(), dim)(data())
    with pytest.raises(ValueError, match=r"batch size \[\]"):
        VmapModule(summed())(TensorDict({"x": torch.ones(3)}))


@pytest.mark.peers
def test_modules_that_draw() -> None:
    """Each entry has draws of its own, as where the module is called for each; TorchRL's refuses to draw."""
    theirs = pytest.importorskip("torchrl.modules")
    drawing = TensorDictModule(lambda x: x + torch.randn_like(x), in_keys=["x"], out_keys=["y"])
    with pytest.raises(RuntimeError, match="random"):
        theirs.VmapModule(drawing, 0)(data())
    drawn = VmapModule(drawing, 0)(data())["y"] - data()["x"]
    assert len(drawn.flatten().unique()) == 24
    same = VmapModule(drawing, 0, randomness="same")(data())["y"] - data()["x"]
    torch.testing.assert_close(same, same[:1].expand_as(same))
    with pytest.raises(RuntimeError, match="random"):
        VmapModule(drawing, 0, randomness="error")(data())
    with pytest.raises(ValueError, match="randomness is 'different', 'same' or 'error', got 'each'"):
        VmapModule(drawing, 0, randomness="each")  # type: ignore[arg-type]
