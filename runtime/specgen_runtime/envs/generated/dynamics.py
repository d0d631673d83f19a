"""The boundary between generated environments and classes that users write: `VectorDynamics`, `SimulatorDynamics`.

A generated environment calls a user's object through one of these. They hand it what its Protocol says, compare
what it returns with the declaration, and give tensors as the environment stores them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.envs.generated.returned import Method, ReturnedField, fields_of
from specgen_runtime.envs.generated.specs import EnvSpecs
from specgen_runtime.envs.in_place import is_borrowed
from specgen_runtime.envs.keys import show_key
from specgen_runtime.envs.traced import is_traced
from specgen_runtime.specs.values import to_spec_array
from specgen_runtime.typing import NestedKey

__all__ = ["PythonDynamics", "SimulatorDynamics", "VectorDynamics"]

P = TypeVar("P")


class PythonDynamics(Generic[P]):
    """A user's object behind its boundary; the base of both forms.

    Args:
        python: the user's object.
        methods: its `reset` and its `step`.
        specs: the specs of the environment itself, without batch dimensions and without transforms.
        generator: where random numbers come from.
        device: the device of all data; None leaves it open.
        check_domains: whether values outside their declared domain, and NaN, are refused.

    Raises:
        TypeError: the object has no `reset` or no `step`.
    """

    def __init__(
        self,
        python: P,
        methods: tuple[Method, Method],
        specs: EnvSpecs,
        generator: torch.Generator,
        device: torch.device | None,
        check_domains: bool,
    ) -> None:
        self.python = python
        self.check_domains = check_domains
        self._on_reset, self._on_step = methods
        self._actions = specs.action
        self._reset_fields = fields_of(self._on_reset.record, specs)
        self._step_fields = fields_of(self._on_step.record, specs)
        self._generator = generator
        self._device = device
        for method in methods:
            if not callable(getattr(python, method.name, None)):
                raise TypeError(f"{method.env}: {method.python} has no method '{method.name}'")

    def seed(self, seed: int) -> None:
        """Begin anew with the random numbers of this seed."""

    def resume(self, before: PythonDynamics[Any]) -> None:
        """Go on where another boundary of the same object stood: the environment has moved."""

    def close(self) -> None:
        """Call the object's own `close`, if it has one."""
        close = getattr(self.python, "close", None)
        if callable(close):
            close()


def _rows(values: Any, lead: torch.Size) -> Any:
    """A tuple of tensors `(*batch, ...)`, perhaps a record, with one batch dimension in front."""
    n = len(lead)
    if n == 1:
        return values
    rows = lead.numel()
    flat = [value.reshape(rows, *value.shape[n:]) for value in values]
    return type(values)._make(flat) if hasattr(values, "_make") else tuple(flat)


def _fields(*records: Any) -> list[tuple[str, Tensor]]:
    """The fields of records, with their names."""
    return [pair for record in records for pair in zip(record._fields, record, strict=True)]


class VectorDynamics(PythonDynamics[P]):
    """A user's vectorised, stateless object: `reset(rows, generator)` and `step(state, *actions, generator)`.

    The object sees rows: one batch dimension in front, whatever the batch size of the environment is. If parameters
    differ between environments, both are handed a record of them too, before the generator.
    """

    _returned: tuple[Tensor, ...] = ()
    """What the object returned last; it must leave that as it is."""

    def reset(self, not_done: Tensor, params: tuple[Tensor, ...] | None = None) -> tuple[Tensor, ...]:
        """New episodes.

        Args:
            not_done: bool `(*batch, 1)`; it tells the batch shape.
            params: the record of the parameters that differ between environments, `(*batch, ...)` each, if
                there are some.

        Returns:
            The fields of the record that `reset` returns, `(*batch, ...)` each, in order.

        Raises:
            TypeError: the object returned something else than its record of tensors.
            RuntimeError: a dtype, shape or device is not the declared one, or a tensor was changed in place.
            ValueError: a value is outside its domain, where that is checked.
        """
        lead = not_done.shape[:-1]
        given: tuple[Any, ...] = () if params is None else (_rows(params, lead),)
        before = self._seen(_fields(*given))
        python: Any = self.python
        found = python.reset(lead.numel(), *given, self._generator)
        self._on_reset.refuse_changes(before)
        return self._checked(found, self._on_reset, self._reset_fields, lead)

    def step(
        self,
        done: Tensor,
        state: tuple[Tensor, ...],
        *actions: Tensor,
        params: tuple[Tensor, ...] | None = None,
    ) -> tuple[Tensor, ...]:
        """One step.

        Args:
            done: bool `(*batch, 1)`; it tells the batch shape.
            state: the state record, `(*batch, ...)` each.
            actions: `(*batch, ...)` each, in the order declared.
            params: as `reset`.

        Returns:
            The fields of the record that `step` returns, `(*batch, ...)` each, in order; rewards and done flags
            have a trailing 1.

        Raises:
            TypeError: as `reset`.
            RuntimeError: as `reset`.
            ValueError: as `reset`.
        """
        lead = done.shape[:-1]
        records: tuple[Any, ...] = (state,) if params is None else (state, params)
        if len(lead) != 1:
            records = tuple([_rows(record, lead) for record in records])
            actions = _rows(actions, lead)
        before = self._seen([*_fields(*records), *[("action", action) for action in actions]])
        python: Any = self.python
        found = python.step(records[0], *actions, *records[1:], self._generator)
        self._on_step.refuse_changes(before)
        return self._checked(found, self._on_step, self._step_fields, lead)

    def _seen(self, given: Iterable[tuple[str, Tensor]]) -> list[tuple[str, Tensor, int]]:
        """The tensors that the object must not change, with their present version."""
        if is_traced():
            return []
        seen = [*given, *(("a tensor that it returned before", value) for value in self._returned)]
        return [(name, value, value._version) for name, value in seen if not value.is_inference()]

    def _checked(
        self, found: Any, method: Method, fields: tuple[ReturnedField, ...], lead: torch.Size
    ) -> tuple[Tensor, ...]:
        method.check_record(found)
        rows, flat, traced = lead.numel(), len(lead) == 1, is_traced()
        results = []
        for value, field in zip(found, fields, strict=True):
            if (
                not isinstance(value, Tensor)
                or value.dtype is not field.dtype
                or value.shape != (rows, *field.dims)
                or (self._device is not None and value.device != self._device)
            ):
                method.refuse(field, (rows,), self._device, value)
            if self.check_domains:
                method.check_domain(field, value)
            if not traced and is_borrowed(value):
                value = value.clone()  # before the object writes into its array
            if not flat:
                value = value.reshape((*lead, *field.dims))
            results.append(value.unsqueeze(-1) if field.column else value)
        if not traced:
            self._returned = tuple(found)
        return tuple(results)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_returned"}


class SimulatorDynamics(PythonDynamics[P]):
    """A user's object that simulates one instance and keeps its state: `reset(seed)` and `step(*actions)`.

    It may return Python numbers, lists, arrays or tensors; they are copied. Parameters that differ between
    environments are told at a reset: `reset(seed, params)`.
    """

    _episode_params: Any = None
    """The record of parameters that the last reset was told."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # as all that is drawn, the first episode follows from the generator, until `seed` is called
        place = self._generator.device
        self._seed: int | None = int(torch.randint(2**31, (), generator=self._generator, device=place).item())

    def seed(self, seed: int) -> None:
        """Pass the seed to the next reset."""
        self._seed = seed

    def resume(self, before: PythonDynamics[Any]) -> None:
        """Keep what the next reset passes on."""
        assert isinstance(before, SimulatorDynamics)
        self._seed = before._seed
        if before._episode_params is not None:
            self._episode_params = _copies(before._episode_params, self._generator.device)

    def rand_action(self, key: NestedKey) -> Tensor:
        """A random action of the environment, by torch's global generator."""
        action: Tensor = self._actions[key].rand()
        return action

    def episode_params(self) -> Any:
        """The record of the parameters of this episode, in memory of its own.

        Raises:
            RuntimeError: there was no reset yet.
        """
        if self._episode_params is None:
            raise RuntimeError(f"{self._on_step}: reset the environment before the first step")
        return _copies(self._episode_params, self._generator.device)

    def reset(self, not_done: Tensor, params: tuple[Tensor, ...] | None = None) -> tuple[Tensor, ...]:
        """A new episode.

        Args:
            not_done: bool `(1,)`.
            params: the record of the parameters that differ between environments, if there are some; the object
                gets copies on the CPU.

        Returns:
            The fields of the record that `reset` returns, as tensors, in order.

        Raises:
            TypeError: the object returned something else than its record, or a value is no number.
            RuntimeError: a dtype or shape is not the declared one.
            ValueError: a value does not fit the dtype, or is outside its domain, where that is checked.
        """
        del not_done  # a simulation is one instance
        seed, self._seed = self._seed, None
        python: Any = self.python
        if params is None:
            found = python.reset(seed)
        else:
            found = python.reset(seed, _copies(params, torch.device("cpu")))
            self._episode_params = _copies(params, self._generator.device)
        return self._converted(found, self._on_reset, self._reset_fields)

    def step(self, *actions: Tensor) -> tuple[Tensor, ...]:
        """One step.

        Args:
            actions: in the order declared; the object gets copies on the CPU.

        Returns:
            The fields of the record that `step` returns, as tensors, in order; rewards and done flags have a
            trailing 1.

        Raises:
            TypeError: as `reset`.
            RuntimeError: as `reset`.
            ValueError: as `reset`.
        """
        python: Any = self.python
        found = python.step(*[action.detach().cpu().clone() for action in actions])
        return self._converted(found, self._on_step, self._step_fields)

    def _converted(self, found: Any, method: Method, fields: tuple[ReturnedField, ...]) -> tuple[Tensor, ...]:
        method.check_record(found)
        results = []
        for value, field in zip(found, fields, strict=True):
            tensor = _as_tensor(value, field, method)
            if tensor.dtype is not field.dtype or tensor.shape != field.dims:
                method.refuse(field, (), None, tensor)
            if self.check_domains:
                method.check_domain(field, tensor.unsqueeze(0))
            tensor = tensor.to(self._generator.device)
            results.append(tensor.unsqueeze(-1) if field.column else tensor)
        return tuple(results)


def _copies(record: Any, device: torch.device) -> Any:
    """A record of tensors in memory of its own, without gradients."""
    return type(record)._make([value.detach().to(device, copy=True) for value in record])


def _as_tensor(value: Any, field: ReturnedField, method: Method) -> Tensor:
    """A fresh tensor of a value; a tensor keeps its dtype, numbers take the declared one if they fit.

    Raises:
        TypeError: no numbers, or a done flag that is no truth value.
        ValueError: the declared dtype does not hold the numbers.
    """
    if isinstance(value, Tensor):
        return value.detach().clone()
    what = f"{method}: {show_key(field.key)}"
    if field.dtype is torch.bool and np.asarray(value).dtype != np.bool_:
        raise TypeError(f"{what} must be bool, found {value!r}")
    return to_spec_array(value, field.dtype, what)
