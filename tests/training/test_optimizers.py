"""Adam, AdamW and the clipping of gradients give torch's numbers, bit by bit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.training import Adam, AdamW, clip_grad_norm_
from torch import nn

PAIRS: list[tuple[Any, Any]] = [(Adam, torch.optim.Adam), (AdamW, torch.optim.AdamW)]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


def backward(net: nn.Module, step: int) -> None:
    data = torch.randn(16, 3, generator=torch.Generator().manual_seed(step))
    net(data).pow(2).mean().backward()


def train(net: nn.Module, optimizer: torch.optim.Optimizer, steps: range, backward: Any = backward) -> None:
    for step in steps:
        optimizer.param_groups[0]["lr"] = 0.01 / (1 + step)
        optimizer.zero_grad()
        backward(net, step)
        optimizer.step()


def same(ours: nn.Module, theirs: nn.Module) -> bool:
    return all(
        torch.equal(one, other) for one, other in zip(ours.parameters(), theirs.parameters(), strict=True)
    )


def near(ours: nn.Module, theirs: nn.Module) -> bool:
    return all(
        torch.allclose(one, other, rtol=1e-5)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True)
    )


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often torch's own step was taken."""
    calls, whole = [0], torch.optim.Adam.step

    def step(self: Any, *given: Any) -> Any:
        calls[0] += 1
        return whole(self, *given)

    step.hooked = getattr(whole, "hooked", False)  # type: ignore[attr-defined]
    monkeypatch.setattr(torch.optim.Adam, "step", step)
    return calls


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize(
    "options", [{}, {"betas": (0.5, 0.9), "eps": 1e-5}, {"weight_decay": 0.1}, {"weight_decay": 0.0}]
)
def test_steps(ours: Any, theirs: Any, options: dict[str, Any]) -> None:
    mine, peer = network(), network()
    train(mine, ours(mine.parameters(), **options), range(5))
    train(peer, theirs(peer.parameters(), fused=True, **options), range(5))
    assert same(mine, peer)
    assert not same(mine, network())


def test_only_the_first_step_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network()
    optimizer = Adam(net.parameters())
    calls = counted(monkeypatch)
    train(net, optimizer, range(5))
    assert calls == [1]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_groups_and_parameters_without_gradients(ours: Any, theirs: Any) -> None:
    def half(net: nn.Module, step: int) -> None:
        backward(net, step)
        if step % 2:
            net[0].bias.grad = None  # type: ignore[index, union-attr]

    def groups(net: nn.Sequential) -> list[dict[str, Any]]:
        return [{"params": net[0].parameters()}, {"params": net[2].parameters(), "lr": 0.1}]

    mine, peer = network(), network()
    train(mine, ours(groups(mine)), range(6), half)
    train(peer, theirs(groups(peer), fused=True), range(6), half)
    assert same(mine, peer)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_layouts_are_compared(ours: Any, theirs: Any) -> None:
    """Torch's fused kernel walks through memory: its step without it, one parameter after the other, tells what is right."""

    def by_hand(net: nn.Module, step: int) -> None:
        backward(net, step)
        if step != 1:
            weight = net[0].weight  # type: ignore[index]
            weight.grad = weight.grad.t().contiguous().t()

    mine, peer = network(), network()
    first = ours(mine.parameters())
    train(mine, first, range(3), by_hand)
    second = theirs(peer.parameters(), foreach=False)
    train(peer, second, range(3), by_hand)
    assert near(mine, peer)
    state = copy.deepcopy(first.state_dict())
    for each in state["state"].values():
        each["exp_avg"] = (
            each["exp_avg"].t().contiguous().t() if each["exp_avg"].ndim == 2 else each["exp_avg"]
        )
    first.load_state_dict(state)
    train(mine, first, range(3, 5))
    train(peer, second, range(3, 5))
    assert near(mine, peer)
    net = mine[0]
    net.weight.data = (
        net.weight.data.t().contiguous().t()
    )  # after the first steps, as `Module.to(memory_format=...)` does
    train(mine, first, range(5, 8))
    train(peer, second, range(5, 8))
    assert near(mine, peer)
    net.weight.data = net.weight.data.contiguous()
    train(mine, first, range(8, 10))
    train(peer, second, range(8, 10))
    assert near(mine, peer)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_parameters_with_gaps_in_memory(ours: Any, theirs: Any) -> None:
    def gapped(net: nn.Sequential) -> nn.Sequential:
        net[0].weight = nn.Parameter(torch.cat([net[0].weight.data, torch.ones(8, 3)], 1)[:, :3])  # type: ignore[arg-type]
        return net

    mine, peer = gapped(network()), gapped(network())
    whole = mine[0].weight.data.as_strided((8, 6), (6, 1))
    train(mine, ours(mine.parameters()), range(4))
    train(peer, theirs(peer.parameters(), foreach=False), range(4))
    assert near(mine, peer)
    assert (whole[:, 3:] == 1).all()


def test_a_closure_in_another_layout() -> None:
    mine, peer = network(), network()
    for net, optimizer in (
        (mine, Adam(mine.parameters())),
        (peer, torch.optim.Adam(peer.parameters(), foreach=False)),
    ):

        def closure(net: nn.Sequential = net) -> float:
            backward(net, 0)
            net[0].weight.grad = net[0].weight.grad.t().contiguous().t()  # type: ignore[union-attr]
            return 1.0

        optimizer.step(closure)
    assert near(mine, peer)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_the_state_is_torchs(ours: Any, theirs: Any) -> None:
    mine = network()
    first = ours(mine.parameters())
    train(mine, first, range(3))
    peer = copy.deepcopy(mine)
    second = theirs(peer.parameters(), fused=True)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    again = copy.deepcopy(mine)
    third = ours(again.parameters())
    third.load_state_dict(copy.deepcopy(second.state_dict()))
    for net, optimizer in ((mine, first), (peer, second), (again, third)):
        train(net, optimizer, range(3, 6))
    assert same(mine, peer)
    assert same(mine, again)


def test_numbers_of_steps_are_counted_for_each_parameter() -> None:
    """They stand in one tensor: others may count, replace or copy them, and parameters may miss steps."""

    def uneven(net: nn.Module, step: int) -> None:
        backward(net, step)
        if step in (1, 6):
            net[2].weight.grad = None  # type: ignore[index, union-attr]

    def counts(optimizer: torch.optim.Optimizer) -> list[float]:
        return [float(each["step"]) for each in optimizer.state.values()]

    mine, peer = network(), network()
    ours, theirs = Adam(mine.parameters()), torch.optim.Adam(peer.parameters(), fused=True)
    for steps in (range(3), range(3, 5), range(5, 8)):
        train(mine, ours, steps, uneven)
        train(peer, theirs, steps, uneven)
        assert counts(ours) == counts(theirs)
        assert same(mine, peer)
        before = copy.deepcopy(ours.state_dict())
        torch.optim.Adam.step(ours)  # counts each by itself
        assert counts(ours) == [count + 1 for count in counts(theirs)]
        ours.load_state_dict(before)
        mine.load_state_dict(peer.state_dict())
    assert counts(theirs) == [8.0, 8.0, 6.0, 8.0]
    copied = copy.deepcopy((mine, ours))
    train(*copied, range(8, 10))
    assert counts(ours) == counts(theirs)


def test_hooks_and_closures() -> None:
    net = network()
    optimizer = Adam(net.parameters())
    train(net, optimizer, range(2))
    seen: list[str] = []
    before = optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    after = optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    train(net, optimizer, range(2, 3))
    assert seen == ["before", "after"]
    before.remove()
    after.remove()
    train(net, optimizer, range(3, 4))
    assert seen == ["before", "after"]
    assert optimizer.step(lambda: 3.0) == 3.0


def test_a_scheduler_of_torch() -> None:
    net = network()
    optimizer = Adam(net.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    backward(net, 0)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_scaled_gradients() -> None:
    def scaled(make: Callable[[Any], torch.optim.Optimizer]) -> nn.Module:
        net = network()
        optimizer, scaler = make(net.parameters()), torch.amp.GradScaler("cpu", init_scale=8.0)
        for step in range(3):
            optimizer.zero_grad()
            data = torch.randn(16, 3, generator=torch.Generator().manual_seed(step))
            scaler.scale(net(data).pow(2).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        return net

    assert same(scaled(Adam), scaled(lambda given: torch.optim.Adam(given, fused=True)))


def test_gradients_of_two_dtypes() -> None:
    def two(net: nn.Sequential) -> nn.Sequential:
        net[2].double()
        return net

    def forward(net: nn.Module, step: int) -> None:
        hidden = net[:2](torch.randn(16, 3, generator=torch.Generator().manual_seed(step)))  # type: ignore[index]
        net[2](hidden.double()).pow(2).mean().backward()  # type: ignore[index, operator]

    mine, peer = two(network()), two(network())
    train(mine, Adam(mine.parameters()), range(3), forward)
    train(peer, torch.optim.Adam(peer.parameters(), fused=True), range(3), forward)
    assert same(mine, peer)
    norms = [
        one([*net.parameters()], 1e-3)
        for one, net in ((clip_grad_norm_, mine), (nn.utils.clip_grad_norm_, peer))
    ]
    assert torch.equal(*norms)


def test_gradients_set_to_zero() -> None:
    net = network()
    optimizer = Adam(net.parameters())
    backward(net, 0)
    optimizer.zero_grad(set_to_none=False)
    assert all(not parameter.grad.any() for parameter in net.parameters() if parameter.grad is not None)
    assert net[0].bias.grad is not None
    optimizer.zero_grad()
    assert net[0].bias.grad is None


@pytest.mark.parametrize("max_norm", [1e-3, 1e3])
def test_clipping(max_norm: float) -> None:
    mine, peer = network(), network()
    for net in (mine, peer):
        backward(net, 0)
        net[2].bias.grad = None
    ours = clip_grad_norm_([*mine.parameters()], max_norm)
    theirs = nn.utils.clip_grad_norm_(peer.parameters(), max_norm)
    assert torch.equal(ours, theirs)
    for one, other in zip(mine.parameters(), peer.parameters(), strict=True):
        assert (one.grad is None and other.grad is None) or torch.equal(one.grad, other.grad)


def test_nothing_to_clip() -> None:
    assert clip_grad_norm_([*network().parameters()], 1.0) == 0.0
