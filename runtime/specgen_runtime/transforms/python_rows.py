"""`ObjectOfRows`: an object of a class that the user writes behind a transform, and the records that its methods take and return."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from specgen_runtime.envs.generated.returned import Method, ReturnedField
from specgen_runtime.envs.traced import is_traced
from specgen_runtime.row_networks import Sizes, as_rows, unified
from specgen_runtime.specs import Unbounded

__all__ = ["GivenRows", "ObjectOfRows", "ReadRows"]


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
        return self._call("map", (self.inputs,), inputs, present)

    def reset(self, *inputs: Tensor, **present: Tensor) -> tuple[Tensor, ...]:
        """What its `reset` gives for fresh entries; as `map`."""
        return self._call("reset", (self.inputs,), inputs, present)

    def step(self, *values: Tensor, **present: Tensor) -> tuple[Tensor, ...]:
        """What its `step` gives, for what is carried and the entries after the step; as `map`."""
        records = (self.inputs,) if self.carried is None else (self.carried, self.inputs)
        return self._call("step", records, values, present)

    def inverse(self, *written: Tensor, **present: Tensor) -> tuple[Tensor, ...]:
        """What its `inverse` gives the environment, for what the policy wrote; as `map`."""
        assert self.written is not None
        return self._call("inverse", (self.written,), written, present)

    def _call(
        self,
        method_name: str,
        records: tuple[ReadRows, ...],
        values: tuple[Tensor, ...],
        present: Mapping[str, Tensor],
    ) -> tuple[Tensor, ...]:
        gives = self.methods[method_name]
        method = Method(self.owner, self.path, method_name, gives.record)
        fields = [
            (record, name, rows)
            for record in records
            for name, rows in zip(record.record._fields, record.rows, strict=True)
            if name not in record.params
        ]
        there = [one for one in fields if one[1] not in one[0].optional or one[1] in present]
        positional = iter(values)
        known_values = [present[f] if f in record.optional else next(positional) for record, f, _ in there]
        lead, flat, known = as_rows(str(method), known_values, [rows for _, _, rows in there])
        names = [name for _, name, _ in there]
        before = (
            []
            if is_traced()
            else [(name, value, value._version) for name, value in zip(names, flat, strict=True)]
        )
        made_rows = {(id(record), name): value for (record, name, _), value in zip(there, flat, strict=True)}
        for record in records:
            for name in record.params:
                made_rows[id(record), name] = self._param_of_rows(name, lead, flat[0].device)
        given = [
            record.record._make(made_rows.get((id(record), name)) for name in record.record._fields)
            for record in records
        ]
        found = getattr(self.python, method_name)(*given)
        method.refuse_changes(before)
        method.check_record(found)
        device, existing, made = flat[0].device, self.outputs(method_name, present), []
        for name, value, dtype, rows in zip(
            gives.record._fields, found, gives.dtypes, gives.rows, strict=True
        ):
            if name not in existing:
                continue  # nobody asks for it
            dims = tuple(known.get(size, -1) if isinstance(size, str) else size for size in rows)
            fits = isinstance(value, Tensor) and value.dtype is dtype and value.device == device
            if not fits or value.shape[:1] != (lead.numel(),) or not unified(rows, value.shape[1:], known):
                told = ReturnedField(name, name, Unbounded(), dtype, dims, column=False)
                method.refuse(told, (lead.numel(),), device, value)
            made.append(cast("Tensor", value).reshape((*lead, *value.shape[1:])))
        return tuple(made)

    def _param_of_rows(self, name: str, lead: torch.Size, device: torch.device) -> Tensor:
        """A parameter as one value of each row."""
        value = self.params[name]
        value = value.reshape((*value.shape, *(1,) * (len(lead) - value.ndim)))
        return value.expand(lead).reshape(-1).to(device)
