"""`ObjectOfRows`: an object of a class that the user writes behind a transform, and the records that its methods take and return."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from specgen_runtime.envs.generated.returned import Method, ReturnedField
from specgen_runtime.envs.traced import is_traced
from specgen_runtime.row_networks import Sizes, as_rows, unified
from specgen_runtime.specs import Unbounded

__all__ = ["GivenRows", "ObjectOfRows", "ReadRows", "RecordedRows"]


@dataclass(frozen=True, slots=True)
class ReadRows:
    """A record that a class is given.

    Attributes:
        record: its type.
        rows: the dimensions of one row of each field.
        optional: the fields that may be None.
        params: the fields that are parameters, of which each row has its own value.
    """

    record: type[Any]
    rows: tuple[Sizes, ...]
    optional: tuple[str, ...] = ()
    params: tuple[str, ...] = ()

    @property
    def entries(self) -> tuple[str, ...]:
        """The fields that are entries."""
        return tuple(name for name in self.record._fields if name not in self.params)


@dataclass(frozen=True, slots=True)
class GivenRows:
    """A record that a method returns.

    Attributes:
        record: its type.
        dtypes: the dtype of each field.
        rows: the dimensions of one row of each field.
        when: the fields that only exist where some optional inputs are there, or are not, by these.
    """

    record: type[Any]
    dtypes: tuple[torch.dtype, ...]
    rows: tuple[Sizes, ...]
    when: Mapping[str, tuple[tuple[str, bool], ...]] = dataclasses.field(default_factory=dict)

    def existing(self, absent: Collection[str], present: Collection[str]) -> tuple[str, ...]:
        """The fields that exist, where `absent` don't in any case, and of the optional inputs `present` are there."""
        return tuple(
            name
            for name in self.record._fields
            if name not in absent and all((key in present) is there for key, there in self.when.get(name, ()))
        )


@dataclass(frozen=True, slots=True)
class RecordedRows:
    """The record that a class is given of recorded data; beside `done`, where episodes end, it has `root` and `next`.

    Attributes:
        record: its type.
        root: what it is given of the root, by the dimensions of a moment; None without such a field.
        next: what it is given of ``"next"``.
    """

    record: type[Any]
    root: ReadRows | None = None
    next: ReadRows | None = None

    @property
    def optional(self) -> tuple[str, ...]:
        """The fields that may be None."""
        places = [one for one in (self.root, self.next) if one is not None]
        return tuple(dict.fromkeys(name for one in places for name in one.optional))


class _Ends(NamedTuple):
    """Where episodes end."""

    done: Tensor


_TIME = "(time)"
"""The size that all of recorded data have behind their rows, as no pattern can call one."""


@dataclass(frozen=True, slots=True)
class ObjectOfRows:
    """A user's object behind its boundary: it is given rows, one batch dimension in front, and gives rows.

    Attributes:
        owner: the generated class that calls it, for messages.
        path: its class as the schema names it.
        python: the object.
        inputs: what each method is given.
        carried: what `step` is given before that: what was returned last.
        written: what `inverse` is given.
        methods: what each method returns, by its name.
        absent: what of that its parameters leave out.
        params: the parameters of which each row has its own value, ``[*batch]`` each.
    """

    owner: str
    path: str
    python: Any
    inputs: ReadRows
    carried: ReadRows | None
    methods: Mapping[str, GivenRows]
    written: ReadRows | None = None
    absent: tuple[str, ...] = ()
    params: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)

    def outputs(self, name: str, present: Collection[str] = ()) -> tuple[str, ...]:
        """What of that which a method returns exists, where of the optional inputs `present` are there."""
        return self.methods[name].existing(self.absent, present)

    def map(self, *inputs: Tensor, **present: Tensor) -> tuple[Tensor, ...]:
        """What the object's `map` gives of that which exists, `(*leading, *dims)` each.

        Args:
            inputs: the fields of its record that are always there, `(*leading, *dims)` each.
            present: those of the others that are there.

        Raises:
            TypeError: it returned something else than its record of tensors.
            RuntimeError: a dtype, shape or device is not the declared one, or a tensor was changed in place.
        """
        return self._of_moment("map", (self.inputs,), inputs, present)

    def reset(self, *inputs: Tensor, **present: Tensor) -> tuple[Tensor, ...]:
        """What its `reset` gives for fresh entries; as `map`."""
        return self._of_moment("reset", (self.inputs,), inputs, present)

    def step(self, *values: Tensor, **present: Tensor) -> tuple[Tensor, ...]:
        """What its `step` gives, for what is carried and the entries after the step; as `map`."""
        records = (self.inputs,) if self.carried is None else (self.carried, self.inputs)
        return self._of_moment("step", records, values, present)

    def inverse(self, *written: Tensor, **present: Tensor) -> tuple[Tensor, ...]:
        """What its `inverse` gives the environment, for what the policy wrote; as `map`."""
        assert self.written is not None
        return self._of_moment("inverse", (self.written,), written, present)

    def offline(
        self,
        recorded: RecordedRows,
        root: Mapping[str, Tensor],
        following: Mapping[str, Tensor],
        done: Tensor,
        there: Collection[str],
    ) -> tuple[Tensor, ...]:
        """What its `offline` gives of that which exists, `(*leading, time, *dims)` each; raises as `map` does.

        Args:
            recorded: the record that it is given.
            root: what stands at the root, `(*leading, time, *dims)` each.
            following: what stands under ``"next"``, likewise.
            done: where episodes end, `(*leading, time)`.
            there: the optional inputs that are there.
        """
        places = (("root", recorded.root, root), ("next", recorded.next, following))
        known = [(name, rows, found) for name, rows, found in places if rows is not None]
        given: list[tuple[ReadRows, Mapping[str, Tensor]]] = [(rows, found) for _, rows, found in known]
        given.append((ReadRows(_Ends, ((),)), {"done": done}))

        def whole(*records: Any) -> tuple[Any]:
            made = {name: record for (name, *_), record in zip(known, records, strict=False)}
            return (recorded.record(**made, done=records[-1].done),)

        return self._call("offline", given, there, times=(_TIME,), joined=whole)

    def _of_moment(
        self,
        method_name: str,
        records: tuple[ReadRows, ...],
        values: tuple[Tensor, ...],
        present: Mapping[str, Tensor],
    ) -> tuple[Tensor, ...]:
        positional = iter(values)
        given = [
            (
                record,
                {
                    name: present[name] if name in record.optional else next(positional)
                    for name in record.entries
                    if name not in record.optional or name in present
                },
            )
            for record in records
        ]
        return self._call(method_name, given, present)

    def _call(
        self,
        method_name: str,
        given: Sequence[tuple[ReadRows, Mapping[str, Tensor]]],
        there: Collection[str],
        times: Sizes = (),
        joined: Callable[..., tuple[Any, ...]] = lambda *records: records,
    ) -> tuple[Tensor, ...]:
        """Call a method with records of rows, and check what it returns.

        Args:
            method_name: its name.
            given: the records, each with those of its entries that are there.
            there: the optional inputs that are there, which decide what it returns.
            times: what stands between the rows and the dimensions of a moment.
            joined: makes of these records what the method is given.
        """
        gives = self.methods[method_name]
        method = Method(self.owner, self.path, method_name, gives.record)
        fields = [
            (index, name, (*times, *rows), found[name])
            for index, (record, found) in enumerate(given)
            for name, rows in zip(record.record._fields, record.rows, strict=True)
            if name in found
        ]
        lead, flat, known = as_rows(str(method), [one[3] for one in fields], [one[2] for one in fields])
        before = (
            []
            if is_traced()
            else [(name, value, value._version) for (_, name, *_), value in zip(fields, flat, strict=True)]
        )
        made_rows = {(index, name): value for (index, name, *_), value in zip(fields, flat, strict=True)}
        for index, (record, _) in enumerate(given):
            for name in record.params:
                made_rows[index, name] = self._param_of_rows(name, lead, flat[0].device)
        records = [
            record.record._make(made_rows.get((index, name)) for name in record.record._fields)
            for index, (record, _) in enumerate(given)
        ]
        found = getattr(self.python, method_name)(*joined(*records))
        method.refuse_changes(before)
        method.check_record(found)
        device, existing, made = flat[0].device, self.outputs(method_name, there), []
        for name, value, dtype, rows in zip(
            gives.record._fields, found, gives.dtypes, gives.rows, strict=True
        ):
            if name not in existing:
                continue  # nobody asks for it
            sizes = (*times, *rows)
            dims = tuple(known.get(size, -1) if isinstance(size, str) else size for size in sizes)
            fits = isinstance(value, Tensor) and value.dtype is dtype and value.device == device
            if not fits or value.shape[:1] != (lead.numel(),) or not unified(sizes, value.shape[1:], known):
                told = ReturnedField(name, name, Unbounded(), dtype, dims, column=False)
                method.refuse(told, (lead.numel(),), device, value)
            made.append(cast("Tensor", value).reshape((*lead, *value.shape[1:])))
        return tuple(made)

    def _param_of_rows(self, name: str, lead: torch.Size, device: torch.device) -> Tensor:
        """A parameter as one value of each row."""
        value = self.params[name]
        value = value.reshape((*value.shape, *(1,) * (len(lead) - value.ndim)))
        return value.expand(lead).reshape(-1).to(device)
