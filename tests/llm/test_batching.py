"""Calls of several threads that are run together."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from specgen_runtime.llm import ChatHistory, History, TransformersWrapper
from specgen_runtime.llm.models.batching import CallBatcher
from tensordict import TensorDict, TensorDictBase

from tests.llm.conversations import CHATS, conversations, wrapped

PROMPTS = [chat[:1] for chat in CHATS]


def asked(index: int | None = None) -> TensorDict:
    """One prompt without a batch, or both in a batch."""
    if index is None:
        return TensorDict(history=ChatHistory(prompt=History.from_chats(PROMPTS)), batch_size=(2,))
    return asked()[index].clone()


def counting(wrapper: TransformersWrapper) -> list[int]:
    """How many rows each run of the model has had so far."""
    counts: list[int] = []
    read = wrapper.inputs.sequences

    def sequences(data: TensorDictBase) -> Any:
        counts.append(data.numel())
        return read(data)

    object.__setattr__(wrapper.inputs, "sequences", sequences)
    return counts


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [each.result(30) for each in [pool.submit(call) for call in calls]]


@pytest.mark.parametrize("pad_to", [None, 40])
def test_calls_are_one_batch(pad_to: int | None) -> None:
    generate: dict[str, Any] = {
        "generate": True,
        "generate_kwargs": {"max_new_tokens": 4, "do_sample": False},
        "pad_to": pad_to,
        "log_probs_key": "log_probs",
    }
    together = wrapped(0, **generate, batching=True, min_batch_size=4)
    counts, expected = counting(together), wrapped(0, **generate)(asked())
    one, two, both = at_once(
        lambda: together(asked(0)), lambda: together(asked(1)), lambda: together(asked())
    )
    assert counts == [4]
    for index, single in enumerate((one, two)):
        assert single["history"].full[-1].content == expected["history"].full[index, -1].content
        assert single["log_probs", "response"].shape == expected["log_probs", "response"].shape[1:]
        torch.testing.assert_close(single["log_probs", "response"], expected["log_probs", "response"][index])
    for key in (("tokens", "full"), ("log_probs", "full"), ("masks", "all_assistant_mask")):
        torch.testing.assert_close(both[key], expected[key])
    assert both["history"].full.content == expected["history"].full.content


def test_scores_are_those_without_batching() -> None:
    scorer, plain = wrapped(0, batching=True, pad_to=40), wrapped(0, pad_to=40)
    expected = plain(conversations())["log_probs_0", "full"]
    for index in range(2):
        data = conversations()[index].clone()
        assert scorer(data) is data
        torch.testing.assert_close(data["log_probs_0", "full"], expected[index])
    batch = conversations()
    torch.testing.assert_close(scorer(batch)["log_probs_0", "full"], expected)


def run(data: TensorDictBase) -> TensorDictBase:
    return data.empty().set("double", 2 * data["number"])


def rows(*numbers: int) -> list[TensorDict]:
    return [TensorDict({"number": torch.tensor(number)}) for number in numbers]


def test_rows_are_waited_for_and_no_longer_than_the_timeout() -> None:
    batcher = CallBatcher(least=5, timeout=0.2)
    begun = time.monotonic()
    assert [int(each["double"]) for each in batcher(run, rows(1, 2))] == [2, 4]
    assert time.monotonic() - begun >= 0.2


def test_no_more_rows_than_the_most() -> None:
    sizes: list[int] = []
    started, go_on = threading.Event(), threading.Event()

    def slow(data: TensorDictBase) -> TensorDictBase:
        sizes.append(len(data))
        started.set()
        assert go_on.wait(30)
        return run(data)

    batcher = CallBatcher(most=3)
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(batcher, slow, rows(0))
        assert started.wait(30)
        others = [pool.submit(batcher, slow, rows(number, number + 1)) for number in (1, 3)]
        others.append(pool.submit(batcher, slow, rows(5, 6, 7, 8)))
        while sum(len(call.rows) for call in batcher._waiting) < 8:
            time.sleep(0.001)
        go_on.set()
        results = [[int(each["double"]) for each in call.result(30)] for call in (first, *others)]
    assert results == [[0], [2, 4], [6, 8], [10, 12, 14, 16]]
    assert sizes[0] == 1
    assert sorted(sizes[1:]) == [2, 2, 4], "a call that has more rows is run alone"


def test_an_error_is_of_all_calls_of_its_batch_and_of_no_later_one() -> None:
    def fails(data: TensorDictBase) -> TensorDictBase:
        raise ZeroDivisionError(len(data))

    batcher = CallBatcher(least=2)

    def call() -> Any:
        with pytest.raises(ZeroDivisionError, match="2"):
            batcher(fails, rows(1))

    at_once(call, call)
    assert int(batcher(run, rows(1, 2))[0]["double"]) == 2


def test_arguments() -> None:
    for options in ({"least": 0}, {"least": 4, "most": 3}, {"timeout": -1.0}):
        with pytest.raises(ValueError, match="got"):
            CallBatcher(**options)
    with pytest.raises(ValueError, match="min_batch_size=2 is of calls that are put together"):
        wrapped(0, batching=False, min_batch_size=2)
    with pytest.raises(ValueError, match=r"one batch dimension at most, got \[1, 2\]"):
        wrapped(0, batching=True)(conversations()[None])
    copied = pickle.loads(pickle.dumps(CallBatcher(2, 3, 1.5)))
    assert (copied.least, copied.most, copied.timeout) == (2, 3, 1.5)
