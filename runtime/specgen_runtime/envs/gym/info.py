"""Readers of the info that Gymnasium gives beside its observations: from a dict to entries of a tensordict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDictBase

from specgen_runtime.envs.keys import as_tuple, show_key
from specgen_runtime.specs import Composite, NonTensor, TensorSpec, Unbounded
from specgen_runtime.specs.values import to_spec_array
from specgen_runtime.typing import NestedKey

__all__ = ["BaseInfoDictReader", "default_info_dict_reader", "terminal_obs_reader"]


LAST_STEP = frozenset({"final_obs", "final_info", "_final_obs", "_final_info"})
"""Where a vector environment that has reset environments in the same step tells of the last step before."""


class BaseInfoDictReader(ABC):
    """Writes what it wants to keep of an info dict into a tensordict.

    It is called at every reset and step, with the result of either.
    """

    @abstractmethod
    def __call__(self, info_dict: dict[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        """Write into `tensordict` what `info_dict` holds, and return it."""

    @property
    @abstractmethod
    def info_spec(self) -> Any:
        """The specs of what is written: a `Composite`, or a dict of specs."""


class default_info_dict_reader(BaseInfoDictReader):  # noqa: N801  TorchRL's name
    """Keeps numbers, arrays, texts and nested dicts under their own keys.

    A key that an info dict lacks is filled with zeros. Values are converted to the dtype of their spec. Specs
    that are not given are learnt from the first infos: NumPy's dtypes stay, Python's floats are float32.

    Args:
        keys: what to keep, nested keys as tuples; all keys if None.
        spec: a spec for each of the keys, in their order; or specs by key, which say what to keep if `keys` is
            None.
        ignore_private: whether keys that begin with an underscore are left out where `keys` is None.

    Raises:
        ValueError: there are more or fewer specs than keys.
    """

    def __init__(
        self,
        keys: Sequence[NestedKey] | None = None,
        spec: Sequence[TensorSpec] | Mapping[str, TensorSpec] | Composite | None = None,
        ignore_private: bool = True,
    ) -> None:
        self.ignore_private = ignore_private
        self.keys: list[NestedKey] | None = None if keys is None else list(keys)
        self._info_spec: Composite | None = None
        self.learns = spec is None
        """Whether specs are still to be learnt."""
        if spec is None:
            if self.keys is not None:
                self._info_spec = _composite((key, Unbounded(())) for key in self.keys)
            return
        if isinstance(spec, Composite):
            self._info_spec = spec.clone()
        elif isinstance(spec, Mapping):
            self._check_count(len(spec))
            self._info_spec = _composite(spec.items())
        else:
            self._check_count(len(spec))
            self._info_spec = _composite(zip(self.keys or (), spec, strict=True))
        if self.keys is None:
            self.keys = list(self._info_spec.keys())

    def _check_count(self, found: int) -> None:
        expected = None if self.keys is None else len(self.keys)
        if expected != found and not (expected is None and found == 0):
            known = "no keys" if expected is None else f"{expected} keys"
            raise ValueError(f"default_info_dict_reader: {found} specs for {known}; give one spec a key")

    @property
    def info_spec(self) -> Composite | None:
        """The specs of what is kept; None if they are to be learnt and no key is known yet."""
        return self._info_spec

    def reset(self) -> None:
        """Forget the keys and specs."""
        self.keys, self._info_spec, self.learns = None, None, True

    def learn(self, infos: Sequence[Mapping[str, Any]], batch_size: torch.Size) -> None:
        """Find the specs that were not given, from examples of info dicts.

        Args:
            infos: later ones are looked at first.
            batch_size: the environment's.
        """
        whole: dict[str, Any] = {}
        for info in infos:
            _overlay(whole, info)
        keys = self.keys
        if keys is None:
            keys = [key for key in whole if whole[key] is not None and not self._ignores(key)]
        self.keys = keys
        self._info_spec = _composite(
            ((key, self._spec_of(_find(whole, key), batch_size)) for key in keys), batch_size
        )
        self.learns = False

    def _ignores(self, key: Any) -> bool:
        if not isinstance(key, str) or key in LAST_STEP:
            return True
        return self.ignore_private and key.startswith("_")

    def _spec_of(self, value: Any, batch_size: torch.Size) -> TensorSpec:
        if isinstance(value, Mapping):
            entries = {key: inner for key, inner in value.items() if not self._ignores(key)}
            return _composite(
                ((key, self._spec_of(inner, batch_size)) for key, inner in entries.items()), batch_size
            )
        if value is None:
            return Unbounded(batch_size)
        numbers = _numbers(value)
        if numbers is None:
            if not batch_size:
                return NonTensor((), example_data=value)
            return NonTensor(batch_size, example_data=value[0], batched=True)
        return Unbounded(numbers.shape, dtype=numbers.dtype)

    def __call__(self, info_dict: dict[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        """Write the values of `info_dict` under their keys, and zeros for those that it lacks.

        Raises:
            TypeError: `info_dict` is no dict.
            ValueError: a value does not fit its spec.
        """
        if not isinstance(info_dict, Mapping | TensorDictBase):
            raise TypeError(f"an info must be a dict, found {type(info_dict).__name__}")
        if self.learns:
            self.learn([dict(info_dict.items())], tensordict.batch_size)
        assert self._info_spec is not None
        self._write(info_dict, tensordict, self._info_spec, ())
        return tensordict

    def _write(self, info: Any, tensordict: TensorDictBase, specs: Composite, path: tuple[str, ...]) -> None:
        for name, spec in specs.items():
            value = info.get(name, None) if info is not None else None
            key = (*path, name)
            if isinstance(spec, Composite):
                self._write(value if isinstance(value, Mapping) else None, tensordict, spec, key)
            elif spec is not None:
                tensordict.set(key, spec.zero() if value is None else _encoded(value, spec, key))


class terminal_obs_reader(default_info_dict_reader):  # noqa: N801  TorchRL's name
    """Keeps the last observations of episodes that a vector environment has ended and restarted in one step.

    They are under `(name, key)` for each key of the observations, zeros in rows where no episode has ended; so is what
    else the info says of that moment. Vector environments say it with `AutoresetMode.SAME_STEP` only. `GymWrapper`
    needs none of this: its transitions end with the last observation of their episode.

    Args:
        observation_spec: what the environment observes, with its batch dimension.
        backend: how the info names the last observations: `"gymnasium"`, `"gym"` (before 1.0) or `"sb3"`.
        name: where they are kept.

    Raises:
        ValueError: `backend` is none of these.
    """

    backend_key: ClassVar[dict[str, str]] = {
        "sb3": "terminal_observation",
        "gym": "final_observation",
        "gymnasium": "final_obs",
    }
    backend_info_key: ClassVar[dict[str, str]] = {
        "sb3": "terminal_info",
        "gym": "final_info",
        "gymnasium": "final_info",
    }

    def __init__(self, observation_spec: Composite, backend: str = "gymnasium", name: str = "final") -> None:
        super().__init__()
        if backend not in self.backend_key:
            raise ValueError(f"backend must be one of {', '.join(self.backend_key)}, found {backend!r}")
        self.backend = backend
        self.name = name
        self._observed = observation_spec.clone()

    def learn(self, infos: Sequence[Mapping[str, Any]], batch_size: torch.Size) -> None:
        """Find the specs of the other entries of the info; see `default_info_dict_reader`."""
        super().learn([self._ordinary(info) for info in infos], batch_size)
        assert self._info_spec is not None
        final = self._observed.clone()
        final.update(self._info_spec.clone())
        self._info_spec.set(self.name, final)

    def _ordinary(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """The info without what it says of ended episodes."""
        last = LAST_STEP | {self.backend_key[self.backend], self.backend_info_key[self.backend]}
        return {key: value for key, value in info.items() if key.removeprefix("_") not in last}

    def __call__(self, info_dict: dict[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        """Write the info under its keys, and what ended episodes left under `name`."""
        if self.learns:
            self.learn([info_dict], tensordict.batch_size)
        assert self._info_spec is not None
        final = self._info_spec[self.name]
        assert isinstance(final, Composite)
        self._write(self._ordinary(info_dict), tensordict, self._info_spec.exclude(self.name), ())
        observations = info_dict.get(self.backend_key[self.backend])
        infos = info_dict.get(self.backend_info_key[self.backend])
        rows = final.zero()
        for key in final.keys():  # noqa: SIM118
            source = observations if key in self._observed.keys() else infos  # noqa: SIM118
            for place, value in _rows_of(source, key):
                rows[key][place] = torch.as_tensor(np.asarray(value), device=rows.device)
        tensordict.set(self.name, rows)
        return tensordict


def _rows_of(source: Any, key: str) -> Iterator[tuple[int, Any]]:
    """The values of one key with their rows: of an array of values or of mappings, or of a mapping of arrays."""
    if isinstance(source, Mapping):
        source = source.get(key)
    for place, value in enumerate(() if source is None else source):
        found = value.get(key) if isinstance(value, Mapping) else value
        if found is not None:
            yield place, found


def _composite(
    entries: Iterable[tuple[Any, Any]], batch_size: torch.Size | tuple[int, ...] = ()
) -> Composite:
    result = Composite(shape=batch_size)
    for key, spec in entries:
        path = as_tuple(key)
        for depth in range(1, len(path)):
            if path[:depth] not in result.keys(True):
                result.set(path[:depth], Composite(shape=batch_size))
        result.set(path if len(path) > 1 else path[0], spec)
    return result


def _overlay(target: dict[str, Any], info: Mapping[str, Any]) -> None:
    for key, value in info.items():
        if isinstance(value, Mapping) and isinstance(target.get(key), dict):
            _overlay(target[key], value)
        elif isinstance(value, Mapping):
            target[key] = {}
            _overlay(target[key], value)
        elif value is not None or key not in target:
            target[key] = value


def _find(info: Mapping[str, Any], key: NestedKey) -> Any:
    found: Any = info
    for name in as_tuple(key):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _numbers(value: Any) -> torch.Tensor | None:
    """A fresh tensor of the numbers, or None if the value is something else."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value) is float:
        return torch.tensor(value, dtype=torch.float32)
    array = _array(value)
    if array is None or array.dtype.kind not in "biuf":
        return None
    try:
        return torch.from_numpy(np.array(array))
    except TypeError:  # a dtype that torch has not got
        return None


def _array(value: Any) -> Any:
    try:
        array = np.asarray(value)
        return np.stack(array.tolist()) if array.dtype == np.object_ and array.ndim else array
    except (TypeError, ValueError):
        return None


def _encoded(value: Any, spec: TensorSpec, key: tuple[str, ...]) -> Any:
    """A value of the info as a value of its spec.

    Raises:
        ValueError: it does not fit.
    """
    dtype = spec.dtype
    if dtype is None or isinstance(spec, NonTensor):
        return spec.encode(value.tolist() if isinstance(value, np.ndarray) and spec.shape else value)
    try:
        if isinstance(value, torch.Tensor):
            tensor = value.detach().clone().to(dtype)
        else:
            tensor = to_spec_array(_array(value), dtype, show_key(key))
    except (TypeError, ValueError) as error:
        raise ValueError(f"info {show_key(key)} does not fit its spec {spec}: {error}") from None
    if tensor.shape != spec.shape:
        if tensor.numel() != 1 or spec.shape.numel() != 1:
            raise ValueError(
                f"info {show_key(key)} must have shape {list(spec.shape)}, found {list(tensor.shape)}"
            )
        tensor = tensor.reshape(spec.shape)
    return tensor if spec.device is None else tensor.to(spec.device)
