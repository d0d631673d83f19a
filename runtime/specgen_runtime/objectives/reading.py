"""`ReadingModule`: how losses read what the data hold, and write into them, with errors that name keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast, overload

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import next_key
from specgen_runtime.envs.packing import fast_td, peek
from specgen_runtime.objectives.functional import FunctionalModule
from specgen_runtime.objectives.keys import entry_if_there, listed, required
from specgen_runtime.objectives.outputs import LossOutputs
from specgen_runtime.objectives.policies import PolicyDistribution
from specgen_runtime.objectives.weighting import checked_use_of_weights
from specgen_runtime.typing import NestedKey


class ReadingModule(FunctionalModule):
    """A functional module that reads data by their keys."""

    def __init__(self, *, functional: bool = True) -> None:
        super().__init__(functional=functional)
        self._use_of_weights: Literal["auto"] | bool = "auto"
        self._agents: NestedKey | None = None  # the group whose agents are samples

    @property
    def use_prioritized_weights(self) -> Literal["auto"] | bool:
        """Whether the importance weights in the data weigh the samples: True requires them; "auto" if they are there."""
        return self._use_of_weights

    @use_prioritized_weights.setter
    def use_prioritized_weights(self, value: Literal["auto"] | bool) -> None:
        self._use_of_weights = checked_use_of_weights(value, owner=type(self).__name__)

    def _next(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The next state's tensordict."""
        following = peek(tensordict, "next")
        if isinstance(following, TensorDictBase):
            return following
        raise KeyError(
            f"{type(self).__name__}: 'next' is not in the tensordict; it holds {listed(tensordict)}"
        )

    def _read(self, tensordict: TensorDictBase, key: NestedKey, role: str) -> Tensor:
        """The tensor that plays ``role``."""
        value = peek(tensordict, key) if type(tensordict) is TensorDict else None
        if isinstance(value, Tensor):
            return value
        return required(tensordict, key, owner=type(self).__name__, role=f"the {role}")

    def _read_number(self, tensordict: TensorDictBase, key: NestedKey, role: str) -> Tensor:
        """The tensor that plays ``role``, one number of each sample: ``[*batch]``.

        Raises:
            RuntimeError: if it has another shape, such as ``[*batch, 1]``, which would be paired with other samples.
        """
        return self._number(self._read(tensordict, key, role), tensordict, key, role)

    def _number(
        self, value: Tensor, tensordict: TensorDictBase, key: NestedKey, role: str, axes: int = 0
    ) -> Tensor:
        """A value that a network wrote, or the data hold, which is one number of each sample; see `_read_number`.

        In front of the batch it may have ``axes`` others, such as members.
        """
        if value.ndim != len(tensordict.batch_size) + axes:
            raise RuntimeError(
                f"{type(self).__name__}: {key!r}, the {role}, is one number of each sample, "
                f"{[*value.shape[:axes], *tensordict.batch_size]}; got {list(value.shape)}"
            )
        return value

    def _array(
        self,
        value: Tensor,
        tensordict: TensorDictBase,
        key: NestedKey,
        role: str,
        dims: tuple[str, ...],
        axes: int = 0,
    ) -> Tensor:
        """A value that a network wrote, of several dimensions for each sample, whose names are ``dims``.

        In front of the batch it may have ``axes`` others, and behind it one of agents.

        Raises:
            RuntimeError: if it has fewer dimensions.
        """
        batch = tensordict.batch_size
        if value.ndim < axes + len(batch) + len(dims):
            wanted = ", ".join([*map(str, batch), *dims])
            raise RuntimeError(
                f"{type(self).__name__}: {key!r}, the {role}, is [{wanted}] of a batch of {list(batch)}; got "
                f"{list(value.shape)}"
            )
        return value

    def _read_signal(self, tensordict: TensorDictBase, key: NestedKey, role: str) -> Tensor:
        """The tensor under ``key`` of the next record that plays ``role``, a reward or a flag of each sample: ``[*batch, 1]``.

        Where the agents of a group are samples it is ``[*batch, agents, 1]``, and what is the whole team's is each agent's.

        Raises:
            KeyError: if there is none.
            RuntimeError: if it has another shape, such as ``[*batch]``, which would be paired with other samples, or is a flag
                and not bool.
        """
        owner = type(self).__name__
        if entry_if_there(tensordict, key, owner=owner, role=f"the {role}") is None:
            found = listed(TensorDict({"next": tensordict}, tensordict.batch_size))
            raise KeyError(
                f"{owner}: the {role} {next_key(key)!r} is not in the tensordict; it holds {found}"
            )
        value = self._read(tensordict, key, role)
        samples = self._sample_shape(tensordict)
        if value.shape == (*tensordict.batch_size, 1):
            value = _of_each_agent(value, samples)
        elif value.shape != (*samples, 1):
            whole = "" if samples == tensordict.batch_size else f", or {[*tensordict.batch_size, 1]}"
            raise RuntimeError(
                f"{owner}: {next_key(key)!r}, the {role}, has the shape {[*samples, 1]}{whole}; "
                f"got {list(value.shape)}"
            )
        if role in ("done", "terminated", "truncated") and value.dtype is not torch.bool:
            raise RuntimeError(
                f"{owner}: {next_key(key)!r}, {role}, must be a bool tensor, got {value.dtype}"
            )
        return value

    def _sample_shape(self, tensordict: TensorDictBase) -> torch.Size:
        """The shape of the samples of a record: its batch size, or that of the group whose agents are samples."""
        group = None if self._agents is None else peek(tensordict, self._agents)
        record = group if isinstance(group, TensorDictBase) else tensordict
        size: torch.Size = record.batch_size
        return size

    def _read_column(self, tensordict: TensorDictBase, key: NestedKey, role: str) -> Tensor:
        """The tensor that plays ``role``, one number of each sample: ``[*batch, 1]``, of ``[*batch]`` too.

        Else ``[n, 1]`` of a batch of that size would be read as ``[n]``, and paired with other samples.
        """
        value = self._read(tensordict, key, role)
        return value.unsqueeze(-1) if value.shape == tensordict.batch_size else value

    def _read_if_there(self, tensordict: TensorDictBase, key: NestedKey, role: str) -> Tensor | None:
        """The tensor that plays ``role``; None if the data hold none."""
        owner, role = type(self).__name__, f"the {role}"
        if entry_if_there(tensordict, key, owner=owner, role=role) is None:
            return None
        return required(tensordict, key, owner=owner, role=role)

    def _read_number_if_there(self, tensordict: TensorDictBase, key: NestedKey, role: str) -> Tensor | None:
        """As `_read_number`; None if the data hold none."""
        return None if peek(tensordict, key) is None else self._read_number(tensordict, key, role)

    def _read_column_if_there(self, tensordict: TensorDictBase, key: NestedKey, role: str) -> Tensor | None:
        """As `_read_column`; None if the data hold none."""
        return None if peek(tensordict, key) is None else self._read_column(tensordict, key, role)

    @overload
    def _of_samples(self, value: Tensor, each: Tensor, own: Sequence[int], role: str) -> Tensor: ...
    @overload
    def _of_samples(
        self, value: Tensor | None, each: Tensor, own: Sequence[int], role: str
    ) -> Tensor | None: ...
    def _of_samples(self, value: Tensor | None, each: Tensor, own: Sequence[int], role: str) -> Tensor | None:
        """A value with the dimensions of the samples of ``each`` before its own: one of all agents is that of each.

        Args:
            value: ``[*batch, *own]`` of leading dimensions of ``each``, behind which it may have some of size 1.
            each: ``[*batch, agents]``.
            own: the sizes of the dimensions of its own that ``value`` has, -1 for any.
            role: what it is, for messages.

        Raises:
            ValueError: for another number of samples, also for one where there are no dimensions of its own: it may be
                a feature; or for other sizes of its own.
        """
        if value is None:
            return None
        count = value.ndim - len(own)
        size, sizes = value.shape[:count], value.shape[count:]
        lacking = each.ndim - len(size)
        ones = bool(own) and lacking >= 0
        fits = size == each.shape[: len(size)] or (
            ones and all(got in (1, wanted) for got, wanted in zip(size, each.shape, strict=False))
        )
        if (
            not fits
            or count < 0
            or any(wanted not in (-1, got) for got, wanted in zip(sizes, own, strict=True))
        ):
            whole = [*each.shape, *own]
            fewer = f", or {[*each.shape[:-1], *own]}" if own and each.ndim > 1 else ""
            raise ValueError(
                f"{type(self).__name__}: the {role} has the shape {list(value.shape)}, where samples make it {whole}{fewer}"
            )
        place = (slice(None),) * len(size) + (None,) * lacking
        return value[place].expand(*each.shape, *sizes)

    def _read_or(
        self,
        tensordict: TensorDictBase,
        key: NestedKey,
        value: float,
        features: Sequence[int],
        dtype: torch.dtype,
    ) -> Tensor:
        """The tensor under a key; ``value``, ``[*batch, *features]``, if the data hold none.

        One number of each sample may be without its last dimension, as `MultiStepTransform` writes the steps. Where the agents
        of a group are samples, what is of a whole record is each agent's.

        Raises:
            RuntimeError: if it has another shape, and would be paired with other samples.
        """
        found, samples = peek(tensordict, key), self._sample_shape(tensordict)
        if not isinstance(found, Tensor):
            return torch.full((*samples, *features), value, dtype=dtype, device=tensordict.device)
        if tuple(features) == (1,) and found.shape in (tensordict.batch_size, samples):
            found = found.unsqueeze(-1)
        if found.shape == (*tensordict.batch_size, *features):
            return _of_each_agent(found, samples, len(features))
        if found.shape != (*samples, *features):
            raise RuntimeError(
                f"{type(self).__name__}: {key!r} has the shape {[*samples, *features]}; got {list(found.shape)}"
            )
        return found

    def _target_of(self, key: NestedKey) -> TensorDictBase | None:
        """The target parameters, where there are such, of the one network that writes ``key``."""
        names = [name for name, network in self._networks.items() if key in network.out_keys]
        return self._modules.get(f"target_{names[0]}_params") if len(names) == 1 else None

    def _log_prob_of(
        self, distribution: PolicyDistribution, tensordict: TensorDictBase, key: NestedKey, role: str
    ) -> Tensor:
        """The log-probability ``[*batch]`` of what plays ``role``, which is stored as the policy draws it.

        An action of parts is a tensordict.

        Raises:
            KeyError: if there is none.
            RuntimeError: if it requires gradients, or has another shape than what the policy draws, such as indices where
                that is one-hot: they would be paired with other samples.
        """
        value = self._read_without_gradient(tensordict, key, role)
        wanted = distribution.drawn_shape
        if wanted is not None and value.shape != wanted:
            raise RuntimeError(
                f"{type(self).__name__}: {key!r}, the {role}, has the shape {list(value.shape)}, where the policy draws "
                f"{list(wanted)} from a {type(distribution.distribution).__name__}"
                f"{_of_the_other_encoding(value.shape, wanted)}"
            )
        return distribution.log_prob(value)

    def _read_without_gradient(self, tensordict: TensorDictBase, key: NestedKey, role: str) -> Tensor:
        """What plays ``role``, whose log-probability is wanted: it has no gradients. An action of parts is a tensordict."""
        value = peek(tensordict, key)
        if not isinstance(value, (Tensor, TensorDictBase)):
            value = self._read(tensordict, key, role)
        with_gradient = (
            value.requires_grad
            if isinstance(value, Tensor)
            else any(part.requires_grad for part in value.values(True, True))
        )
        if with_gradient:
            raise RuntimeError(
                f"{type(self).__name__}: {key!r}, the {role}, requires gradients; its log-probability would send "
                "gradients into the policy that collected it. Detach it."
            )
        return cast("Tensor", value)

    def _outputs(self, entries: dict[str, Any]) -> TensorDictBase:
        """What `forward` returns: a tensordict without batch dimensions, whose entries are attributes, too."""
        return fast_td(entries, torch.Size(()), None, kind=LossOutputs)

    def _write(self, tensordict: TensorDictBase, key: NestedKey, value: Tensor) -> None:
        """Write a detached tensor back into the data, on the data's device."""
        held = peek(tensordict, key) if type(tensordict) is TensorDict else None
        if isinstance(held, Tensor) and held.shape == value.shape and not held.requires_grad:
            held.copy_(value.detach())
            return
        device = tensordict.device
        if tensordict.is_locked and peek(tensordict, key) is None:
            raise RuntimeError(f"{type(self).__name__} writes {key!r} into the tensordict, which is locked")
        tensordict.set(key, value.detach() if device is None else value.detach().to(device), inplace=True)


def _of_each_agent(value: Tensor, samples: torch.Size, features: int = 1) -> Tensor:
    """What is of each record, ``[*batch, *features]``, for each sample of it: ``[*samples, *features]``."""
    batch, own = value.shape[: value.ndim - features], value.shape[value.ndim - features :]
    if batch == samples:
        return value
    return value.reshape(*batch, *(1,) * (len(samples) - len(batch)), *own).expand(*samples, *own)


def _of_the_other_encoding(found: torch.Size, wanted: torch.Size) -> str:
    """Whose actions those found are, where one of the two is one-hot and the other has indices; else nothing."""
    if found == wanted[:-1]:
        return "; indices are those of a Categorical"
    if found[:-1] == wanted and found[-1] > 1:
        return "; one-hot actions are those of a OneHotCategorical"
    return ""
