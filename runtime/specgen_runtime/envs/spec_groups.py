"""`SpecGroups`: the five composites that hold an environment's specs, checked and locked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn

from specgen_runtime.envs.done import check_done_spec
from specgen_runtime.envs.keys import as_tuple, join_key, show_key
from specgen_runtime.specs import Categorical, Composite, TensorSpec, Unbounded
from specgen_runtime.specs.arguments import as_device
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["DEFAULT_KEYS", "INPUT_GROUPS", "OUTPUT_GROUPS", "SPEC_GROUPS", "SpecGroups"]

OUTPUT_GROUPS = ("full_reward_spec", "full_done_spec", "full_observation_spec")
INPUT_GROUPS = ("full_action_spec", "full_state_spec")
SPEC_GROUPS = (*INPUT_GROUPS, *OUTPUT_GROUPS)

DEFAULT_KEYS = {
    "full_action_spec": "action",
    "full_observation_spec": "observation",
    "full_reward_spec": "reward",
    "full_done_spec": "done",
}
"""The key of a leaf that is set as the whole group."""


class _NoCache(dict[str | tuple[str, ...], Any]):
    """Forgets at once: what follows from specs that may change at any time."""

    def __setitem__(self, key: str | tuple[str, ...], value: Any) -> None:
        pass


class SpecGroups(nn.Module):
    """The part of an environment that holds its specs, batch size and device.

    Specs are stored with the environment's batch dimensions in front. They change through the setters; in place
    only until the environment is first used (steps, keys, `input_spec`), when they are checked and locked.

    They may be set before `super().__init__()` is called, and `__new__` may leave them on the class, as
    `_input_spec` and `_output_spec`: the instance takes them from there.
    """

    if TYPE_CHECKING:
        # nn.Module answers any attribute; without that, a misspelt one is an error in type checkers.
        __getattr__: None  # type: ignore[misc, assignment]

    _device: torch.device | None
    _batch_size: torch.Size
    _groups: dict[str, Composite]
    _unstated: set[str]
    """The groups that nobody has set: their default stands for them."""
    _cache: dict[str | tuple[str, ...], Any]
    """What follows from the specs; forgotten when they change."""
    _spec_locked: bool

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make the places of the specs; the constructor's arguments are not looked at."""
        env: Any = super().__new__(cls)
        # Constructors may set specs before they call that of the base.
        env.__dict__.update(
            _device=None,
            _batch_size=torch.Size(()),
            _groups={},
            _unstated=set(),
            _cache={},
            _spec_locked=True,
        )
        for name in ("_input_spec", "_output_spec"):
            declared = getattr(cls, name)
            if isinstance(declared, Composite):
                env.__dict__["_groups"].update(declared.clone().items())
                if name in cls.__dict__:
                    delattr(cls, name)
        made: Self = env
        return made

    def __init__(
        self,
        *,
        device: DEVICE_TYPING | None = None,
        batch_size: torch.Size | tuple[int, ...] | list[int] | int | None = None,
        spec_locked: bool = True,
    ) -> None:
        super().__init__()
        early = self._groups
        if batch_size is None:
            batch_size = next(iter(early.values())).shape if early else ()
        self._device = None if device is None else as_device(device)
        self._batch_size = torch.Size((batch_size,) if isinstance(batch_size, int) else tuple(batch_size))
        self._groups, self._unstated = {}, set()
        self._adopt(early)
        self._spec_locked = True
        self.set_spec_lock_(spec_locked)

    def _adopt(self, early: dict[str, Composite]) -> None:
        """Take over specs that were set before the batch size and the device were known."""
        for name, given in early.items():
            spec = given.clone()
            if isinstance(spec, Composite) and spec.shape != self._batch_size:
                spec.shape = self._batch_size
            self._set_group(name, spec, DEFAULT_KEYS.get(name))

    # batch size and device

    @property
    def batch_size(self) -> torch.Size:
        """How many environments run at once, as a shape."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, value: torch.Size | tuple[int, ...] | list[int]) -> None:
        size = torch.Size(tuple(value))
        for name, spec in self._groups.items():
            if spec.shape != size:
                raise RuntimeError(
                    f"batch_size {list(size)} does not fit {name}, whose batch shape is {list(spec.shape)}"
                )
        self._batch_size = size
        self._cache.clear()

    @property
    def shape(self) -> torch.Size:
        """Another name of `batch_size`."""
        return self.batch_size

    @property
    def ndim(self) -> int:
        """The number of batch dimensions."""
        return len(self.batch_size)

    @property
    def batch_dims(self) -> int:
        """The number of batch dimensions."""
        return self.ndim

    def ndimension(self) -> int:
        """The number of batch dimensions."""
        return self.ndim

    def numel(self) -> int:
        """How many environments run at once."""
        return self.batch_size.numel()

    @property
    def device(self) -> torch.device | None:
        """The device of the data, or None if the environment leaves it open."""
        return self._device

    @device.setter
    def device(self, value: DEVICE_TYPING | None) -> None:
        raise RuntimeError(
            "the device of an environment is set at construction; use env.to(device) to move it"
        )

    # the five composites

    def _group(self, name: str) -> Any:
        """One of the five composites, whatever its keys are known to be."""
        found = self._groups.get(name)
        if found is None:
            found = self._default_group(name)
            self._groups[name] = found
            self._unstated.add(name)
        return found

    def _default_group(self, name: str) -> Composite:
        leaves: dict[str, TensorSpec]
        if name == "full_reward_spec":
            leaves = {"reward": Unbounded(shape=(*self._batch_size, 1), device=self._device)}
        elif name == "full_done_spec":
            leaves = {key: self._flag_spec((*self._batch_size, 1)) for key in ("done", "terminated")}
        else:
            leaves = {}
        return Composite(leaves, shape=self._batch_size, device=self._device)

    def _settled(self, name: str) -> Composite:
        """One of the five composites, checked, and locked unless the environment's specs are to stay open."""
        spec: Composite = self._group(name)
        if not spec.is_locked:
            self._check_group(name, spec)
            if self._spec_locked:
                spec.lock_()
        return spec

    # locks

    @property
    def is_spec_locked(self) -> bool:
        """Whether specs are locked once they are used; can be set."""
        return self._spec_locked

    @is_spec_locked.setter
    def is_spec_locked(self, value: bool) -> None:
        self.set_spec_lock_(value)

    def set_spec_lock_(self, mode: bool = True) -> Self:
        """Lock the specs, or open them to changes in place: until they are locked again, all is looked up anew.

        Returns:
            The environment.
        """
        if mode != self._spec_locked:
            self._spec_locked = mode
            self._cache = {} if mode else _NoCache()
            if not mode:  # what is locked may be part of a locked `input_spec` that somebody holds
                self._groups = {name: spec.clone() for name, spec in self._groups.items()}
        return self

    def empty_cache(self) -> None:
        """Forget everything that was derived from the specs."""
        self._cache.clear()

    @property
    def _input_spec(self) -> Composite:
        return self.input_spec  # type: ignore[attr-defined, no-any-return]  # of SpecAccess

    @_input_spec.setter
    def _input_spec(self, spec: Composite) -> None:
        raise AttributeError("_input_spec cannot be set; set env.action_spec or env.state_spec")

    @property
    def _output_spec(self) -> Composite:
        return self.output_spec  # type: ignore[attr-defined, no-any-return]  # of SpecAccess

    @_output_spec.setter
    def _output_spec(self, spec: Composite) -> None:
        raise AttributeError(
            "_output_spec cannot be set; set env.observation_spec, env.reward_spec or env.done_spec"
        )

    def _flag_spec(self, shape: tuple[int, ...] | torch.Size) -> TensorSpec:
        return Categorical(2, shape=shape, dtype=torch.bool, device=self._device)

    def _set_group(self, name: str, spec: TensorSpec | Composite | None, default_key: str | None) -> None:
        """Check and store one of the five composites; on an error nothing has changed."""
        short = name.removeprefix("full_")
        if spec is None:
            spec = Composite(shape=self._batch_size, device=self._device)
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"{short} must be a TensorSpec, found {type(spec).__name__}")
        n = len(self._batch_size)
        if spec.shape[:n] != self._batch_size:
            raise ValueError(
                f"{short} must start with the batch size {list(self._batch_size)}, found shape {list(spec.shape)};"
                f" env.{short}_unbatched = ... adds the batch size for you"
            )
        if not isinstance(spec, Composite):
            if default_key is None:
                raise TypeError(f"{short} must be a Composite, found {type(spec).__name__}")
            spec = Composite({default_key: spec}, shape=self._batch_size)
        else:
            spec = spec.clone()
        if self._device is not None:
            spec = spec.to(self._device)
        self._check_group(name, spec)
        self._groups[name] = spec
        self._unstated.discard(name)
        self._cache.clear()

    def _check_group(self, name: str, spec: Composite) -> None:
        """Check one of the five composites, and add the done flags that are missing."""
        short, n = name.removeprefix("full_"), len(self._batch_size)
        if name in ("full_reward_spec", "full_done_spec"):
            for key, leaf in spec.items(True, True):
                if leaf is not None and leaf.ndim <= n:
                    raise RuntimeError(
                        f"{short}: {show_key(key)} has shape {list(leaf.shape)}; it needs a dimension after the"
                        f" batch size {list(self._batch_size)}, such as {[*self._batch_size, 1]}"
                    )
        if name == "full_done_spec":
            self._complete_done_spec(spec)
        self._check_collisions(name, spec)

    def _complete_done_spec(self, spec: Composite) -> None:
        if spec.is_empty(recurse=True):
            spec.update(self._default_group("full_done_spec"))
        check_done_spec(spec)
        present = {join_key(as_tuple(key)): leaf for key, leaf in spec.items(True, True)}
        for key, leaf in list(present.items()):
            prefix = as_tuple(key)[:-1]
            for flag in ("done", "terminated"):
                wanted = join_key((*prefix, flag))
                if wanted not in present:
                    present[wanted] = self._flag_spec(leaf.shape)
                    spec.set(wanted, present[wanted])

    def _check_collisions(self, name: str, spec: Composite) -> None:
        """No key may have two meanings, whichever was set first."""
        rivals = {
            "full_action_spec": ("full_state_spec",),
            "full_state_spec": ("full_action_spec",),
        }.get(name, tuple(other for other in OUTPUT_GROUPS if other != name))
        mine = {join_key(as_tuple(key)) for key in spec.keys(True, True)}
        for other in rivals:
            if other not in self._groups:
                continue
            theirs = {join_key(as_tuple(key)) for key in self._groups[other].keys(True, True)}
            for key in mine & theirs:
                raise RuntimeError(
                    f"key {show_key(key)} is in {name.removeprefix('full_')} and in"
                    f" {other.removeprefix('full_')}; one key has one meaning"
                )
