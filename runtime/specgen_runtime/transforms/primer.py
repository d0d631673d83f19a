"""`TensorDictPrimer`: entries that a reset fills and a policy keeps up, such as the state of a recurrent network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeAlias

import torch
from tensordict import TensorDict, TensorDictBase

from specgen_runtime.dtypes import dtype_name
from specgen_runtime.envs.keys import show_key
from specgen_runtime.envs.stepping import written_by_policy
from specgen_runtime.random_state import drawing_from
from specgen_runtime.specs import Composite, NonTensor, TensorSpec, Unbounded
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.draws import generator_inside
from specgen_runtime.transforms.keys import as_tuple, leaf_keys, normal_key
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["TensorDictPrimer", "gSDENoise"]

Default: TypeAlias = float | Callable[..., Any] | Mapping[NestedKey, Any] | None


class TensorDictPrimer(Transform):
    """Fills entries at each reset; a step keeps them, or takes what the policy has put under ``"next"``.

    At a partial reset the rows of what is reset are filled, by the done flags beside or above an entry. In a root that
    has been stepped before, what stands under ``"next"`` is the result of that step, and the root's value is kept.
    An entry with the key of an action is filled at a reset, and nothing else; the action spec stays.

    Args:
        primers: specs by key, nested or in a `Composite`.
        random: draw values from the specs, by the environment's generator, or torch's global one where it has none.
        default_value: instead, a number for all entries, or something that makes each of them, or both by key. With
            `single_default_value`, makes a tensordict of all entries; it gets the mask of what is reset as `reset`
            (None for everything), and gives as many rows as that selects.
        reset_key: a reset key that the environment must have. TorchRL needs it where there are several.
        expand_specs: whether the specs lack the batch size of the environment (True), or have it (False). None: they
            have it if their shapes begin with it.
        single_default_value: see `default_value`.
        call_before_env_reset: fill the entries of what the environment is reset from, which then returns them.
        device: of the entries. None: that of the environment.
        kwargs: specs by key, in place of `primers`; `shape` or `batch_size` is that of their composite.

    Raises:
        TypeError: a primer is no spec, or both `primers` and `kwargs` are given.
        ValueError: `random` and a default value; default values of other keys.

    Example:
        >>> env = TransformedEnv(GymEnv("CartPole-v1"), TensorDictPrimer(hidden=Unbounded(8)))
        >>> env.reset()["hidden"].shape
        torch.Size([8])
    """

    def __init__(
        self,
        primers: Mapping[str, Any] | Composite | None = None,
        random: bool | None = None,
        default_value: Default = None,
        reset_key: NestedKey | None = None,
        expand_specs: bool | None = None,
        single_default_value: bool = False,
        call_before_env_reset: bool = False,
        device: DEVICE_TYPING | None = None,
        **kwargs: Any,
    ) -> None:
        if primers is not None and kwargs:
            raise TypeError(
                f"TensorDictPrimer takes primers or keywords, got primers and {', '.join(kwargs)}"
            )
        if random and default_value is not None and default_value != 0.0:
            raise ValueError("TensorDictPrimer draws values (random=True) or takes default_value, not both")
        specs = _as_composite(kwargs if primers is None else primers, device)
        self.__dict__.update(_given=specs, _expanded=None)  # not through nn.Module
        keys = leaf_keys(specs)
        super().__init__(in_keys=[])
        self._keys = keys
        self.random = bool(random)
        self.expand_specs = expand_specs
        self.single_default_value = single_default_value
        self.call_before_env_reset = call_before_env_reset
        self.reset_key = None if reset_key is None else normal_key(reset_key)
        if single_default_value and not callable(default_value):
            raise TypeError(
                "TensorDictPrimer: single_default_value=True needs a default_value that can be called"
            )
        self.default_value: Any = default_value
        if not single_default_value:
            self.default_value = _defaults_by_key(keys, 0.0 if default_value is None else default_value)

    @property  # type: ignore[misc]  # nobody sets them: they follow from the specs
    def out_keys(self) -> list[NestedKey]:
        """The entries that are filled; those of actions are not among the environment's outputs."""
        env = self.parent
        return self._keys if env is None else [key for key in self._keys if key not in env.action_keys]

    @property
    def primers(self) -> Composite:
        """The specs, with the batch size of the environment that this is part of."""
        known: Composite | None = self.__dict__["_expanded"]
        if known is None:
            known = self.__dict__["_given"]
            env = self.parent
            if env is not None and env.batch_locked:
                known = self._with_batch(known, env.batch_size)
                known = known.to(env.device) if env.device else known
            self.__dict__["_expanded"] = known
        return known

    def empty_cache(self) -> None:
        """Forget everything derived from the environment."""
        super().empty_cache()
        self.__dict__["_expanded"] = None

    def _with_batch(self, specs: Composite, batch: torch.Size) -> Composite:
        leads = all(specs[key].shape[: len(batch)] == batch for key in leaf_keys(specs))
        if specs.shape[: len(batch)] == batch:
            return specs
        if self.expand_specs or (self.expand_specs is None and not leads):
            return specs.expand((*batch, *specs.shape))
        if not leads:
            wrong = {show_key(key): list(specs[key].shape) for key in leaf_keys(specs)}
            raise ValueError(
                f"the primers {wrong} do not begin with the batch size {list(batch)} of the environment, and"
                " expand_specs is False"
            )
        specs = specs.clone()
        specs.shape = batch
        return specs

    # --------------------------------------------------------------- moments

    def _values(self, batch: torch.Size, mask: torch.Tensor | None) -> TensorDictBase:
        """New values of all entries; `mask` says which rows are reset, where not all are."""
        specs = self.primers
        filled = TensorDict({}, specs.shape, device=specs.device)
        if self.single_default_value:
            made = self.default_value(reset=mask)
            if mask is None or made.batch_size[:1] != (int(mask.sum()),) or bool(mask.all()):
                filled.update(made)
            else:
                rows = (
                    made.new_zeros(mask.shape)
                    if made.ndim == 1
                    else made.new_zeros((*mask.shape, *made.shape[1:]))
                )
                rows[mask] = made
                filled.update(rows)
        for key in leaf_keys(specs):
            spec = specs[key]
            missing = batch if batch != spec.shape[: len(batch)] else torch.Size(())
            if not self.single_default_value:
                filled.set(key, self._value(key, spec, missing))
            value = filled.get(key)
            whole = spec.expand((*missing, *spec.shape)) if missing else spec
            if not whole.is_in(value):
                raise ValueError(
                    f"TensorDictPrimer: the default value of {show_key(key)} is"
                    f" {dtype_name(value.dtype)} {list(value.shape)}, which is no value of {whole}"
                )
        return filled

    def _value(self, key: NestedKey, spec: TensorSpec, batch: torch.Size) -> Any:
        default = self.default_value[key]
        if self.random:
            return spec.rand(batch)
        if isinstance(spec, NonTensor) and not callable(default):
            return spec.zero(batch)
        if callable(default):
            value = default()
            return value.expand(*batch, *spec.shape) if value.shape != (*batch, *spec.shape) else value
        if isinstance(default, torch.Tensor):
            return default.to(device=spec.device, dtype=spec.dtype).expand(*batch, *spec.shape).clone()
        return torch.full((*batch, *spec.shape), default, device=spec.device, dtype=spec.dtype)

    def _fill(self, tensordict: TensorDictBase, mask: torch.Tensor | None = None) -> TensorDictBase:
        env = self.parent
        with drawing_from(None if env is None else generator_inside(env)):
            values = self._values(tensordict.batch_size, mask)
        for key in self._keys:
            tensordict.set(key, values.get(key))
        return tensordict

    def _mask(self, tensordict: TensorDictBase | None) -> torch.Tensor | None:
        env = self.parent
        keys = [self.reset_key] if self.reset_key else ([] if env is None else env.reset_keys)
        found: torch.Tensor | None = None if tensordict is None or not keys else tensordict.get(keys[0], None)
        if found is None or tensordict is None:
            return None
        dims = tensordict.batch_dims
        return (
            found if found.ndim == dims else found.flatten(dims).any(-1)
        )  # of agents: one that is reset needs a new value

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if self.call_before_env_reset:
            return tensordict_reset
        return self._fill(tensordict_reset, self._mask(tensordict))

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        if not self.call_before_env_reset:
            return tensordict
        env = self.parent
        if tensordict is None:
            tensordict = TensorDict(
                {}, () if env is None else env.batch_size, device=None if env is None else env.device
            )
        return self._fill(tensordict, self._mask(tensordict))

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        env = self.parent
        actions = () if env is None else env.action_keys
        preset = written_by_policy(env, tensordict)
        for key in self._keys:
            if key in actions or next_tensordict.get(key, None) is not None:
                continue
            value = None if preset is None else preset.get(key, None)
            if value is None:
                value = self._read(tensordict, key, self._missing_tolerance)
            if value is not None:
                next_tensordict.set(key, value)
        return next_tensordict

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._fill(tensordict)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the specs, so that values are made on another device; see `torch.nn.Module.to`."""
        for wanted in (*args, *kwargs.values()):
            if isinstance(wanted, (torch.device, str, int)) and not isinstance(wanted, bool):
                self.__dict__["_given"] = self.__dict__["_given"].to(torch.device(wanted))
        return super().to(*args, **kwargs)

    # ----------------------------------------------------------------- specs

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the entries."""
        return self._add(observation_spec)

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """Add the entries: the step reads them."""
        return self._add(state_spec)

    def _add(self, specs: Composite) -> Composite:
        env = self.parent
        if env is not None and self.reset_key is not None and self.reset_key not in env.reset_keys:
            raise ValueError(
                f"TensorDictPrimer: {show_key(self.reset_key)} is no reset key of the environment, which has"
                f" {', '.join(map(show_key, env.reset_keys))}"
            )
        primers = self.primers
        if env is None:
            primers = self._with_batch(primers, specs.shape)
        for key in self.out_keys:
            specs[key] = primers[key].to(specs.device) if specs.device else primers[key].clone()
        return specs

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(show_key, self._keys))})"


class gSDENoise(TensorDictPrimer):  # noqa: N801 - TorchRL's name
    """The noise of a policy whose exploration depends on the state, drawn at each reset, as `_eps_gSDE`.

    `GSDENoise` of the declared library is the same for chains.

    Args:
        state_dim: how many numbers the policy reads; None: the policy draws the noise, which it finds to be zeros `[1]`.
        action_dim: how many it writes; as `state_dim`.
        shape: the batch size of the environment; without it, it is added.
        kwargs: see `TensorDictPrimer`.
    """

    def __init__(
        self,
        state_dim: int | None = None,
        action_dim: int | None = None,
        shape: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        known = state_dim is not None and action_dim is not None
        batch, dims = tuple(shape or ()), (action_dim, state_dim) if known else (1,)
        noise = Unbounded((*batch, *dims))
        super().__init__(Composite({"_eps_gSDE": noise}, shape=batch), random=known, **kwargs)
        self.state_dim, self.action_dim = state_dim, action_dim


def _as_composite(given: Mapping[str, Any] | Composite, device: DEVICE_TYPING | None) -> Composite:
    if not isinstance(given, Composite):
        specs = dict(given)
        shape = specs.pop("batch_size", None) if "batch_size" in specs else specs.pop("shape", None)
        wrong = [name for name, spec in specs.items() if not isinstance(spec, TensorSpec)]
        if wrong:
            raise TypeError(f"TensorDictPrimer takes specs, got {specs[wrong[0]]!r} for {wrong[0]!r}")
        given = Composite(specs, shape=() if shape is None else shape)
    return given if device is None else given.to(device)


def _defaults_by_key(keys: list[NestedKey], default: Any) -> dict[NestedKey, Any]:
    if not isinstance(default, (Mapping, TensorDictBase)):
        return dict.fromkeys(keys, default)
    if isinstance(default, TensorDictBase):
        by_key: dict[NestedKey, Any] = {normal_key(key): default.get(key) for key in default.keys(True, True)}
    else:
        by_key = dict(_flat(default, ()))
    if set(by_key) != set(keys):
        raise ValueError(
            f"TensorDictPrimer has the keys {', '.join(map(show_key, keys))}, and default values for"
            f" {', '.join(map(show_key, by_key))}"
        )
    return by_key


def _flat(values: Mapping[Any, Any], path: tuple[str, ...]) -> list[tuple[NestedKey, Any]]:
    found: list[tuple[NestedKey, Any]] = []
    for key, value in values.items():
        whole = (*path, *as_tuple(key))
        found += _flat(value, whole) if isinstance(value, Mapping) else [(normal_key(whole), value)]
    return found
