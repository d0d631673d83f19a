"""`PythonTransform`: generated transforms whose behaviour is a class that the user writes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from specgen_runtime.envs.generated.importing import made_of_class
from specgen_runtime.envs.generated.returned import Method, ReturnedField
from specgen_runtime.envs.traced import is_traced
from specgen_runtime.row_networks import Sizes, as_rows, unified
from specgen_runtime.specs import Unbounded
from specgen_runtime.transforms.bound import InverseRow, Row
from specgen_runtime.transforms.generated import GeneratedTransform
from specgen_runtime.typing import NestedKey

__all__ = ["GivenRows", "ObjectOfRows", "PythonTransform", "ReadRows", "python_object"]


@dataclass(frozen=True, slots=True)
class ReadRows:
    """A record that a class is given: its type, the dimensions of one row of each field, and those that may be None."""

    record: type[Any]
    rows: tuple[Sizes, ...]
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GivenRows:
    """A record that a method returns: its type, and the dtype and dimensions of one row of each field."""

    record: type[Any]
    dtypes: tuple[torch.dtype, ...]
    rows: tuple[Sizes, ...]


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
    """

    owner: str
    path: str
    python: Any
    inputs: ReadRows
    carried: ReadRows | None
    methods: Mapping[str, GivenRows]
    written: ReadRows | None = None

    def map(self, *inputs: Tensor, **present: Tensor) -> tuple[Tensor, ...]:
        """What the object's `map` gives, `(*leading, *dims)` each.

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

    def inverse(self, *written: Tensor) -> tuple[Tensor, ...]:
        """What its `inverse` gives the environment, for what the policy wrote; as `map`."""
        assert self.written is not None
        return self._call("inverse", (self.written,), written, {})

    def _call(
        self,
        name: str,
        records: tuple[ReadRows, ...],
        values: tuple[Tensor, ...],
        present: Mapping[str, Tensor],
    ) -> tuple[Tensor, ...]:
        gives = self.methods[name]
        method = Method(self.owner, self.path, name, gives.record)
        fields = [
            (record, field, rows)
            for record in records
            for field, rows in zip(record.record._fields, record.rows, strict=True)
        ]
        there = [one for one in fields if one[1] not in one[0].optional or one[1] in present]
        positional = iter(values)
        known_values = [present[f] if f in record.optional else next(positional) for record, f, _ in there]
        lead, flat, known = as_rows(str(method), known_values, [rows for _, _, rows in there])
        names = [field for _, field, _ in there]
        before = (
            []
            if is_traced()
            else [(name, value, value._version) for name, value in zip(names, flat, strict=True)]
        )
        made_rows = {(record, field): value for (record, field, _), value in zip(there, flat, strict=True)}
        given = [
            record.record._make(made_rows.get((record, field)) for field in record.record._fields)
            for record in records
        ]
        found = getattr(self.python, name)(*given)
        method.refuse_changes(before)
        method.check_record(found)
        device = flat[0].device
        made = []
        for field, value, dtype, rows in zip(
            gives.record._fields, found, gives.dtypes, gives.rows, strict=True
        ):
            dims = tuple(known.get(size, -1) if isinstance(size, str) else size for size in rows)
            fits = isinstance(value, Tensor) and value.dtype is dtype and value.device == device
            if not fits or value.shape[:1] != (lead.numel(),) or not unified(rows, value.shape[1:], known):
                told = ReturnedField(field, field, Unbounded(), dtype, dims, column=False)
                method.refuse(told, (lead.numel(),), device, value)
            made.append(cast("Tensor", value).reshape((*lead, *value.shape[1:])))
        return tuple(made)


class PythonTransform(GeneratedTransform[Row, InverseRow]):
    """Base of generated transforms that a user's class is behind.

    The class is imported when a transform is made (where it reads the environment: when it is first needed), not before,
    so that generated code can be imported by the module that it stands in. Its object is `python`; an `nn.Module` is a
    submodule.

    Attributes:
        _python_class: the class as the schema names it, `package.module:Class`.
        _python_inputs: what each method is given.
        _python_carried: what `step` is given of what was returned before.
        _python_written: what `inverse` is given.
        _python_methods: what each method returns.
        _reads_env: whether the object is made with the environment.
    """

    _python_class: ClassVar[str]
    _python_inputs: ClassVar[ReadRows] = ReadRows(tuple, ())
    _python_carried: ClassVar[ReadRows | None] = None
    _python_written: ClassVar[ReadRows | None] = None
    _unknown_inverse = True
    _python_methods: ClassVar[Mapping[str, GivenRows]]
    _reads_env: ClassVar[bool] = False

    @abstractmethod
    def _make_python(self, device: torch.device | None) -> Any:
        """Import the user's class and make its object."""

    def _begin_python(self) -> None:
        """Make the object, unless it waits for the environment.

        Raises:
            ImportError: there is no such class.
            TypeError: its object lacks a method.
        """
        if not self._reads_env:
            self._take_python(None)

    def _take_python(self, device: torch.device | None) -> None:
        python = made_of_class(self, self._python_class, lambda: self._make_python(device))
        for name in self._python_methods:
            if not callable(getattr(python, name, None)):
                raise TypeError(f"{type(self).__name__}: {self._python_class} has no method '{name}'")
        if isinstance(python, nn.Module):
            self.add_module("python", python)
        else:
            self.__dict__["python"] = python

    def _base_env(self) -> Any:
        """The environment that all transforms stand around.

        Raises:
            RuntimeError: there is none, or it is a batch of environments in workers.
        """
        chain: Any = self.__dict__.get("_chain")
        env: Any = self.parent if chain is None else chain
        if env is None:
            raise RuntimeError(f"{type(self).__name__} reads its environment, and is part of none")
        while hasattr(env, "base_env"):
            env = env.base_env
        if hasattr(env, "num_workers"):
            raise RuntimeError(
                f"{type(self).__name__} reads its environment, which {type(env).__name__} has in workers: put the "
                "transform into each of them"
            )
        return env

    def object_of_rows(self, owner: str | None = None) -> ObjectOfRows:
        """The user's object behind its boundary; `owner` is the class that calls it."""
        if self._reads_env and "python" not in self.__dict__ and "python" not in self._modules:
            self._take_python(self._base_env().device)
        return ObjectOfRows(
            owner or type(self).__name__,
            self._python_class,
            self.python,
            self._python_inputs,
            self._python_carried,
            self._python_methods,
            self._python_written,
        )

    python: Any
    """The user's object."""

    def _inputs_of(self, key: Row, moment: TensorDictBase) -> tuple[list[Tensor], dict[str, Tensor]]:
        """What a repetition gives to the class: what is always there, and those of the other fields that are."""
        optional = self._python_inputs.optional
        found = {
            field: self._require(moment, place)
            for field in self._python_inputs.record._fields
            if (place := getattr(key, field)) is not None
        }
        return (
            [value for field, value in found.items() if field not in optional],
            {field: value for field, value in found.items() if field in optional},
        )

    def _store(self, moment: TensorDictBase, key: Row, name: str, found: tuple[Tensor, ...]) -> None:
        for field, value in zip(self._python_methods[name].record._fields, found, strict=True):
            place: NestedKey = getattr(key, field)
            if field in self._flags:
                value = self._flag(moment, place) | value
            if field in self._recalls and field in self._writes:
                self._keep(moment, place, value)
            else:
                self._write(moment, place, value)

    def _map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        if "map" not in self._python_methods:
            return tensordict
        python, fields = self.object_of_rows(), self._python_inputs.record._fields
        seen = self._as_before(tensordict)
        for key in self.keys:
            places = [getattr(key, field) for field in fields]
            if tolerant and self._lacks(seen, *(place for place in places if place is not None)):
                continue
            inputs, present = self._inputs_of(key, seen)
            self._store(tensordict, key, "map", python.map(*inputs, **present))
        return tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if "reset" in self._python_methods:
            python = self.object_of_rows()
            for key in self.keys:
                inputs, present = self._inputs_of(key, tensordict_reset)
                self._store(tensordict_reset, key, "reset", python.reset(*inputs, **present))
                for field in self._flags:
                    flag: NestedKey = getattr(key, field)
                    self._write(tensordict_reset, flag, self._flag(tensordict_reset, flag))
        return super()._reset(tensordict, tensordict_reset)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        if "step" not in self._python_methods:
            return super()._step(tensordict, next_tensordict)
        python = self.object_of_rows()
        carried = () if self._python_carried is None else self._python_carried.record._fields
        for key in self.keys:
            last = [self._recall(tensordict, getattr(key, field)) for field in carried]
            inputs, present = self._inputs_of(key, next_tensordict)
            self._store(next_tensordict, key, "step", python.step(*last, *inputs, **present))
        return self._dropped(next_tensordict)

    def _inverse_map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        if "inverse" not in self._python_methods:
            return tensordict
        python, outer = self.object_of_rows(), self._as_taken(tensordict)
        for key in self.keys_inv:
            places = [getattr(key, field) for field in self._takes]
            if tolerant and self._lacks(outer, *places):
                continue
            made = python.inverse(*(self._require(outer, place) for place in places))
            for field, value in zip(self._gives, made, strict=True):
                self._give(tensordict, getattr(key, field), value)
        return tensordict


def python_object(owner: nn.Module, name: str, transform: PythonTransform[Any, Any]) -> ObjectOfRows:
    """The class behind a transform as a chain calls it; an `nn.Module` is a submodule of the chain.

    Raises:
        TypeError: it is a module, and keeps the chain, which it reads, as a submodule.
    """
    transform.__dict__["_chain"] = owner  # the environment of a class that reads one
    made = transform.object_of_rows(type(owner).__name__)
    if isinstance(made.python, nn.Module):
        if any(module is owner for module in made.python.modules()):
            raise TypeError(
                f"{type(owner).__name__}: {transform._python_class} is a submodule of the environment, and keeps that as a "
                "submodule of its own: keep what it needs of it, or `(setup.env,)`"
            )
        device: torch.device | None = getattr(owner, "_device", None)  # of environments
        owner.add_module(name, made.python if device is None else made.python.to(device))
    return made
