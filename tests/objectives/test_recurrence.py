"""The recurrence behind the estimators, against a plain loop."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.objectives.value import recurrence
from specgen_runtime.objectives.value.recurrence import discounted_sums
from torch import Tensor

SHAPES = [
    ((7,), 0),
    ((3, 1), 1),
    ((5, 2), 1),
    ((4, 33), 1),
    ((4, 33, 2), 1),
    ((2, 3, 50, 3, 1), 2),
    ((600, 3), 0),
]


def loop(terms: Tensor, decay: Tensor, dim: int) -> Tensor:
    sums: list[Tensor] = []
    following = torch.zeros_like(terms.select(dim, 0))
    for step in range(terms.shape[dim] - 1, -1, -1):
        following = terms.select(dim, step) + decay.select(dim, step) * following
        sums.append(following)
    return torch.stack(sums[::-1], dim)


def inputs(shape: tuple[int, ...], dim: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    terms = torch.randn(shape, generator=generator, dtype=torch.float64)
    decay = torch.rand(shape, generator=generator, dtype=torch.float64)
    decay[torch.rand(shape, generator=generator) < 0.1] = 0
    decay.select(dim, -1).zero_()
    return terms.to(dtype), decay.to(dtype)


@pytest.mark.parametrize("halved_above", [0, 10, recurrence._MOST_DOUBLED])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_equals_a_loop(
    shape: tuple[int, ...], dim: int, halved_above: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrence, "_MOST_DOUBLED", halved_above)
    terms, decay = inputs(shape, dim)
    torch.testing.assert_close(
        discounted_sums(terms, decay, dim), loop(terms, decay, dim), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("length", [recurrence._LONG, recurrence._LONG + 1])
def test_as_many_entries_as_are_halved_equal_a_loop(length: int) -> None:
    """On both sides of what decides it, and a power of two more."""
    rows = recurrence._MOST_DOUBLED // length
    for shape in ((rows // 2, length), (rows * 2 + 1, length)):
        terms, decay = inputs(shape, 1)
        torch.testing.assert_close(
            discounted_sums(terms, decay, 1), loop(terms, decay, 1), rtol=0, atol=1e-10
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dtypes(dtype: torch.dtype) -> None:
    terms, decay = inputs((3, 40), 1, dtype)
    sums = discounted_sums(terms, decay, 1)
    assert sums.dtype == dtype
    exact = loop(terms.double(), decay.double(), 1)
    torch.testing.assert_close(sums.double(), exact, rtol=0, atol=40 * torch.finfo(dtype).eps)


def test_without_decay_long_sums_are_as_exact_as_a_loop() -> None:
    terms, _ = inputs((2, 2000), 1, torch.float32)
    decay = torch.ones_like(terms)
    decay[:, -1] = 0
    exact = loop(terms.double(), decay.double(), 1)
    ours = (discounted_sums(terms, decay, 1) - exact).abs().max()
    assert ours <= (loop(terms, decay, 1) - exact).abs().max()


@pytest.mark.parametrize("halved_above", [0, 2**16])
def test_gradients(halved_above: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence, "_MOST_DOUBLED", halved_above)
    terms, decay = (tensor.requires_grad_() for tensor in inputs((2, 11, 2), 1))

    def sums(terms: Tensor, decay: Tensor) -> Tensor:
        last = torch.arange(11).view(11, 1) == 10
        return discounted_sums(terms, torch.where(last, 0.0, decay), 1)

    assert torch.autograd.gradcheck(sums, (terms, decay))
    assert torch.autograd.gradgradcheck(sums, (terms, decay))


def test_vmap() -> None:
    terms, decay = inputs((4, 9, 2), 1)
    expected = discounted_sums(terms, decay, 1)
    mapped = torch.vmap(lambda a, b: discounted_sums(a, b, 0))(terms, decay)
    torch.testing.assert_close(mapped, expected)
    mapped = torch.vmap(lambda a: discounted_sums(a, decay[0], 0), in_dims=2, out_dims=2)(
        terms[0].unsqueeze(2).expand(9, 2, 3)
    )
    torch.testing.assert_close(mapped, expected[0].unsqueeze(2).expand(9, 2, 3))


def test_functional_gradients() -> None:
    terms, decay = inputs((9, 2), 0)
    gradient = torch.func.grad(lambda a: discounted_sums(a, decay, 0).square().sum())(terms)
    leaf = terms.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loop(leaf, decay, 0).square().sum(), leaf)
    torch.testing.assert_close(gradient, expected)


def test_memory_for_gradients_is_linear_in_time() -> None:
    terms, decay = inputs((3, 1000), 1)
    terms.requires_grad_()
    kept = 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        discounted_sums(terms, decay, 1)
    assert kept <= 2 * terms.numel()


def test_compiled() -> None:
    terms, decay = inputs((3, 20), 1)
    compiled = torch.compile(discounted_sums, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(terms, decay, 1), loop(terms, decay, 1))
    leaf, other = terms.clone().requires_grad_(), terms.clone().requires_grad_()
    compiled(leaf, decay, 1).square().sum().backward()
    loop(other, decay, 1).square().sum().backward()
    torch.testing.assert_close(leaf.grad, other.grad)


def test_empty() -> None:
    for shape, dim in (((0, 3), 1), ((3, 0), 1), ((3, 4, 0), 1)):
        assert discounted_sums(torch.zeros(shape), torch.zeros(shape), dim).shape == shape
