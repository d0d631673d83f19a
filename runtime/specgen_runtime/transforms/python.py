"""`PythonTransform`: generated transforms whose behaviour is a class that the user writes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from specgen_runtime.envs.generated.importing import made_of_class
from specgen_runtime.transforms.bound import InverseRow, Row
from specgen_runtime.transforms.generated import GeneratedTransform
from specgen_runtime.transforms.python_rows import GivenRows, ObjectOfRows, ReadRows
from specgen_runtime.typing import NestedKey

__all__ = ["PythonTransform", "python_object"]


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
        _python_asked: the outputs that are there only where users name them, each with the keyword.
    """

    _python_class: ClassVar[str]
    _python_inputs: ClassVar[ReadRows] = ReadRows(tuple, ())
    _python_carried: ClassVar[ReadRows | None] = None
    _python_written: ClassVar[ReadRows | None] = None
    _unknown_inverse = True
    _python_methods: ClassVar[Mapping[str, GivenRows]]
    _reads_env: ClassVar[bool] = False
    _python_asked: ClassVar[Mapping[str, str]] = {}

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

    def object_of_rows(self, owner: str | None = None, size: Sequence[int] = ()) -> ObjectOfRows:
        """The user's object behind its boundary.

        Args:
            owner: the class that calls it.
            size: the batch size of the rows that it is given.
        """
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
            (*self._absent(), *(self._python_asked.keys() - self._asked())),
            {name: self._for_rows(name, torch.Size(size)) for name in self._python_params},
        )

    def _asked(self) -> frozenset[str]:
        """Those of the outputs which are there only where users name them that they named."""
        return frozenset(
            name for name, keyword in self._python_asked.items() if getattr(self, keyword) is not None
        )

    @property
    def _python_params(self) -> tuple[str, ...]:
        """The parameters of which each row has its own value."""
        read = (self._python_inputs, self._python_written)
        return tuple(dict.fromkeys(name for one in read if one is not None for name in one.params))

    python: Any
    """The user's object."""

    def _inputs_of(self, key: Row, moment: TensorDictBase) -> tuple[list[Tensor], dict[str, Tensor]]:
        """What a repetition gives to the class: what is always there, and those of the other fields that are."""
        optional = self._python_inputs.optional
        found = {
            field: self._require(moment, place)
            for field in self._python_inputs.entries
            if (place := getattr(key, field)) is not None
        }
        return (
            [value for field, value in found.items() if field not in optional],
            {field: value for field, value in found.items() if field in optional},
        )

    def _carried_of(self, key: Row, tensordict: TensorDictBase) -> tuple[list[Tensor], dict[str, Tensor]]:
        """What was returned before of that which is carried: what always is, and the rest that exists."""
        carried = self._python_carried
        if carried is None:
            return [], {}
        found = {
            field: self._recall(tensordict, place)
            for field in carried.entries
            if field in self._carries and (place := getattr(key, field)) is not None
        }
        return (
            [value for field, value in found.items() if field not in carried.optional],
            {field: value for field, value in found.items() if field in carried.optional},
        )

    def _store(
        self, moment: TensorDictBase, key: Row, outputs: Collection[str], found: tuple[Tensor, ...]
    ) -> None:
        for field, value in zip(outputs, found, strict=True):
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
        python, fields = self.object_of_rows(size=tensordict.batch_size), self._python_inputs.entries
        seen = self._as_before(tensordict)
        for key in self.keys:
            places = [getattr(key, field) for field in fields]
            if tolerant and self._lacks(seen, *(place for place in places if place is not None)):
                continue
            inputs, present = self._inputs_of(key, seen)
            if outputs := python.outputs("map", present):
                self._store(tensordict, key, outputs, python.map(*inputs, **present))
        return tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if "reset" in self._python_methods:
            python = self.object_of_rows(size=tensordict_reset.batch_size)
            for key in self.keys:
                inputs, present = self._inputs_of(key, tensordict_reset)
                if outputs := python.outputs("reset", present):
                    self._store(tensordict_reset, key, outputs, python.reset(*inputs, **present))
                for field in self._flags:
                    flag: NestedKey | None = getattr(key, field)
                    if flag is None:
                        continue
                    self._write(tensordict_reset, flag, self._flag(tensordict_reset, flag))
        return super()._reset(tensordict, tensordict_reset)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        if "reset" not in self._python_methods:
            return super()._step(tensordict, next_tensordict)
        python = self.object_of_rows(size=next_tensordict.batch_size)
        for key in self.keys:
            for field in self._policy:
                if (place := getattr(key, field)) is not None:
                    self._leave_to_policy(tensordict, next_tensordict, place)
            if "step" not in self._python_methods:
                continue
            inputs, present = self._inputs_of(key, next_tensordict)
            last, sometimes = self._carried_of(key, tensordict)
            if outputs := python.outputs("step", present):
                self._store(
                    next_tensordict, key, outputs, python.step(*last, *inputs, **sometimes, **present)
                )
        return self._dropped(next_tensordict)

    def _inverse_map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        if "inverse" not in self._python_methods:
            return tensordict
        python, outer = self.object_of_rows(size=tensordict.batch_size), self._as_taken(tensordict)
        sometimes = () if self._python_written is None else self._python_written.optional
        for key in self.keys_inv:
            places = {name: place for name in self._takes if (place := getattr(key, name)) is not None}
            if tolerant and self._lacks(outer, *places.values()):
                continue
            written = {name: self._require(outer, place) for name, place in places.items()}
            made = python.inverse(
                *(value for field, value in written.items() if field not in sometimes),
                **{field: value for field, value in written.items() if field in sometimes},
            )
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
