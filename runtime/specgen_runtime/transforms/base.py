"""`Transform`: the base class of transforms of environments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.packing import peek, put_checked
from specgen_runtime.hidden_errors import TellingModule
from specgen_runtime.transforms.dispatch import call_with
from specgen_runtime.transforms.keys import as_tuple, normal_keys, subspec
from specgen_runtime.transforms.offline import map_moments
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.envs.rollout_steps import RolloutSteps
    from specgen_runtime.specs import Composite
    from specgen_runtime.transforms.env import TransformedEnv

__all__ = ["Transform"]

_CACHED = ("_container", "_parent")


class Transform(TellingModule):
    """Changes the data that an environment returns (`_call`), the actions that it takes (`_inv_call`), or both.

    A subclass writes the methods for the moments that concern it:

    - `_apply_transform`: one tensor at a time, the same at reset and at step (for each of `in_keys`);
    - `_call`: the entries of one moment, at reset (through `_reset`) and at step;
    - `_step`: needs the entries before the step as well as those after it;
    - `_reset`: the entries of a fresh episode, for every row; rows that are not being reset are put back afterwards;
    - `_inv_apply_transform` or `_inv_call`: what the policy wrote, on its way into the environment;
    - `forward`, `inv`: offline, on data from elsewhere;
    - `transform_observation_spec` and its siblings: the specs of all that.

    Args:
        in_keys: entries of the environment's output that are read.
        out_keys: entries that are written, one for each of `in_keys`.
        in_keys_inv: entries of the environment's input that are written, computed from `out_keys_inv`.
        out_keys_inv: entries that the policy writes, one for each of `in_keys_inv`.

    Attributes:
        invertible: whether `_inv_apply_transform` is written.
        enable_inv_on_reset: whether `inv` also applies to the tensordict given to `reset`.
    """

    invertible: bool = False
    enable_inv_on_reset: bool = False
    _rollout_steps: ClassVar[type[RolloutSteps] | None] = None
    """What collects rows of environments with this transform alone; None: what fits any environment."""

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__()
        self._in_keys = None if in_keys is None else normal_keys(in_keys)
        self._out_keys = None if out_keys is None else normal_keys(out_keys)
        self._in_keys_inv = None if in_keys_inv is None else normal_keys(in_keys_inv)
        self._out_keys_inv = None if out_keys_inv is None else normal_keys(out_keys_inv)
        self._missing_tolerance = False
        for name in _CACHED:  # not through nn.Module, which would register them as submodules
            self.__dict__[name] = None

    # ------------------------------------------------------------------ keys

    @property
    def in_keys(self) -> list[NestedKey]:
        """The entries of the environment's output that are read."""
        return self._in_keys or []

    @in_keys.setter
    def in_keys(self, value: Sequence[NestedKey] | None) -> None:
        self._in_keys = None if value is None else normal_keys(value)

    @property
    def out_keys(self) -> list[NestedKey]:
        """The entries that are written."""
        return self._out_keys or []

    @out_keys.setter
    def out_keys(self, value: Sequence[NestedKey] | None) -> None:
        self._out_keys = None if value is None else normal_keys(value)

    @property
    def in_keys_inv(self) -> list[NestedKey]:
        """The entries of the environment's input that are written by `inv`."""
        return self._in_keys_inv or []

    @in_keys_inv.setter
    def in_keys_inv(self, value: Sequence[NestedKey] | None) -> None:
        self._in_keys_inv = None if value is None else normal_keys(value)

    @property
    def out_keys_inv(self) -> list[NestedKey]:
        """The entries of the policy's output that are read by `inv`."""
        return self._out_keys_inv or []

    @out_keys_inv.setter
    def out_keys_inv(self, value: Sequence[NestedKey] | None) -> None:
        self._out_keys_inv = None if value is None else normal_keys(value)

    def _pairs(self) -> Iterable[tuple[NestedKey, NestedKey]]:
        return self._paired(self.in_keys, self.out_keys, "in_keys", "out_keys")

    def _pairs_inv(self) -> Iterator[tuple[NestedKey, NestedKey]]:
        return self._paired(self.in_keys_inv, self.out_keys_inv, "in_keys_inv", "out_keys_inv")

    def _paired(
        self, first: list[NestedKey], second: list[NestedKey], name: str, other: str
    ) -> Iterator[tuple[NestedKey, NestedKey]]:
        if len(first) != len(second):
            raise ValueError(
                f"{type(self).__name__} needs as many {other} as {name}, got {len(second)} and {len(first)}"
            )
        return zip(first, second, strict=True)

    @property
    def missing_tolerance(self) -> bool:
        """Whether a missing input is passed over instead of being an error."""
        return self._missing_tolerance

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Pass over missing inputs (`True`) or raise a KeyError (`False`, the default)."""
        self._missing_tolerance = mode

    # --------------------------------------------------------------- moments

    def _apply_transform(self, obs: Tensor, /) -> Tensor:
        missing = "computes nothing: write `_apply_transform`, `_call`, `_step` or `forward`"
        if type(self)._step is not Transform._step:
            missing = "needs `forward` for recorded data: `_step` is called in environments only"
        raise NotImplementedError(f"{type(self).__name__} {missing}")

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Transform the entries of one moment; `next_tensordict` is modified and returned."""
        return self._map(next_tensordict, self._missing_tolerance)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Transform what a step returned.

        Args:
            tensordict: the entries before the step, as the user sees them. Not to be modified.
            next_tensordict: the entries after it, at this position in the chain. Modified and returned.
        """
        return self._call(next_tensordict)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        """Transform what a reset returned, for every row.

        Args:
            tensordict: what `reset` was given (the masks in it say which rows start anew).
            tensordict_reset: fresh entries for all rows, at this position in the chain. Modified and returned.
        """
        return tensordict_reset

    @property
    def action_masks(self) -> tuple[tuple[NestedKey, NestedKey], ...]:
        """Actions, each with the observation that tells its allowed values: random ones keep to it."""
        return ()

    def _derives_done(self) -> bool:
        """Whether `done` has to follow `terminated` and `truncated` where this transform writes new ones."""
        return True

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        """Bring the tensordict given to `reset` into the form that the environment inside expects."""
        if tensordict is None or not self.enable_inv_on_reset:
            return tensordict
        return self._inverse_map(tensordict, tolerant=True)

    def forward(self, *data: Any, **tensors: Any) -> Any:
        """Transform data from elsewhere, such as a replay buffer; entries under ``"next"`` as those at the root.

        Args:
            data: a tensordict, modified and returned; or tensors, in the order of `in_keys`.
            tensors: instead, the inputs under their key's name (nested keys joined by ``_``), or ``tensordict``; and
                ``generator``, what transforms that draw draw from.

        Returns:
            The tensordict; for tensors the outputs (one tensor, or a tuple).

        Raises:
            TypeError: for keywords that are no input's name.
            KeyError: for a tensordict without an input.
        """
        return call_with(self, self._offline, lambda: (self.in_keys, self.out_keys), data, tensors)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        for key in map_moments(tensordict, self._pairs(), lambda *keys: self._apply_transform(keys[-1])):
            self._read(tensordict, key, self._missing_tolerance)  # raises, unless it may be missing
        return tensordict

    def _map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        for in_key, out_key in self._pairs():
            value = self._read(tensordict, in_key, tolerant)
            if value is not None:
                put_checked(tensordict, out_key, self._apply_transform(value))
        return tensordict

    def _read(self, tensordict: TensorDictBase, key: NestedKey, tolerant: bool = False) -> Tensor | None:
        found: Any = peek(tensordict, key)
        value: Tensor | None = found if isinstance(found, Tensor) else tensordict.get(key, None)
        if value is None and not tolerant:
            present = ", ".join(sorted(map(str, tensordict.keys(True, True))))
            what = f"{key!r}, which is not in the tensordict (it holds {present})"
            raise KeyError(f"{type(self).__name__} reads {what}")
        return value

    def _inv_apply_transform(self, state: Tensor, /) -> Tensor:
        if self.invertible:
            raise NotImplementedError(f"{type(self).__name__} is invertible: write `_inv_apply_transform`")
        return state

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Turn what the policy wrote into what the environment takes; `tensordict` is modified and returned."""
        return self._inverse_map(tensordict, self._missing_tolerance)

    def _inverse_map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        for in_key, out_key in self._pairs_inv():
            value = self._read(tensordict, out_key, tolerant)
            if value is not None:
                put_checked(tensordict, in_key, self._inv_apply_transform(value))
        return tensordict

    def _inv_recorded(self, tensordict: TensorDictBase) -> TensorDictBase:
        """`_inv_call` of a copy of data of any batch size."""
        return self._inv_call(tensordict.clone(recurse=False))

    def inv(self, *data: Any, **tensors: Any) -> Any:
        """Turn what the policy wrote into what the environment takes, without touching the input.

        Args:
            data: a tensordict, or tensors in the order of `out_keys_inv`.
            tensors: instead, the inputs under their key's name (nested keys joined by ``_``), or ``tensordict``; and
                ``generator``, what transforms that draw draw from.

        Returns:
            A new tensordict; for tensors the outputs (one tensor, or a tuple).

        Raises:
            TypeError: for keywords that are no input's name.
            KeyError: for a tensordict without an input.
        """
        return call_with(
            self, self._inv_recorded, lambda: (self.out_keys_inv, self.in_keys_inv), data, tensors
        )

    def init(self, tensordict: TensorDictBase) -> None:
        """Prepare for data like `tensordict`."""

    def close(self) -> None:
        """Release what the transform holds."""

    def dump(self, **kwargs: Any) -> None:
        """Write out what the transform has recorded; most record nothing."""

    # ----------------------------------------------------------------- specs

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """The specs of what the environment returns, from those before this transform.

        Raises:
            KeyError: if the specs lack one of `out_keys`.
        """
        output_spec = output_spec.clone()
        for name, change in (
            ("full_observation_spec", self.transform_observation_spec),
            ("full_reward_spec", self.transform_reward_spec),
            ("full_done_spec", self.transform_done_spec),
        ):
            output_spec[name] = change(subspec(output_spec, name))
        known = {as_tuple(key)[1:] for key in output_spec.keys(True)}
        missing = [key for key in self.out_keys if as_tuple(key) not in known]
        if missing:
            raise KeyError(
                f"{type(self).__name__} writes {', '.join(map(repr, missing))}, but no spec says so: add it in "
                "`transform_observation_spec`, `transform_reward_spec` or `transform_done_spec`"
            )
        return output_spec

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """The specs of what the environment is given, from those before this transform."""
        input_spec = input_spec.clone()
        input_spec["full_state_spec"] = self.transform_state_spec(subspec(input_spec, "full_state_spec"))
        input_spec["full_action_spec"] = self.transform_action_spec(subspec(input_spec, "full_action_spec"))
        return input_spec

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The observation specs after this transform, from those before it (which may be modified)."""
        return observation_spec

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """The reward specs after this transform, from those before it (which may be modified)."""
        return reward_spec

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """The done specs after this transform, from those before it (which may be modified)."""
        return done_spec

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """The action specs that the policy sees, from those of the environment (which may be modified)."""
        return action_spec

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """The state specs that the user sees, from those of the environment (which may be modified)."""
        return state_spec

    def transform_fake_tensordict(self, fake_tensordict: TensorDictBase) -> TensorDictBase:
        """What `fake_tensordict` of an environment gives behind this transform, where its specs do not say it all."""
        return fake_tensordict

    def transform_env_device(self, device: torch.device | None) -> torch.device | None:
        """The device after this transform."""
        return device

    def transform_env_batch_size(self, batch_size: torch.Size) -> torch.Size:
        """The batch size after this transform."""
        return batch_size

    # ------------------------------------------------------------- container

    def set_container(self, container: Transform | EnvBase) -> None:
        """Say which `Compose` or environment holds this transform.

        Raises:
            AttributeError: if another one holds it already, unless both are chains, and that one in no environment.
        """
        held = self.__dict__["_container"]
        # A chain that is in no environment may be taken apart for another: Compose(*chain, last).
        loose = isinstance(held, Transform) and isinstance(container, Transform) and self.container is None
        if held is not None and held is not container and not loose:
            raise AttributeError(
                f"this {type(self).__name__} is already part of another {type(held).__name__}; "
                "put in a copy: `transform.clone()`"
            )
        self.__dict__["_container"] = container
        self.empty_cache()

    def reset_parent(self) -> None:
        """Forget the container."""
        self.__dict__["_container"] = None
        self.empty_cache()

    def empty_cache(self) -> None:
        """Forget everything derived from the environment."""
        self.__dict__["_parent"] = None

    @property
    def container(self) -> TransformedEnv | None:
        """The environment that this transform is part of, if there is one."""
        holder = self.__dict__["_container"]
        while isinstance(holder, Transform):
            holder = holder.__dict__["_container"]
        return holder  # type: ignore[no-any-return]

    @property
    def parent(self) -> TransformedEnv | None:
        """The base environment with the transforms before this one, whose buffers it shares; None in none."""
        if self.__dict__["_parent"] is None and (container := self.container) is not None:
            self.__dict__["_parent"] = container._upstream_of(self)
        return self.__dict__["_parent"]  # type: ignore[no-any-return]

    @property
    def collector(self) -> Any:
        """The collector that runs its environment, if there is one; unknown behind `RayEnv` and in `ParallelEnv`."""
        container = self.container
        return None if container is None else container.collector

    def clone(self) -> Self:
        """A copy that is part of no environment; parameters and buffers are shared."""
        twin = copy(self)
        state = self.__dict__
        twin.__dict__.update(
            {name: copy(state[name]) for name in ("_parameters", "_buffers", "_modules")},
            **dict.fromkeys(_CACHED),
        )
        return twin

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers; see `torch.nn.Module.to`."""
        self.empty_cache()
        return super().to(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parent": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(keys={self._in_keys or []})"
