"""`RayService`: objects in Ray actors."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.services import RayService, actor_options, described
from specgen_runtime.services import ray as services_ray
from tensordict import TensorDict

from tests.python_processes import run_python


class Counter:
    """Counts; fails when it is told to."""

    def __init__(self, start: int) -> None:
        self.count = start

    def add(self, by: int = 1) -> int:
        self.count += by
        return self.count

    def fail(self) -> None:
        raise KeyError("such a thing")

    def same(self, data: Any) -> Any:
        return data

    def resources(self) -> dict[str, float]:
        import ray

        found: dict[str, float] = ray.get_runtime_context().get_assigned_resources()
        return found

    def process(self) -> int:
        return os.getpid()

    def wait_for(self, file: str) -> int:
        while not Path(file).exists():
            time.sleep(0.01)
        return os.getpid()


SHARED = partial(
    RayService, partial(Counter, 0), what="counter", settings={"start": "0"}, actor_name="counter", replicas=2
)


def add_from_elsewhere(pickled: bytes) -> list[list[int]]:
    """Add one to both counters, by their name and by a copy of the service."""
    return [service.call_all("add") for service in (SHARED(), pickle.loads(pickled))]


@pytest.mark.slow
def test_replicas_with_a_name(ray_cluster: None, tmp_path: Path) -> None:
    first = SHARED(lifetime="detached")

    # calls: results, exceptions, tensors
    assert first.call_all("resources") == [{}, {}]
    assert first.call_all("add", by=4) == [4, 4]
    assert [first.call("add") for _ in range(4)] == [5, 5, 6, 6]  # in turn
    data = TensorDict(
        a=torch.arange(3), b=TensorDict(c=torch.ones(3, dtype=torch.bfloat16), batch_size=[3]), batch_size=[3]
    )
    back = first.call("same", data)
    assert back.batch_size == (3,)
    assert torch.equal(back["b", "c"], data["b", "c"])
    with pytest.raises(KeyError, match="such a thing") as raised:
        first.call("fail")
    assert "the Ray actor of this counter" in raised.value.__notes__[0]
    with pytest.raises(AttributeError, match="nothing"):
        first.call_all("nothing")

    # one that is busy is passed over
    go, answers = tmp_path / "go", []
    waiting = threading.Thread(target=lambda: answers.append(first.call("wait_for", str(go))))
    waiting.start()
    while not any(first._unanswered):
        time.sleep(0.01)
    others = {first.call("process") for _ in range(3)}
    go.touch()
    waiting.join()
    assert len(others) == 1
    assert others.isdisjoint(answers)

    # the same name, the same actors
    with pytest.raises(
        ValueError, match="'counter' is another counter: replicas is 2, not 1; start is 0, not 5"
    ):
        SHARED(settings={"start": "5"}, replicas=1)
    second = SHARED()
    assert second.call_all("add") == [7, 7]
    third = pickle.loads(pickle.dumps(second))
    import ray

    found = ray.remote(num_cpus=0)(add_from_elsewhere).remote(pickle.dumps(second))
    assert ray.get(found) == [[8, 8], [9, 9]]
    second.close()
    with pytest.raises(RuntimeError, match="this counter in a Ray actor is closed"):
        second.call("add")
    assert third.call_all("add") == [10, 10]
    first.close()
    third.close()
    services_ray._NAMED.clear()  # as when the process that made them ends: detached actors stay
    again = SHARED()
    assert again.call_all("add") == [11, 11]

    # one that dies is an error at once
    os.kill(again.call("process"), signal.SIGKILL)
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="the actor of this counter is gone"):
        again.call_all("add")
    assert time.monotonic() - begin < 30
    pickled = pickle.dumps(again)
    again.kill()
    assert again.closed
    with pytest.raises(RuntimeError, match="the actor of this counter is gone"):
        pickle.loads(pickled).call_all("process")


@pytest.mark.slow
def test_an_actor_that_finds_no_place(ray_cluster: None) -> None:
    with pytest.raises(TimeoutError, match=r"did not start within 1 seconds; free in the cluster: .* 0 GPUs"):
        RayService(partial(Counter, 0), what="counter", num_gpus=5, timeout=1.0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_gpus": -1}, "num_gpus is 0 or more, got -1"),
        ({"replicas": 0}, "replicas is a whole number from 1 on, got 0"),
        ({"timeout": 0.0}, "timeout is a number of seconds above 0, got 0.0"),
        ({"actor_name": ""}, "actor_name is empty"),
        ({"lifetime": "forever", "actor_name": "a"}, "lifetime is None or 'detached', got 'forever'"),
        ({"lifetime": "detached"}, "lifetime='detached' needs actor_name"),
    ],
)
def test_options_are_checked_before_anything_starts(options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        RayService(partial(Counter, 0), what="counter", **options)
    if "actor_name" in options:
        with pytest.raises(ValueError, match=r"actor_name.*: only with use_ray_service=True"):
            actor_options(False, **options)


def test_what_can_not_be_sent_is_said_before_anything_starts() -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match="what makes the counter can't be sent to an actor"):
        RayService(lambda: lock, what="counter")


FOLDER = "models/a"


def local(by: int) -> Callable[[int], int]:
    return lambda value: value + by


def other(by: int) -> Callable[[int], int]:
    return lambda value: value - by


def named(prefix: str) -> Callable[[], str]:
    def of_folder(times: int = 1) -> str:
        return prefix + FOLDER if times == 1 else of_folder(times - 1)

    return of_folder


def test_arguments_are_compared_by_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Counter(3)
    texts = [
        described(value)
        for value in (
            *(None, 1, 1.0, "1", [1], [1, 2], {"a": 1}, torch.float32, torch.device("cpu")),
            *(Counter, partial(Counter, 1), partial(Counter, start=1), partial(partial(Counter, 1), 2)),
            *(local, other, local(1), local(2), other(1), named("a"), named("b")),
            *(Counter(1), counter, counter.add, counter.same, torch.ones(2)),
        )
    ]
    assert len({*texts}) == len(texts)
    assert described(partial(Counter, 1)).endswith("test_service.Counter(1)")
    for left, right in (
        (local(1), local(1)),
        ((1, "a"), [1, "a"]),
        (partial(Counter, a=1, b=2), partial(Counter, b=2, a=1)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (torch.ones(2), torch.ones(2)),
        (counter.add, counter.add),
    ):
        assert described(left) == described(right)
    before = described(named("a"))
    assert before == described(named("a"))
    monkeypatch.setitem(globals(), "FOLDER", "models/b")
    assert before != described(named("a"))


def test_arguments_are_the_same_in_another_process() -> None:
    program = (
        "from functools import partial\nfrom specgen_runtime.services import described\npath = 'a'\n"
        "text = described([partial(lambda x: x in {'one', 'two', path}, 1), {'b': (1, 'x'), 'a': None}])\nprint(text)"
    )
    here: dict[str, Any] = {"__name__": "__main__"}
    exec(program, here)
    there = run_python("-c", program)  # whose hashes of texts are others than here
    assert there.stdout.strip() == here["text"], there.stderr
