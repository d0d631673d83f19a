"""What an environment does with readers of the info."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from tensordict import TensorDictBase

from specgen_runtime.envs.gym.info import BaseInfoDictReader, default_info_dict_reader
from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.specs import Composite

__all__ = ["ReadsInfo"]


class ReadsInfo:
    """The part of a Gymnasium environment that keeps what info dicts tell."""

    if TYPE_CHECKING:
        _info_dict_reader: list[Any]

    @property
    def info_dict_reader(self) -> list[Any]:
        """The readers, in the order in which they are called."""
        return self._info_dict_reader

    def read_info(self, info: Any, tensordict: TensorDictBase) -> TensorDictBase:
        """Call the readers on an info dict and the result of the reset or step it came with.

        What they leave out and the observation spec has is filled with zeros.
        """
        if not self._info_dict_reader:
            return tensordict
        for reader in self._info_dict_reader:
            result = reader(info, tensordict)
            tensordict = tensordict if result is None else result
        env: Any = self
        for key, spec in env.full_observation_spec.items(True, True):
            if spec is not None and tensordict.get(key, None) is None:
                tensordict.set(key, spec.zero())
        return tensordict

    def set_info_dict_reader(self, info_dict_reader: Any | None = None, ignore_private: bool = True) -> Self:
        """Add a reader: what it keeps of the info is in `"next"`, in the root after a reset, and in the specs.

        Args:
            info_dict_reader: a `BaseInfoDictReader`, or any function of an info dict and the tensordict of a reset
                or step, which it writes to; no spec tells what such a function writes. None is a
                `default_info_dict_reader` that keeps everything. Where specs have to be learnt, the
                environment is reset and makes a step; seeds that were set and torch's generator stay.
            ignore_private: whether that reader leaves out keys that begin with an underscore.

        Returns:
            The same environment.

        Raises:
            TypeError: the reader cannot be called.
            RuntimeError: it keeps something under a key that the environment has already.
        """
        reader = info_dict_reader
        if reader is None:
            reader = default_info_dict_reader(ignore_private=ignore_private)
        if not callable(reader):
            raise TypeError(f"an info reader must be callable, found {type(reader).__name__}")
        env: Any = self
        if isinstance(reader, default_info_dict_reader) and reader.learns:
            with _rehearsal(env) as infos:
                env.reset()
                env.rand_step()
                env.reset()
            reader.learn(infos[:-1], env.batch_size)
        if isinstance(reader, BaseInfoDictReader):
            self._add_specs(reader.info_spec)
        self._info_dict_reader.append(reader)
        env._readers_changed()
        return self

    def _add_specs(self, info_spec: Any) -> None:
        env: Any = self
        specs = env.full_observation_spec.clone()
        taken = {as_tuple(key) for key in specs.keys(True, True)}
        n = env.ndim
        for key, spec in Composite(dict(info_spec.items())).items(True, True):
            if as_tuple(key) in taken:
                raise RuntimeError(f"the info has a key that the observations have too: {key!r}")
            if spec is not None and spec.shape[:n] != env.batch_size:
                spec = spec.expand(*env.batch_size, *spec.shape)
            path = as_tuple(key)
            for depth in range(1, len(path)):
                if path[:depth] not in specs.keys(True):
                    specs.set(path[:depth], Composite(shape=env.batch_size, device=env.device))
            specs.set(key, spec)
        env.full_observation_spec = specs

    def auto_register_info_dict(
        self, ignore_private: bool = True, *, info_dict_reader: BaseInfoDictReader | None = None
    ) -> Self:
        """Add a reader that keeps everything, or a given one, and check that data and specs agree.

        The environment makes a few steps; seeds that were set and torch's generator stay.

        Args:
            ignore_private: whether keys that begin with an underscore are left out.
            info_dict_reader: the reader, if it is known.

        Raises:
            RuntimeError: there is a reader already.
            AssertionError: data and specs do not agree.
        """
        from specgen_runtime.envs.check_specs import check_env_specs

        if self._info_dict_reader:
            raise RuntimeError("the environment has an info reader already")
        self.set_info_dict_reader(info_dict_reader, ignore_private)
        env: Any = self
        with _rehearsal(env):
            check_env_specs(env)
        return self


@contextmanager
def _rehearsal(env: Any) -> Iterator[list[Any]]:
    """Let the environment run without spending seeds or torch's random numbers; collects the info dicts."""
    infos: list[Any] = []

    def collect(info: Any, tensordict: TensorDictBase) -> TensorDictBase:
        infos.append(dict(info or {}))
        return tensordict

    readers = list(env._info_dict_reader)
    env._info_dict_reader.append(collect)
    env._readers_changed()
    try:
        with env._keeping_seeds():
            yield infos
    finally:
        env._info_dict_reader[:] = readers
        env._readers_changed()
