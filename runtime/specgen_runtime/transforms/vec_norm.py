"""`VecNormV2`: normalises by running means and deviations, of each row or of the batch, kept here or in the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.params import float_param
from specgen_runtime.specs import Composite, Unbounded
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.compose import Compose
from specgen_runtime.transforms.fixed_norm import FixedNorm, float_dtype, normed_specs
from specgen_runtime.transforms.kept_moments import PARTS, SEPARATOR, KeptMoments
from specgen_runtime.transforms.keys import as_tuple, group_spec, leaf_keys
from specgen_runtime.transforms.new_rows import NewRows, reset_mask_above
from specgen_runtime.transforms.offline import map_moments
from specgen_runtime.transforms.running_moments import RunningMoments
from specgen_runtime.typing import NestedKey

__all__ = ["VecNormV2"]


class VecNormV2(Transform):
    """Normalise entries by running means and deviations; each row of a batch has its own unless they are averaged.

    It learns at steps and resets, from the rows that are new, before it normalises them; `forward` normalises recorded
    data at the root and under ``"next"`` and learns nothing. Whole numbers become floats.

    Statistics are float64 sums with weights: ``loc`` of values, ``var`` of their squares, ``count`` of how many there
    were. The state dict has them as TorchRL's does, and loads that one's; loading copies. After `share_memory()` copies
    of this object in other processes learn together. `VecNorm` of the declared library is for chains.

    Args:
        in_keys: the entries.
        out_keys: where the normalised ones are written. Default: in their place.
        lock: is held while the statistics change, and while they are read. `share_memory()` needs none.
        stateful: whether the statistics are kept here; else they are entries of the data, ``_vecnorm_loc`` and its
            siblings, which begin anew with each episode.
        decay: the weight of what was seen before the last value; 1: all values count alike.
        eps: the least deviation.
        shared_data: ``loc``, ``var`` and ``count`` of all entries, which are kept up in place.
        reduce_batch_dims: whether all rows of a batch are values of one entry.

    Raises:
        ValueError: `decay` is not in (0, 1], `eps` is not above 0, `shared_data` is given without `stateful`, or lacks
            statistics of an entry.
        RuntimeError: `reduce_batch_dims` without `stateful`.

    Example:
        >>> env = TransformedEnv(GymEnv("Pendulum-v1"), VecNormV2(["observation"], ["normed"]))
        >>> env.rollout(10)["next", "normed"].shape
        torch.Size([10, 3])
        >>> env.transform.loc["observation"].shape
        torch.Size([3])
    """

    SEP = SEPARATOR
    standard_normal = True

    initialized: Tensor

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey] | None = None,
        *,
        lock: AbstractContextManager[Any] | None = None,
        stateful: bool = True,
        decay: float = 0.9999,
        eps: float = 1e-4,
        shared_data: TensorDictBase | None = None,
        reduce_batch_dims: bool = False,
    ) -> None:
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        self._pairs()  # refuses lists of different lengths
        decay = float_param("decay", decay, above=0, at_most=1)
        eps = float_param("eps", eps, above=0)
        if reduce_batch_dims and not stateful:
            raise RuntimeError(
                "VecNormV2 averages over the batch (reduce_batch_dims) only where stateful is True"
            )
        if shared_data is not None and not stateful:
            raise ValueError("VecNormV2 keeps shared_data up only where stateful is True")
        self.stateful, self.reduce_batch_dims = stateful, reduce_batch_dims
        self.decay, self.eps = decay, eps
        self.frozen = False
        self._kept = KeptMoments(self.in_keys, not reduce_batch_dims, lock, shared_data)
        self._known_prefix: str | None = None
        self.register_buffer("initialized", torch.tensor(shared_data is not None))

    @property
    def lock(self) -> AbstractContextManager[Any] | None:
        """What is held while the statistics change."""
        return self._kept.lock

    # -------------------------------------------------------------- statistics

    def _known(self) -> dict[NestedKey, RunningMoments]:
        """The statistics of all entries, as they are now.

        Raises:
            RuntimeError: they are in the data, or nothing has been seen.
        """
        if not self.stateful:
            raise RuntimeError("VecNormV2 has its statistics in the data, where stateful is False")
        self._begin()
        return self._kept.all()

    def _begin(self) -> None:
        """Begin the statistics of all entries of the environment, if there is one."""
        env = self.parent
        missing = (
            [] if env is None or not self.stateful else [k for k in self.in_keys if not self._kept.has(k)]
        )
        for key in missing:
            assert env is not None
            for group in ("observation", "reward"):
                if key in leaf_keys(specs := group_spec(env, group)):
                    self._kept.held(key, specs[key].zero(), env.batch_size)
                    self.initialized.fill_(True)

    def _by_key(self, index: int) -> TensorDict:
        found = TensorDict({}, [])
        for key, learned in self._known().items():
            value = learned.mean_and_deviation(self.decay, self.eps)[index]
            found.set(key, value.to(float_dtype(self._kept.dtypes.get(key))))
        return found

    @property
    def loc(self) -> TensorDict:
        """The means, by `in_keys`."""
        return self._by_key(0)

    @property
    def scale(self) -> TensorDict:
        """The deviations, by `in_keys`, at least `eps`."""
        return self._by_key(1)

    def freeze(self) -> Self:
        """Let the statistics stay as they are; returns this transform."""
        self.frozen = True
        return self

    def unfreeze(self) -> Self:
        """Learn again; returns this transform."""
        self.frozen = False
        return self

    def frozen_copy(self) -> Self:
        """A copy of its own, in no environment, whose statistics stay as they are now.

        Raises:
            RuntimeError: nothing has been seen, or the statistics are in the data.
        """
        self._known()
        twin = self.clone()
        twin._kept = self._kept.twin(alone=True)
        return twin.freeze()

    def clone(self) -> Self:
        """A copy that is part of no environment; it has statistics of its own, unless processes share them."""
        twin = super().clone()
        twin._kept = self._kept.twin()
        twin._buffers["initialized"] = self.initialized.clone()
        return twin

    def share_memory(self) -> Self:
        """Put the statistics where processes share them: what one learns, all know.

        Raises:
            RuntimeError: nothing has been seen, or the statistics are in the data.
        """
        self._known()
        self._kept.share()
        return self

    def to_observation_norm(self) -> FixedNorm | Compose:
        """A transform that normalises by the statistics as they are now; of several entries a `Compose` of such.

        Raises:
            RuntimeError: nothing has been seen, or the statistics are in the data.
        """
        loc, scale = self.loc, self.scale
        norms = [FixedNorm(loc[key], scale[key], [key], [out]) for key, out in self._pairs()]
        return norms[0] if len(norms) == 1 else Compose(*norms)

    # ------------------------------------------------------------------ moments

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        new = NewRows.of(next_tensordict, tensordict.get("_step", None))
        return self._normalise(
            tensordict, next_tensordict, dict.fromkeys(self.in_keys, new), self._missing_tolerance
        )

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        new = {
            key: NewRows.of(tensordict_reset, reset_mask_above(tensordict, as_tuple(key)))
            for key in self.in_keys
        }
        return self._normalise(None, tensordict_reset, new, tolerant=True)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self._step(next_tensordict, next_tensordict)

    def _normalise(
        self,
        before: TensorDictBase | None,
        moment: TensorDictBase,
        new: Mapping[NestedKey, NewRows],
        tolerant: bool,
    ) -> TensorDictBase:
        """Learn from a moment and normalise it; `before` has the statistics that are in the data."""
        made: list[tuple[NestedKey, Tensor]] = []
        with torch.no_grad(), self._kept.locked():
            for key, out in self._pairs():
                value = self._read(moment, key, tolerant)
                if self.stateful:
                    learned = None if value is None else self._learn(key, value, new[key])
                else:
                    learned = self._learn_in_data(before, moment, key, value, new[key])
                if value is not None and learned is not None:
                    made.append((out, self._normed(value, learned)))
        for out, value in made:
            moment.set(out, value)
        return moment

    def _learned(self, moments: RunningMoments, value: Tensor, new: NewRows) -> RunningMoments:
        if self.frozen or 0 in new.size:
            return moments
        if self.reduce_batch_dims:
            return moments.with_batch(value, new, self.decay)
        return moments.with_rows(value, new, self.decay)

    def _learn(self, key: NestedKey, value: Tensor, new: NewRows) -> RunningMoments:
        held = self._kept.held(key, value, new.size)
        self.initialized.fill_(True)
        learned = self._learned(held, value, new)
        if learned is not held:
            self._kept.put(key, learned)
        return learned

    def _normed(self, value: Tensor, moments: RunningMoments) -> Tensor:
        mean, deviation = moments.mean_and_deviation(self.decay, self.eps, value.ndim)
        return ((value.to(torch.float64) - mean) / deviation).to(float_dtype(value.dtype))

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        if not self.stateful:
            raise NotImplementedError(
                "VecNormV2 with stateful=False works in environments only, not on recorded data"
            )
        known = self._known()
        absent = map_moments(tensordict, self._pairs(), lambda key, _, value: self._normed(value, known[key]))
        for key in absent:
            self._read(tensordict, key, self._missing_tolerance)  # raises, unless it may be missing
        return tensordict

    def denorm(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The entries as they were before they were normalised, under `in_keys`, in a shallow copy of `tensordict`.

        Raises:
            RuntimeError: nothing has been seen, or the statistics are in the data.
        """
        known = self._known()

        def original(_: NestedKey, key: NestedKey, value: Tensor) -> Tensor:
            mean, deviation = known[key].mean_and_deviation(self.decay, self.eps, value.ndim)
            return (value.to(torch.float64) * deviation + mean).to(value.dtype)

        tensordict = tensordict.copy()
        map_moments(tensordict, [(out, key) for key, out in self._pairs()], original)
        return tensordict

    # --------------------------------------------------- statistics in the data

    @property
    def prefix(self) -> str:
        """What the names of statistics in the data begin with, which no transform before this one has."""
        if self._known_prefix is None:
            env, number = self.parent, 0
            taken = [] if env is None else list(env.full_observation_spec.keys())
            while f"_vecnorm{number or ''}_loc" in taken:
                number += 1
            self._known_prefix = f"_vecnorm{number or ''}"
        return self._known_prefix

    def empty_cache(self) -> None:
        """Forget everything derived from the environment; the statistics stay."""
        super().empty_cache()
        self.__dict__["_known_prefix"] = None

    def _place(self, part: str, key: NestedKey) -> NestedKey:
        return (f"{self.prefix}_{part}", *as_tuple(key))

    def _learn_in_data(
        self,
        before: TensorDictBase | None,
        moment: TensorDictBase,
        key: NestedKey,
        value: Tensor | None,
        new: NewRows,
    ) -> RunningMoments | None:
        """The statistics of an entry behind a moment, in which they are written; None where nothing tells its shape."""
        env = self.parent
        places = [self._place(part, key) for part in PARTS]
        if before is not None and (env is not None or before.get(places[0], None) is not None):
            read = [one for place in places if (one := self._read(before, place)) is not None]
            count = read[2].reshape(*moment.batch_size, -1)[..., 0]  # the same for all numbers of a row
            moments = RunningMoments(read[0], read[1], count)
        elif value is not None:
            moments = RunningMoments.blank(value, moment.batch_size)
        elif env is not None and key in leaf_keys(specs := group_spec(env, "reward")):
            moments = RunningMoments.blank(specs[key].zero(), moment.batch_size)
        else:
            return None
        moments = moments if value is None else self._learned(moments, value, new)
        count = moments.number.reshape(*moment.batch_size, *(1,) * (moments.loc.ndim - moment.ndim))
        for place, one in zip(places, moments._replace(number=count.expand(moments.loc.shape)), strict=True):
            moment.set(place, one)
        return moments

    # --------------------------------------------------------------------- specs

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Show what is normalised as floats without bounds, and the statistics that are in the data.

        Raises:
            KeyError: the environment has no such entry.
        """
        env = self.parent
        groups = [observation_spec.clone(), *([] if env is None else [group_spec(env, "reward")])]
        known = [key for group in groups for key in leaf_keys(group)]
        absent = [key for key in self.in_keys if key not in known]
        if absent and env is not None:
            raise KeyError(
                f"VecNormV2 reads {absent[0]!r}, but the observations and rewards of the environment are"
                f" {', '.join(map(repr, known))}"
            )
        observation_spec = normed_specs(observation_spec, self._pairs())
        for key in () if self.stateful else self.in_keys:
            for specs in (group for group in groups if key in leaf_keys(group)):
                for part in PARTS:
                    dtype = torch.int64 if part == "count" else torch.float64
                    like = Unbounded(specs[key].shape, dtype=dtype, device=specs[key].device)
                    observation_spec[self._place(part, key)] = like
        return observation_spec

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Show rewards that are normalised as floats without bounds."""
        return normed_specs(reward_spec, self._pairs())

    # ------------------------------------------------------------------- storage

    def get_extra_state(self) -> dict[str, Tensor]:
        """The statistics, under ``loc``, ``var`` or ``count`` and the names of their entry, with `SEP` between."""
        self._begin()
        return self._kept.state()

    def set_extra_state(self, state: Mapping[str, Tensor]) -> None:
        """Load statistics; they are copied.

        Raises:
            RuntimeError: some of this transform's are missing, there are others, or they are of another shape.
        """
        if self.stateful:
            self._begin()
            self._kept.load(state)
            self.initialized.fill_(bool(state))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._kept.move(fn)
        return self
