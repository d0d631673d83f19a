"""`Backward` compiled: the same gradients, laid out as their parameters, and errors that say what can't be compiled."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch._inductor.cpp_builder
from specgen_runtime.modules import TanhNormal, TruncatedNormal
from specgen_runtime.training import Adam, Backward, NotCompiledError, check_compiler, clip_grad_norm_
from tensordict import TensorDict
from torch import Tensor, nn
from torch._inductor.exc import InvalidCxxCompiler

CPU = torch.device("cpu")


class Weights(nn.Module):
    """Parameters of one size, whose gradients may be one tensor, and one that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.other = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(3, 4))
        self.turned, self.unread = nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(2))


def loss_of(weights: Weights, data: TensorDict) -> tuple[Tensor, TensorDict]:
    noise = torch.randn(3, 4)
    value = (weights.one + weights.other) * (data["x"] + noise) + weights.turned.T * noise
    loss = value.square().sum()
    data["error"] = value.detach()
    return loss, TensorDict({"loss": loss, "noise": noise})


def stepped(steps: int) -> tuple[Weights, TensorDict, TensorDict]:
    """Weights after compiled steps, the data with what was written, and the last outputs."""
    weights, data = Weights(), TensorDict({"x": torch.ones(3, 4)})
    optimizer, generator = Adam(weights.parameters(), lr=0.1), torch.Generator().manual_seed(5)
    before = torch.get_rng_state()
    backward = Backward(loss_of, [optimizer], generator=generator, compiled=True)
    outputs = TensorDict({})
    for _ in range(steps):
        outputs = backward(weights, data)
        clip_grad_norm_([*weights.parameters()], 0.5)
        optimizer.step()
    assert torch.equal(torch.get_rng_state(), before)
    return weights, data, outputs


def test_gradients_draws_and_what_is_written() -> None:
    weights, data, outputs = stepped(3)
    for name in ("one", "other", "turned"):
        parameter = getattr(weights, name)
        assert parameter.grad.stride() == parameter.stride()
    assert weights.one.grad is not None
    assert weights.other.grad is not None
    assert weights.one.grad.data_ptr() != weights.other.grad.data_ptr()
    assert weights.unread.grad is None
    assert not outputs["loss"].requires_grad
    # the same by hand
    peer, same = Weights(), TensorDict({"x": torch.ones(3, 4)})
    torch.manual_seed(5)
    optimizer = Adam(peer.parameters(), lr=0.1)
    for _ in range(3):
        loss, expected = loss_of(peer, same)
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_([*peer.parameters()], 0.5)
        optimizer.step()
    assert torch.equal(outputs["noise"], expected["noise"])
    torch.testing.assert_close(data["error"], same["error"])
    for mine, theirs in zip(weights.parameters(), peer.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_what_is_returned_is_detached() -> None:
    """As it is where torch compiles: there is no graph behind it any more."""
    weights, data = Weights(), TensorDict({"x": torch.ones(3, 4)})
    outputs = Backward(loss_of, [Adam(weights.parameters())])(weights, data)
    assert not any(value.requires_grad for value in outputs.values())
    assert weights.one.grad is not None


def test_many_are_compiled_apart() -> None:
    """Torch keeps eight graphs of a function; each has those of its own."""
    for _ in range(10):
        stepped(1)


def test_what_decides_by_values_is_no_graph() -> None:
    def deciding(weights: Weights, data: TensorDict) -> tuple[Tensor, TensorDict]:
        value = weights.one.sum()
        return (value if value.item() > 0 else -value), data

    weights = Weights()
    backward = Backward(deciding, [Adam(weights.parameters())], compiled=True)
    with pytest.raises(
        NotCompiledError, match=r"torch can't compile the loss and its gradients: .*`compile`"
    ):
        backward(weights, TensorDict({"x": torch.ones(3, 4)}))


@pytest.mark.parametrize("compiled", [False, True])
def test_draws_of_any_function_are_from_the_generator(compiled: bool) -> None:
    weights, before = Weights(), torch.get_rng_state()
    backward = Backward(
        loss_of,
        [Adam(weights.parameters())],
        generator=torch.Generator().manual_seed(5),
        compiled=compiled,
    )
    outputs = backward(weights, TensorDict({"x": torch.ones(3, 4)}))
    assert torch.equal(outputs["noise"], torch.randn(3, 4, generator=torch.Generator().manual_seed(5)))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("compiled", [False, True])
def test_frozen_parameters_get_no_gradients(compiled: bool) -> None:
    weights = Weights()
    weights.other.requires_grad_(False).grad = torch.ones(3, 4)
    backward = Backward(loss_of, [Adam(weights.parameters())], compiled=compiled)
    backward(weights, TensorDict({"x": torch.ones(3, 4)}))
    assert weights.one.grad is not None
    assert weights.other.grad is None


def raising(weights: Weights, data: TensorDict) -> tuple[Tensor, TensorDict]:
    raise ValueError("rows of another game")


def of_other_sizes(weights: Weights, data: TensorDict) -> tuple[Tensor, TensorDict]:
    return (data["x"] @ weights.one).sum(), data


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (raising, r"it raises ValueError\('rows of another game'\);"),
        (of_other_sizes, r"it raises RuntimeError\('a and b must have .*\[3, 4\] X \[3, 4\]"),
    ],
)
def test_what_a_compiled_function_raises_is_told(function: Any, why: str) -> None:
    weights = Weights()
    backward = Backward(function, [Adam(weights.parameters())], compiled=True)
    with pytest.raises(NotCompiledError, match=rf"gradients: {why}"):
        backward(weights, TensorDict({"x": torch.ones(3, 4)}))


def test_more_graphs_than_torch_keeps() -> None:
    weights = Weights()
    backward = Backward(
        lambda rows: (weights.one.sum() * rows.sum(), TensorDict({})),
        [Adam(weights.parameters())],
        compiled=True,
    )
    with torch._dynamo.config.patch(recompile_limit=1):
        backward(torch.ones(2))
        with pytest.raises(NotCompiledError, match=r"it has 1 graphs, .* for data of other shapes"):
            backward(torch.ones(3))


def test_errors_of_the_function_are_as_they_are() -> None:
    weights = Weights()
    plain = Backward(loss_of, [Adam(weights.parameters())])
    with pytest.raises(KeyError, match="x"):
        plain(weights, TensorDict({}))


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise InvalidCxxCompiler

    monkeypatch.setattr(torch._inductor.cpp_builder, "get_cpp_compiler", missing)
    check_compiler("compile", False, CPU)
    with pytest.raises(NotCompiledError, match="compile is true, and torch finds no C\\+\\+ compiler"):
        check_compiler("compile", True, CPU)


def test_a_torch_without_gradients_in_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specgen_runtime.training.backward._TRACED", "a_setting_that_there_is_not")
    with pytest.raises(NotCompiledError, match="compiles no gradients: take a later one"):
        check_compiler("compile", True, CPU)


def test_a_compiler_that_is_there() -> None:
    check_compiler("compile", True, CPU)
    with pytest.raises(TypeError, match="compile must be a truth value"):
        check_compiler("compile", "yes", CPU)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [TanhNormal, TruncatedNormal])
def test_draws_of_a_distribution_that_is_made_in_the_graph(
    kind: type[torch.distributions.Distribution],
) -> None:
    def scored(weights: Weights, data: TensorDict) -> tuple[Tensor, TensorDict]:
        policy: Any = kind(weights.one, weights.other.exp(), low=-1.0, high=1.0)
        action = policy.sample((2,))
        loss = -(policy.log_prob(action) * data["x"].sum(-1)).mean()
        return loss, TensorDict({"loss": loss, "action": action})

    data, outputs, weights = TensorDict({"x": torch.ones(3, 4)}), [], [Weights(), Weights()]
    for one, compiled in zip(weights, (False, True), strict=True):
        backward = Backward(scored, [Adam(one.parameters())], compiled=compiled)
        torch.manual_seed(3)
        outputs.append(backward(one, data))
    torch.testing.assert_close(outputs[1]["action"], outputs[0]["action"])
    torch.testing.assert_close(outputs[1]["loss"], outputs[0]["loss"].detach())
    torch.testing.assert_close(weights[1].one.grad, weights[0].one.grad)
