"""`SelectingModule`: losses compute, and read, what the entries need that were selected of what they return.

What they return is made in parts (`LossPart`), of which those are left out that hold no selected entry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, NamedTuple, Self

from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import next_key
from specgen_runtime.objectives.reading import ReadingModule
from specgen_runtime.typing import NestedKey


class LossPart(NamedTuple):
    """Entries that share runs of networks, draws or estimates; `select_out_keys` leaves out whole parts.

    Attributes:
        outputs: the names of the entries.
        now: the networks that read the data for them.
        next: those that read the next record.
    """

    outputs: tuple[str, ...]
    now: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


class SelectingModule(ReadingModule):
    """A module that returns entries, of which some can be selected.

    Attributes:
        out_keys: what it returns, or what `select_out_keys` chose of it.
        parts: the entries that are computed together, by the name of that part; empty where all are.
        reads_next: whether networks read the next record, too.
    """

    out_keys: ClassVar[list[str]] = []
    parts: ClassVar[Mapping[str, LossPart]] = {}
    reads_next: ClassVar[bool] = True
    _selects = False

    @property
    def in_keys(self) -> list[NestedKey]:
        """What the loss reads: the inputs of its networks, now and next; a subclass adds its own."""
        return self._network_in_keys

    @property
    def _network_in_keys(self) -> list[NestedKey]:
        """What the networks read, now and next, as far as the entries that are returned need them."""
        now, later = _networks_read(self.parts, self.out_keys_source, self.out_keys, self._networks)
        reads = [key for name in now for key in self._networks[name].in_keys]
        if self.reads_next:
            reads += [next_key(key) for name in later for key in self._networks[name].in_keys]
        return list(dict.fromkeys(reads))

    @property
    def out_keys_source(self) -> list[str]:
        """What `forward` returns with the parameters of this loss, all of it."""
        return [key for key in type(self).out_keys if self._is_returned(key)]

    def _is_returned(self, name: str) -> bool:
        """Whether there is an entry with the parameters of this loss; a subclass whose terms depend on them says so."""
        return True

    def _wants(self, part: str) -> bool:
        """Whether an entry of this part is returned."""
        returned = self.out_keys
        for name in self.parts[part].outputs:  # noqa: SIM110  # each forward asks: a generator would cost more than this
            if name in returned and self._is_returned(name):
                return True
        return False

    def select_out_keys(self, *out_keys: str) -> Self:
        """Return these entries only, from now on; `reset_out_keys` undoes it.

        The `parts` that hold none of them are not computed, and what these read is not in `in_keys`: no network runs
        for them and nothing is drawn, so that later draws are others.

        Raises:
            ValueError: for an entry that the loss does not return.
        """
        unknown = [key for key in out_keys if key not in self.out_keys_source]
        if unknown or not out_keys:
            raise ValueError(
                f"{type(self).__name__}.select_out_keys takes some of {', '.join(self.out_keys_source)}; "
                f"got {', '.join(map(repr, out_keys)) or 'none'}"
            )
        self.__dict__ |= {"out_keys": list(out_keys), "_selects": True}
        return self

    def reset_out_keys(self) -> Self:
        """Return every entry again."""
        self.__dict__.pop("out_keys", None)
        self._selects = False
        if (returned := self.out_keys_source) != type(self).out_keys:
            self.__dict__["out_keys"] = returned
        return self

    def __setattr__(self, name: str, value: object) -> None:
        buffers = self.__dict__.get("_buffers", {})
        comes_or_goes = name in buffers and (buffers[name] is None) is not (value is None)
        super().__setattr__(name, value)
        if comes_or_goes and not self._selects:
            self.reset_out_keys()  # entries may come and go with a coefficient

    def _further_keys(self) -> list[NestedKey]:
        """What the loss reads if it is there, besides its ``in_keys``."""
        return []

    def _keys_of_all_entries(self) -> list[NestedKey]:
        """What the loss reads, or would if all its entries were selected."""
        with self._selected():
            return [*self.in_keys, *self._further_keys()]

    @contextmanager
    def _selected(self, *out_keys: str) -> Iterator[None]:
        """Within it, these entries are selected; every one, if none is given."""
        before, selects = self.__dict__.get("out_keys"), self._selects
        if out_keys:
            self.select_out_keys(*out_keys)
        else:
            self.reset_out_keys()
        try:
            yield
        finally:
            self._selects = selects
            if before is None:
                self.__dict__.pop("out_keys", None)
            else:
                self.__dict__["out_keys"] = before


def term_alone(
    loss: SelectingModule, term: str, tensordict: TensorDictBase
) -> tuple[Tensor, dict[str, Tensor]]:
    """A term, reduced, and the metrics of its part; other parts are not computed, whatever is selected.

    Args:
        loss: the loss.
        term: the name of the term.
        tensordict: the data; what the loss writes with this part is written.

    Raises:
        KeyError: if something that the part reads is missing.
        ValueError: if the parameters of the loss leave the term out.
    """
    check_returned(loss, term)
    part = next((one.outputs for one in loss.parts.values() if term in one.outputs), None)
    with loss._selected(*(name for name in loss.out_keys_source if part is None or name in part)):
        outputs = loss.forward(tensordict)
    metrics = {name: value for name, value in outputs.items() if not name.startswith("loss")}
    return outputs[term], metrics


def check_returned(loss: SelectingModule, term: str) -> None:
    """Refuse to compute a term that the parameters of a loss leave out.

    Raises:
        ValueError: if they do.
    """
    if term not in loss.out_keys_source:
        raise ValueError(f"{type(loss).__name__}: there is no {term!r} with its parameters")


def _networks_read(
    parts: Mapping[str, LossPart], returned: Collection[str], selected: Collection[str], names: Iterable[str]
) -> tuple[list[str], list[str]]:
    """The networks that read the data, and those that read the next record.

    Args:
        parts: the parts of the loss.
        returned: the entries that it returns where none were selected.
        selected: the entries that it does return.
        names: all its networks; each reads both records, as far as is known, until a part is left out.
    """
    there = [part for part in parts.values() if not set(part.outputs).isdisjoint(returned)]
    wanted = [part for part in there if not set(part.outputs).isdisjoint(selected)]
    if len(wanted) == len(there):
        return list(names), list(names)
    return (
        [name for name in names if any(name in part.now for part in wanted)],
        [name for name in names if any(name in part.next for part in wanted)],
    )
