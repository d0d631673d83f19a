"""What a user's class returns is compared with the declaration; messages say which method, key and value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from tests.python_envs.support import envs

Modules = tuple[ModuleType, ModuleType]
STEP = r"Walk: python_envs_user:Walk\.step"
RESET = r"Walk: python_envs_user:Walk\.reset"


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Modules]:
    with envs(tmp_path_factory.mktemp("python_boundary")) as made:
        yield made


def changed(
    modules: Modules, monkeypatch: pytest.MonkeyPatch, method: str, change: Callable[[Any], Any]
) -> None:
    """Let a method of `Walk` return something else than the right record."""
    right = getattr(modules[1].Walk, method)
    monkeypatch.setattr(modules[1].Walk, method, lambda self, *args: change(right(self, *args)))


def one_step(modules: Modules, **keywords: Any) -> None:
    env = modules[0].Walk(**{"batch_size": (4,), **keywords})
    env.step(env.rand_action(env.reset()))


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda r: None, TypeError, "must return a WalkStep, found NoneType"),
        (lambda r: tuple(r), TypeError, "must return a WalkStep, found tuple"),
        (lambda r: r._asdict(), TypeError, "must return a WalkStep, found dict"),
        (lambda r: r._replace(x=None), TypeError, r"'x' as torch.float64 \[4\], found NoneType"),
        (lambda r: r._replace(x=np.zeros(4)), TypeError, r"'x' as torch.float64 \[4\], found ndarray"),
        (
            lambda r: r._replace(x=r.x.float()),
            RuntimeError,
            r"'x' as torch.float64 \[4\], found torch.float32 \[4\]",
        ),
        (
            lambda r: r._replace(walkers_y=r.walkers_y[:, 0]),
            RuntimeError,
            r"\('walkers', 'y'\) as torch.float32 \[4, 2, 3\], found torch.float32 \[4, 3\]",
        ),
        (
            lambda r: r._replace(observation=r.observation[0]),
            RuntimeError,
            r"'observation' as torch.float32 \[4, 2\], found torch.float32 \[2\]",
        ),
        (
            lambda r: r._replace(reward=r.reward[:, None]),
            RuntimeError,
            r"'reward' as torch.float32 \[4\], found torch.float32 \[4, 1\]",
        ),
        (
            lambda r: r._replace(reward=r.reward.double()),
            RuntimeError,
            r"'reward' as torch.float32 \[4\], found torch.float64 \[4\]",
        ),
        (
            lambda r: r._replace(terminated=r.terminated.long()),
            RuntimeError,
            r"'terminated' as torch.bool \[4\], found torch.int64 \[4\]",
        ),
        (
            lambda r: r._replace(walkers_truncated=r.truncated),
            RuntimeError,
            r"\('walkers', 'truncated'\) as torch.bool \[4, 2\], found torch.bool \[4\]",
        ),
    ],
)
def test_wrong_steps(
    modules: Modules,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Any], Any],
    error: type[Exception],
    said: str,
) -> None:
    changed(modules, monkeypatch, "step", change)
    with pytest.raises(error, match=f"{STEP} must return.*{said.removeprefix('must return')}$"):
        one_step(modules)


def test_a_wrong_reset(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(modules, monkeypatch, "reset", lambda r: r._replace(observation=r.observation.double()))
    with pytest.raises(
        RuntimeError,
        match=rf"{RESET} must return 'observation' as torch.float32 \[4, 2\], found torch.float64 \[4, 2\]",
    ):
        one_step(modules)


def test_rows_are_counted_whatever_the_batch(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(modules, monkeypatch, "reset", lambda r: r._replace(x=r.x.reshape(4, 3)))
    with pytest.raises(RuntimeError, match=r"'x' as torch.float64 \[12\], found torch.float64 \[4, 3\]"):
        one_step(modules, batch_size=(4, 3))


def test_another_device(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(modules, monkeypatch, "reset", lambda r: r._replace(x=r.x.to("meta")))
    with pytest.raises(
        RuntimeError, match=r"'x' as torch.float64 \[4\] on cpu, found torch.float64 \[4\] on meta"
    ):
        one_step(modules, device="cpu")


def test_the_names_of_chains_are_their_own(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(modules, monkeypatch, "step", lambda r: r._replace(x=r.x.float()))
    env = modules[0].WalkTrain()
    with pytest.raises(
        RuntimeError, match=r"WalkTrain: python_envs_user:Walk\.step must return 'x' as torch.float64 \[1\]"
    ):
        env.rollout(3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda r: r._replace(x=r.x.clone().index_fill_(0, torch.tensor([2]), 11.0)),
            "'x' outside its domain: row 2 is 11.0",
        ),
        (
            lambda r: r._replace(observation=r.observation * torch.nan),
            "'observation' outside its domain: row 0 holds NaN",
        ),
        (
            lambda r: r._replace(reward=r.reward.index_fill(0, torch.tensor([3]), torch.nan)),
            "'reward' outside its domain: row 3 holds NaN",
        ),
    ],
)
def test_domains_are_checked_if_asked_for(
    modules: Modules, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any], said: str
) -> None:
    changed(modules, monkeypatch, "step", change)
    one_step(modules)
    with pytest.raises(ValueError, match=f"{STEP} returned {said}"):
        one_step(modules, check_domains=True)


@pytest.mark.parametrize("what", ["x", "walkers_y", "action"])
@pytest.mark.parametrize("batch", [(4,), (), (2, 2)], ids=str)
def test_changes_in_place(
    modules: Modules, monkeypatch: pytest.MonkeyPatch, what: str, batch: tuple[int, ...]
) -> None:
    right = modules[1].Walk.step

    def careless(self: Any, state: Any, push: Any, *rest: Any) -> Any:
        result = right(self, state, push, *rest)
        (push if what == "action" else getattr(state, what)).mul_(0.5)
        return result

    monkeypatch.setattr(modules[1].Walk, "step", careless)
    with pytest.raises(RuntimeError, match=f"{STEP} changed {what} in place"):
        one_step(modules, batch_size=batch)


def test_a_buffer_that_is_returned_again(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    right, buffer = modules[1].Walk.step, torch.zeros(4, 2)

    def thrifty(self: Any, *args: Any) -> Any:
        result = right(self, *args)
        return result._replace(observation=buffer.copy_(result.observation))

    monkeypatch.setattr(modules[1].Walk, "step", thrifty)
    with pytest.raises(RuntimeError, match=f"{STEP} changed a tensor that it returned before in place"):
        modules[0].Walk(batch_size=(4,)).rollout(3, break_when_any_done=False)


def test_changes_by_others_are_theirs(modules: Modules) -> None:
    env = modules[0].Walk(batch_size=(4,))
    root = env.reset()
    for _ in range(3):
        root["observation"].mul_(0.0)
        _, root = env.step_and_maybe_reset(env.rand_action(root))


# simulators


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"level": "high"}, TypeError, "'level' must be numbers, got 'high'"),
        ({"count": [1.5]}, ValueError, r"'count' must be whole numbers for dtype torch.int64, got \[1.5\]"),
        ({"count": 1}, RuntimeError, r"must return 'count' as torch.int64 \[1\], found torch.int64 \[\]"),
        ({"count": torch.zeros(1)}, RuntimeError, r"'count' as torch.int64 \[1\], found torch.float32 \[1\]"),
        ({"terminated": 1}, TypeError, "'terminated' must be bool, found 1"),
        (
            {"truncated": torch.tensor(0)},
            RuntimeError,
            r"'truncated' as torch.bool \[\], found torch.int64 \[\]",
        ),
        ({"reward": None}, TypeError, "'reward' must be numbers, got None"),
    ],
)
def test_wrong_values_of_a_simulator(
    modules: Modules,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, Any],
    error: type[Exception],
    said: str,
) -> None:
    right = modules[1].Counter.step
    monkeypatch.setattr(
        modules[1].Counter, "step", lambda self, action: right(self, action)._replace(**given)
    )
    env = modules[0].Counter()
    with pytest.raises(error, match=rf"Counter: python_envs_user:Counter\.step.*{said}"):
        env.rollout(2)


@pytest.mark.parametrize(
    "given",
    [
        {"level": np.float64(0.5)},
        {"level": torch.tensor(0.5)},
        {"count": np.array([3], np.int8)},
        {"count": (7,)},
        {"reward": 1},
        {"terminated": np.bool_(False)},
        {"terminated": torch.tensor(False)},
    ],
    ids=str,
)
def test_right_values_of_a_simulator(
    modules: Modules, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    right = modules[1].Counter.step
    monkeypatch.setattr(
        modules[1].Counter, "step", lambda self, action: right(self, action)._replace(**given)
    )
    data = modules[0].Counter().rand_step()["next"]
    for key, value in given.items():
        assert data[key].flatten().tolist() == np.asarray(value).flatten().tolist()
    assert data["count"].dtype is torch.int64
    assert data["level"].dtype is torch.float32


def test_what_a_simulator_returns_is_copied(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    right, buffer = modules[1].Counter.step, np.zeros(1, np.int64)

    def thrifty(self: Any, action: Any) -> Any:
        result = right(self, action)
        buffer[:] = result.count
        return result._replace(count=buffer)

    monkeypatch.setattr(modules[1].Counter, "step", thrifty)
    data = modules[0].Counter().rollout(5)
    assert data["next", "count"].flatten().tolist() == [1, 2, 3, 4, 5]


def test_domains_of_a_simulator(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    right = modules[1].Counter.step
    monkeypatch.setattr(
        modules[1].Counter, "step", lambda self, action: right(self, action)._replace(count=[101])
    )
    modules[0].Counter().rollout(2)
    with pytest.raises(ValueError, match="'count' outside its domain: row 0 is"):
        modules[0].Counter(check_domains=True).rollout(2)
