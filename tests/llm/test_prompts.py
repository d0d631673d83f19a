"""Sources of prompts: order, seeds, epochs, loaders, states, and the groups that share a prompt."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from specgen_runtime.llm import Prompts
from specgen_runtime.llm.envs.prompts import GroupedPrompts, rows_of
from torch.utils.data import DataLoader, IterableDataset

DATA = [{"query": f"question {index}", "answer": index} for index in range(7)]
CHAT = [{"role": "user", "content": "hello"}]


def stream() -> Iterator[dict[str, Any]]:
    yield from DATA


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return stream()


class Stateful:
    """A loader that knows its place, in batches of three."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        while self.at < len(DATA):
            self.at += 3
            yield DATA[self.at - 3 : self.at]
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


SOURCES: dict[str, Callable[[], Any]] = {
    "a list": lambda: DATA,
    "a function": lambda: stream,
    "a loader of rows": lambda: DataLoader(DATA, batch_size=None),  # type: ignore[arg-type]
    "a loader that collates": lambda: DataLoader(DATA, batch_size=3),  # type: ignore[arg-type]
    "a loader of lists": lambda: DataLoader(DATA, batch_size=2, collate_fn=list),  # type: ignore[arg-type]
    "a stream": Endless,
    "a source with a state": Stateful,
}


def drawn(prompts: Prompts, count: int) -> list[int]:
    rows = [prompts.draw() for _ in range(count)]
    assert all(row["query"] == f"question {row['answer']}" for row in rows)
    return [row["answer"] for row in rows]


@pytest.mark.parametrize("name", SOURCES)
def test_every_row_comes_once_in_an_epoch(name: str) -> None:
    prompts = Prompts(SOURCES[name]())
    first, second = drawn(prompts, 7), drawn(prompts, 7)
    assert sorted(first) == sorted(second) == list(range(7))
    if name == "a list":
        assert first != second != list(range(7))
    else:
        assert first == second == list(range(7))


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("place", [0, 4, 7, 11])
def test_a_state_resumes_the_order(name: str, place: int) -> None:
    prompts = Prompts(SOURCES[name](), seed=3)
    drawn(prompts, place)
    state = json.loads(json.dumps(prompts.state_dict()))
    other = Prompts(SOURCES[name](), seed=0)
    drawn(other, 2)
    other.load_state_dict(state)
    assert drawn(other, 12) == drawn(prompts, 12)


def test_a_seed_fixes_the_order() -> None:
    orders = [drawn(Prompts(DATA, seed=seed), 21) for seed in (5, 5, 6)]
    assert orders[0] == orders[1] != orders[2]
    prompts = Prompts(DATA, seed=6)
    drawn(prompts, 9)
    prompts.restart(5)
    assert drawn(prompts, 21) == orders[0]
    torch.manual_seed(0)
    before = torch.rand(2)
    torch.manual_seed(0)
    drawn(prompts, 8)
    assert torch.equal(torch.rand(2), before), "drawing prompts draws from torch's global generator"


def test_order_without_shuffling() -> None:
    assert drawn(Prompts(DATA, shuffle=False), 9) == [0, 1, 2, 3, 4, 5, 6, 0, 1]


def test_a_pickled_source_goes_on() -> None:
    for name in ("a list", "a loader that collates", "a source with a state"):
        prompts = Prompts(SOURCES[name](), seed=3)
        drawn(prompts, 4)
        copy = pickle.loads(pickle.dumps(prompts))
        assert drawn(copy, 8) == drawn(prompts, 8), name


def test_rows() -> None:
    assert rows_of("hello", "ask") == [{"ask": "hello"}]
    assert rows_of(CHAT, "query") == [{"messages": CHAT}]
    assert rows_of({"messages": CHAT, "n": 1}, "query") == [{"messages": CHAT, "n": 1}]
    assert rows_of([{"query": "a"}, "b"], "query") == [{"query": "a"}, {"query": "b"}]
    collated = {
        "query": ["a", "b"],
        "n": torch.tensor([1, 2]),
        "v": torch.eye(2),
        "of": {"x": ("p", "q")},
        "k": 5,
    }
    first, second = rows_of(collated, "query")
    assert first["v"].tolist() == [1.0, 0.0]
    assert (first["query"], first["n"], first["of"], first["k"]) == ("a", 1, {"x": "p"}, 5)
    assert (second["query"], second["n"], second["of"], second["k"]) == ("b", 2, {"x": "q"}, 5)
    assert [row["messages"] for row in rows_of({"messages": [CHAT, CHAT]}, "query")] == [CHAT, CHAT]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"question": "a"}, "a row has no 'query' and no 'messages', but 'question'"),
        ({"messages": []}, "'messages' of a row is a string or a list of messages, got \\[\\]"),
        ({"query": 3}, "'query' of a row is a string or a list of messages, got 3"),
        (7, "a row is a string, a list of messages, or a mapping with 'query' or 'messages', got 7"),
        ({"messages": [{"role": ["user", "user"], "content": ["a", "b"]}]}, "give it collate_fn=list"),
    ],
)
def test_what_is_no_row(item: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows_of(item, "query")


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ([], ValueError, "the source of prompts is empty"),
        ("question", TypeError, "a sequence or an iterable of rows, got 'question'"),
        ({"train": DATA, "test": DATA}, TypeError, "'train', 'test': give one of its entries"),
        (3, TypeError, "got 3"),
    ],
)
def test_what_is_no_source(source: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Prompts(source)


def test_a_source_that_gives_nothing() -> None:
    with pytest.raises(ValueError, match="gives no rows"):
        Prompts(lambda: iter(())).draw()
    once = Prompts(stream())
    assert drawn(once, 7) == list(range(7))
    with pytest.raises(ValueError, match="given as the function that makes it"):
        once.draw()


def test_an_item_of_a_sequence_is_one_row() -> None:
    with pytest.raises(ValueError, match="item 0 of a sequence of prompts is one row, got 2"):
        Prompts([["a", "b"]]).draw()


@pytest.mark.parametrize(("rows", "group"), [(6, 3), (6, 6), (6, 1), (1, 4), (2, 4)])
def test_groups_fill_whoever_ends_first(rows: int, group: int) -> None:
    groups = GroupedPrompts(Prompts(DATA, seed=1), rows, group)
    seen: dict[int, list[int]] = {}
    generator = torch.Generator().manual_seed(0)
    episodes: Counter[int] = Counter()
    while min(episodes[row] for row in range(rows)) < 4:
        row = int(torch.randint(rows, (), generator=generator))
        data, number = groups.next_of(row)
        episodes[row] += 1
        seen.setdefault(number, []).append(data["answer"])
    assert all(len(set(answers)) == 1 for answers in seen.values()), "a group is about one prompt"
    assert all(len(answers) <= group for answers in seen.values())
    full = sum(len(answers) == group for answers in seen.values())
    assert full >= rows * 4 // group, "every row had four episodes"
    held = sum(len(slot) for slot in groups.open)
    assert held == len(seen) - full, "groups that are full are forgotten"


def test_groups_resume() -> None:
    def sequence(groups: GroupedPrompts, rows: list[int]) -> list[tuple[int, int]]:
        return [(data["answer"], number) for data, number in map(groups.next_of, rows)]

    groups = GroupedPrompts(Prompts(DATA, seed=1), 4, 2)
    sequence(groups, [0, 0, 2, 1, 3, 2])
    other = GroupedPrompts(Prompts(DATA), 4, 2)
    other.load_state_dict(json.loads(json.dumps(groups.state_dict())))
    rows = [1, 3, 0, 2, 2, 1]
    assert sequence(other, rows) == sequence(groups, rows)
    with pytest.raises(ValueError, match="the state is of 4 rows in 2 slots, here there are 6 in 3"):
        GroupedPrompts(Prompts(DATA), 6, 2).load_state_dict(groups.state_dict())


@pytest.mark.parametrize(("rows", "group"), [(4, 3), (3, 4), (4, 0)])
def test_groups_that_do_not_fill_the_batch(rows: int, group: int) -> None:
    with pytest.raises(ValueError, match=f"groups of {group} don't fill a batch of {rows}"):
        GroupedPrompts(None, rows, group)


@pytest.mark.parametrize(("rows", "group"), [(4, 2), (2, 4), (2, 2)])
def test_rows_out_of_step_begin_a_new_group_together(rows: int, group: int) -> None:
    prompts = GroupedPrompts(Prompts(DATA, shuffle=False), rows, group)
    before = [prompts.next_of(row)[1] for row in (*range(rows), 0, 0)]
    prompts.align()
    prompts.align()
    following = [prompts.next_of(row)[1] for _ in range(2) for row in range(rows)]
    assert not {*following} & {*before}
    assert set(Counter(following[: max(rows, group)]).values()) == {group}


def test_rows_in_step_stay_in_their_group() -> None:
    prompts = GroupedPrompts(Prompts(DATA, shuffle=False), 2, 4)
    first = [prompts.next_of(row)[1] for row in range(2)]
    prompts.align()
    assert [prompts.next_of(row)[1] for row in range(2)] == first == [0, 0]
