"""Sources of prompts: the rows of a data set, in an order that a seed fixes, and the groups that share a row."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["GroupedPrompts", "Prompts", "Row", "is_chat", "rows_of"]

Row = dict[str, Any]
"""A row of a data set: what is asked, and whatever else the reward needs to know."""


class Prompts:
    """The rows of a source, one after the other, again and again.

    A sequence (it has `__len__` and `__getitem__`: a list, a data set) is shuffled for each epoch, by the seed and
    the number of the epoch alone. Any other iterable, such as a `DataLoader`, or a function that returns one, is taken
    in its own order and begun again when it ends; what a loader has collated into batches is taken apart.

    `state_dict` resumes the order where it was left. An iterable is run up to that place again, unless it has a
    `state_dict` of its own.

    Args:
        source: of strings, of conversations (lists of messages), or of mappings with one of them under `prompt_key` or
            a conversation under ``"messages"``.
        prompt_key: the entry of a row that holds what is asked; a string becomes a row with that entry.
        seed: of the order.
        shuffle: False keeps the order of a sequence, too.

    Raises:
        TypeError: `source` is a string, a mapping, or can't be iterated over.
        ValueError: it is an empty sequence.
    """

    def __init__(self, source: Any, prompt_key: str = "query", seed: int = 0, shuffle: bool = True) -> None:
        if isinstance(source, Mapping):
            raise TypeError(
                f"a source of prompts is a sequence or an iterable of rows, got a mapping of"
                f" {', '.join(map(repr, source))}: give one of its entries"
            )
        if isinstance(source, str) or not (
            hasattr(source, "__iter__") or _indexed(source) or callable(source)
        ):
            raise TypeError(f"a source of prompts is a sequence or an iterable of rows, got {source!r:.80}")
        if _indexed(source) and not len(source):
            raise ValueError("the source of prompts is empty")
        self.source: Any = source
        self.prompt_key = prompt_key
        self.shuffle = shuffle
        self.restart(seed)

    def restart(self, seed: int) -> None:
        """Begin with the first row of the first epoch that belongs to a seed."""
        self.seed, self.epoch, self.place = seed, 0, 0
        self._waiting: deque[Row] = deque()
        self._items: Iterator[Any] | None = None

    def draw(self) -> Row:
        """Return the next row.

        Raises:
            ValueError: the source gives no row, or one that holds no prompt.
        """
        ended = False
        while not self._waiting:
            if self._items is None:
                self._items = self._begin()
            try:
                item = next(self._items)
            except StopIteration:
                if ended:
                    raise ValueError(
                        "the source of prompts gives no rows; one that can be read only once, such as a generator, is"
                        " given as the function that makes it"
                    ) from None
                self.epoch, self.place, self._items, ended = self.epoch + 1, 0, None, True
            else:
                self._waiting.extend(rows_of(item, self.prompt_key))
        self.place += 1
        return self._waiting.popleft()

    def _begin(self) -> Iterator[Any]:
        """The items of an epoch, from the place where it was left."""
        if _indexed(self.source):
            count = len(self.source)
            generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self.epoch) % 2**63)
            order = torch.randperm(count, generator=generator) if self.shuffle else torch.arange(count)
            return (self._item(index) for index in order[self.place :].tolist())
        items: Iterator[Any] = iter(self.source if hasattr(self.source, "__iter__") else self.source())
        skipped = 0 if _stateful(self.source) else self.place
        while skipped > 0 and (item := next(items, None)) is not None:
            rows = rows_of(item, self.prompt_key)
            self._waiting.extend(rows[skipped:])
            skipped -= len(rows)
        return items

    def _item(self, index: int) -> Row:
        rows = rows_of(self.source[index], self.prompt_key)
        if len(rows) != 1:
            raise ValueError(f"item {index} of a sequence of prompts is one row, got {len(rows)}")
        return rows[0]

    def state_dict(self) -> dict[str, Any]:
        """The place in the order."""
        state: dict[str, Any] = {"seed": self.seed, "epoch": self.epoch, "place": self.place}
        if _stateful(self.source):
            state |= {"source": self.source.state_dict(), "waiting": list(self._waiting)}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a place in the order, of a source with the same rows."""
        self.restart(state["seed"])
        self.epoch, self.place = state["epoch"], state["place"]
        if _stateful(self.source):
            self.source.load_state_dict(state["source"])
            self._waiting.extend(state["waiting"])

    def __getstate__(self) -> dict[str, Any]:
        waiting = self._waiting if _stateful(self.source) else ()
        return {**self.__dict__, "_items": None, "_waiting": deque(waiting)}  # iterators can't be pickled


class GroupedPrompts:
    """Hands prompts to the rows of a batch, so that as many episodes as a group has are about the same prompt.

    The rows of a slot share their prompts: as many rows as the group has, or all if there are fewer, which then have
    several episodes in a row about a prompt. The k-th episodes of a slot's rows are about the same prompt whenever
    they begin, so that groups fill though rows end at different times.

    Args:
        prompts: where rows come from; None for none, only groups are counted.
        rows: how many rows the batch has.
        group: how many episodes are about one prompt.

    Raises:
        ValueError: one is below 1, or neither of the two numbers is a multiple of the other.
    """

    def __init__(self, prompts: Prompts | None, rows: int, group: int) -> None:
        if group < 1 or rows < 1 or (rows % group and group % rows):
            raise ValueError(
                f"groups of {group} don't fill a batch of {rows}: one of the numbers must be a multiple of the other"
            )
        self.prompts, self.rows, self.group = prompts, rows, group
        self.slot_rows = min(rows, group)
        self._forget()

    def _forget(self) -> None:
        self.drawn = 0
        self.episodes = [0] * self.rows
        self.open: list[dict[int, dict[str, Any]]] = [{} for _ in range(self.rows // self.slot_rows)]

    def restart(self, seed: int) -> None:
        """Begin anew, with the prompts that belong to a seed."""
        self._forget()
        if self.prompts is not None:
            self.prompts.restart(seed)

    def align(self) -> None:
        """Let the rows of each slot whose episodes differ in number begin a new group together."""
        rounds = self.group // self.slot_rows  # episodes of a row in a group
        for number, slot in enumerate(self.open):
            rows = slice(number * self.slot_rows, (number + 1) * self.slot_rows)
            begun = self.episodes[rows]
            if len({*begun}) > 1:
                self.episodes[rows] = [-(-max(begun) // rounds) * rounds] * self.slot_rows
                slot.clear()

    def next_of(self, row: int) -> tuple[Row, int]:
        """What the next episode of a row of the batch is about, and the number of its group."""
        slot = self.open[row // self.slot_rows]
        turn = self.episodes[row] * self.slot_rows // self.group
        self.episodes[row] += 1
        if turn not in slot:
            data = {} if self.prompts is None else self.prompts.draw()
            slot[turn] = {"row": data, "group": self.drawn, "left": self.group}
            self.drawn += 1
        shared = slot[turn]
        shared["left"] -= 1
        if not shared["left"]:
            del slot[turn]
        return shared["row"], shared["group"]

    def state_dict(self) -> dict[str, Any]:
        """The place in the source, and the groups that are not full."""
        return {
            "prompts": None if self.prompts is None else self.prompts.state_dict(),
            "drawn": self.drawn,
            "episodes": list(self.episodes),
            "open": [[[turn, dict(shared)] for turn, shared in slot.items()] for slot in self.open],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of as many rows and groups of the same size.

        Raises:
            ValueError: the state is of another number of rows, or of slots.
        """
        found, here = (len(state["episodes"]), len(state["open"])), (self.rows, len(self.open))
        if found != here:
            raise ValueError(
                f"the state is of {found[0]} rows in {found[1]} slots, here there are {here[0]} in {here[1]}"
            )
        if self.prompts is not None:
            self.prompts.load_state_dict(state["prompts"])
        self.drawn, self.episodes = state["drawn"], list(state["episodes"])
        self.open = [{turn: dict(shared) for turn, shared in slot} for slot in state["open"]]


def rows_of(item: Any, prompt_key: str) -> list[Row]:
    """The rows in what a source gave: one, or those of a batch.

    Args:
        item: a string, a conversation or a mapping, which are rows; a list of them; or a mapping of lists and tensors,
            as a loader collates rows.
        prompt_key: the entry that holds the prompt.

    Raises:
        ValueError: it is nothing of these.
    """
    if isinstance(item, str):
        return [{prompt_key: item}]
    if is_chat(item):
        return [{"messages": list(item)}]
    if isinstance(item, list | tuple):
        return [row for part in item for row in rows_of(part, prompt_key)]
    if not isinstance(item, Mapping):
        raise ValueError(
            f"a row is a string, a list of messages, or a mapping with {prompt_key!r} or 'messages', got {item!r:.80}"
        )
    key = "messages" if "messages" in item else prompt_key
    if key not in item:
        raise ValueError(f"a row has no {prompt_key!r} and no 'messages', but {', '.join(map(repr, item))}")
    prompt = item[key]
    if isinstance(prompt, str) or is_chat(prompt) or hasattr(prompt, "to_chats"):
        return [dict(item)]
    if (
        not prompt
        or not isinstance(prompt, list | tuple)
        or not all(isinstance(one, str) or is_chat(one) for one in prompt)
    ):
        raise ValueError(
            f"{key!r} of a row is a string or a list of messages, got {prompt!r:.80}; a loader that collates messages"
            " takes them apart: give it collate_fn=list"
        )
    return [{name: _at(value, index) for name, value in item.items()} for index in range(len(prompt))]


def _at(value: Any, index: int) -> Any:
    """One row's part of a collated value."""
    if isinstance(value, Mapping):
        return {name: _at(part, index) for name, part in value.items()}
    if isinstance(value, Tensor):
        return value[index] if value.ndim > 1 else value[index].item()
    return value[index] if isinstance(value, list | tuple) else value


def is_chat(value: Any) -> bool:
    """Whether a value is a conversation: a list of messages, one at least."""
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(message, Mapping) and isinstance(message.get("role"), str) for message in value)
    )


def _indexed(source: Any) -> bool:
    return hasattr(source, "__len__") and hasattr(source, "__getitem__")


def _stateful(source: Any) -> bool:
    return hasattr(source, "state_dict") and hasattr(source, "load_state_dict")
