"""The storages, samplers and writers of several replay buffers that are sampled together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_tensor_collection
from torch import Tensor

from specgen_runtime.data.rows import RowData
from specgen_runtime.data.samplers import Sampler
from specgen_runtime.data.slices import SliceSampler
from specgen_runtime.data.storage import Storage
from specgen_runtime.data.writers import Writer
from specgen_runtime.transforms import Transform

__all__ = ["SamplerEnsemble", "StorageEnsemble", "WriterEnsemble", "members_of"]

_NOT_WRITTEN = "an ensemble is written by its members: `ensemble[0].extend(data)`"


class StorageEnsemble(Storage):
    """Several storages.

    An index is a tensordict `[n]`: `"buffer_ids"`, a storage for each of `n` groups of elements, `[n]` or `[n, k]`, and
    `"index"`, the elements, `[n, k]`, or `[n, k, ndim]`.

    Args:
        storages: the storages.
        transforms: the transforms of what each of them gives, or None.

    Raises:
        TypeError: one is an ensemble itself.
        ValueError: no storage, others than transforms, or elements that other numbers of dimensions count.
    """

    def __init__(self, *storages: Storage, transforms: Sequence[Transform | None] | None = None) -> None:
        if any(isinstance(one, StorageEnsemble) for one in storages):
            raise TypeError("an ensemble is no member of another one: give its members, `*ensemble.buffers`")
        if len({one.ndim for one in storages}) != 1:
            given = ", ".join(str(one.ndim) for one in storages) or "none"
            raise ValueError(f"as many dimensions count the elements of all storages, got {given}")
        if transforms is not None and len(transforms) != len(storages):
            raise ValueError(f"{len(transforms)} transforms for {len(storages)} storages")
        super().__init__(sum(one.max_size for one in storages))
        self.storages = storages
        self.transforms = transforms
        self.ndim = storages[0].ndim
        devices = {one.device for one in storages}
        self.device = devices.pop() if len(devices) == 1 else None

    def set(self, cursor: Any, data: RowData, *, set_cursor: bool = True) -> None:
        """Refuse to write."""
        raise RuntimeError(_NOT_WRITTEN)

    def get(self, index: Any) -> list[Any]:
        """What the storages give of each group of elements, after their transforms."""
        found = []
        for member, rows in groups_of(index):
            storage = self.storages[member]
            data = storage.collate(storage.gather(rows if storage.ndim == 1 else rows.unbind(-1)))
            transform = None if self.transforms is None else self.transforms[member]
            found.append(data if transform is None else transform(data))
        return found

    def collate(self, rows: Any) -> Any:
        """The groups, one behind the other along a new first dimension."""
        if is_tensor_collection(rows[0]):
            return LazyStackedTensorDict.maybe_dense_stack(list(rows))
        return torch.stack(list(rows))

    def __len__(self) -> int:
        return sum(map(len, self.storages))

    def rows_of(self, data: RowData) -> int:
        """Refuse to say: the members have space for rows."""
        raise RuntimeError(_NOT_WRITTEN)

    def _empty(self) -> None:
        for one in self.storages:
            one._empty()

    def state_dict(self, *, copies: bool = True) -> dict[str, Any]:
        """What each storage holds, by its number."""
        return {str(index): one.state_dict(copies=copies) for index, one in enumerate(self.storages)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Hold what the storages of another one held."""
        for index, one in enumerate(self.storages):
            one.load_state_dict(state_dict[str(index)])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.storages))})"


class SamplerEnsemble(Sampler):
    """Draws with several samplers, each from a storage of a `StorageEnsemble`.

    A sample is as many groups as `num_buffer_sampled` says, `[groups, k]`, each of one member.

    Args:
        samplers: the samplers.
        p: how likely each member is, in proportion to the others: by a number for each, or `"sampleable"`, by how many
            elements, or parts of trajectories, there are; None: all alike.
        sample_from_all: whether each sample has one group of each member.
        num_buffer_sampled: how many groups a sample has; None: as many as there are members.

    Raises:
        ValueError: `p` with `sample_from_all`, another word, or more or fewer numbers than members, a negative or an infinite
            one, or nothing but 0; a `SliceSampler` whose parts may be shorter than others, for groups are of one size.
    """

    def __init__(
        self,
        *samplers: Sampler,
        p: Sequence[float] | Tensor | Literal["sampleable"] | None = None,
        sample_from_all: bool = False,
        num_buffer_sampled: int | None = None,
    ) -> None:
        if not samplers:
            raise ValueError("give a sampler for each storage")
        if sample_from_all and p is not None:
            raise ValueError("sample_from_all takes as much from each member: leave out p")
        for member, one in enumerate(samplers):
            if isinstance(one, SliceSampler) and one.cuts_parts:
                raise ValueError(
                    f"groups are of one size, and parts of member {member} may be shorter than others: "
                    "give its sampler strict_length=False, pad_output=True, or strict_length=True and no span"
                )
        self.samplers = samplers
        self.sample_from_all = sample_from_all
        self.groups_asked_for = None if sample_from_all else num_buffer_sampled
        self.num_buffer_sampled = len(samplers) if self.groups_asked_for is None else self.groups_asked_for
        if self.num_buffer_sampled < 1:
            raise ValueError(f"num_buffer_sampled is 1 or larger, got {num_buffer_sampled}")
        self.p: Tensor | str | None = p if p is None or isinstance(p, str) else self._shares(p)
        if isinstance(p, str) and p != "sampleable":
            raise ValueError(f'p is a number for each member, or "sampleable", got {p!r}')
        self._own_rng: torch.Generator | None = None

    def _shares(self, p: Sequence[float] | Tensor) -> Tensor:
        shares = torch.as_tensor(p, dtype=torch.get_default_dtype())
        if shares.shape != (len(self.samplers),) or (shares < 0).any() or not 0 < shares.sum() < float("inf"):
            raise ValueError(
                f"p is a number of 0 or more for each of {len(self.samplers)} members, got {shares.tolist()}"
            )
        return shares / shares.sum()

    @property
    def _rng(self) -> torch.Generator | None:
        return self._own_rng

    @_rng.setter
    def _rng(self, generator: torch.Generator | None) -> None:
        self._own_rng = generator
        for one in self.samplers:
            one._rng = generator

    def sample(self, storage: Storage, batch_size: int) -> tuple[Any, dict[Any, Any]]:
        """Draw groups of elements.

        Args:
            storage: a `StorageEnsemble`.
            batch_size: how many elements in all.

        Returns:
            Their index, as of `StorageEnsemble`, and what the samplers say of all groups, `[groups, k, …]`.

        Raises:
            TypeError: another storage.
            ValueError: `batch_size` can't be divided into groups.
            RuntimeError: a member is empty, or with `"sampleable"` all are.
        """
        if not isinstance(storage, StorageEnsemble):
            raise TypeError(f"a SamplerEnsemble draws from a StorageEnsemble, got {type(storage).__name__}")
        groups = self.num_buffer_sampled
        if batch_size % groups:
            raise ValueError(f"a sample of {batch_size} elements can't be divided into {groups} groups")
        size = batch_size // groups
        members = self._members(storage, size)
        drawn: list[Any] = [None] * groups
        for member in sorted(set(members.tolist())):
            places = (members == member).nonzero()[:, 0].tolist()
            index, info = self._drawn(member, storage, size, len(places))
            for number, place in enumerate(places):
                at = slice(number * size, (number + 1) * size)
                drawn[place] = (index[at], {key: value[at] for key, value in info.items()})
        device = storage.device or torch.device("cpu")  # members may be on several
        rows = torch.stack([index.to(device) for index, _ in drawn])
        said = [info for _, info in drawn]
        shared = [key for key in said[0] if all(key in info for info in said)]
        where = members.to(device).unsqueeze(-1).expand(groups, size)
        return (
            TensorDict({"buffer_ids": where, "index": rows}, [groups, size]),
            {key: torch.stack([info[key].to(device) for info in said]) for key in shared},
        )

    def _members(self, storage: StorageEnsemble, size: int) -> Tensor:
        """The member of each group."""
        groups = self.num_buffer_sampled
        if self.sample_from_all:
            return torch.arange(groups)
        device = "cpu" if self._rng is None else self._rng.device
        if self.p is None:
            return torch.randint(len(self.samplers), (groups,), generator=self._rng, device=device)
        shares = self._counts(storage, size) if isinstance(self.p, str) else self.p
        return torch.multinomial(shares.to(device), groups, True, generator=self._rng)

    def _counts(self, storage: StorageEnsemble, size: int) -> Tensor:
        pairs = zip(self.samplers, storage.storages, strict=True)
        counts = torch.tensor([float(one.sampleable(stored, size)) for one, stored in pairs])
        if not counts.any():
            raise RuntimeError("there is nothing to sample: no member of the ensemble has enough elements")
        return counts / counts.sum()

    def _drawn(
        self, member: int, storage: StorageEnsemble, size: int, groups: int
    ) -> tuple[Tensor, dict[Any, Tensor]]:
        """Elements of some groups of a member, exactly so many: samplers may give fewer at once."""
        sampler, stored = self.samplers[member], storage.storages[member]
        if not len(stored):
            raise RuntimeError(
                f'member {member} of the ensemble is empty: write into it first, or give p="sampleable"'
            )
        # Parts of which there are so many in a group are as long as that says: each call asks for a group.
        by_group = isinstance(sampler, SliceSampler) and sampler.num_slices is not None
        indices: list[Tensor] = []
        infos: list[dict[Any, Any]] = []
        while left := size * groups - sum(map(len, indices)):
            drawn, info = sampler.sample(stored, size if by_group else left)
            index = torch.stack(drawn, -1) if isinstance(drawn, tuple) else drawn
            if not len(index) or (len(index) > left and not by_group):
                raise RuntimeError(
                    f"the sampler of member {member} gave {len(index)} elements where {left} were asked for"
                )
            indices.append(index[:left])
            infos.append({key: value[:left] for key, value in info.items()})
        said = {key: torch.cat([info[key] for info in infos]) for key in infos[0]}
        return torch.cat(indices), said

    def update_priority(
        self, index: Any, priority: Tensor | float, *, storage: Storage | None = None
    ) -> None:
        """Change the priority of elements, by the index that a sample has.

        Args:
            index: as of `StorageEnsemble`, also without groups, `[n]`.
            priority: one for all, or one for each element.
            storage: where they are.

        Raises:
            TypeError: an index of another form.
            ValueError: there is no such member, or there are more or fewer priorities than elements.
        """
        assert isinstance(storage, StorageEnsemble)
        for member, chosen, rows in members_of(index, len(self.samplers)):
            values = priority
            if isinstance(priority, Tensor) and priority.numel() != 1:
                elements = index["index"].shape[: None if storage.ndim == 1 else -1]
                if priority.numel() != elements.numel():
                    raise ValueError(f"priorities {list(priority.shape)} for elements {list(elements)}")
                values = priority.reshape(elements)[chosen.to(priority.device)]
            self.samplers[member].update_priority(rows, values, storage=storage.storages[member])

    def _empty(self) -> None:
        for one in self.samplers:
            one._empty()

    def state_dict(self) -> dict[str, Any]:
        """What each sampler remembers, by its number."""
        return {str(index): one.state_dict() for index, one in enumerate(self.samplers)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Remember what the samplers of another one did."""
        for index, one in enumerate(self.samplers):
            one.load_state_dict(state_dict[str(index)])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_own_rng": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.samplers))})"


class WriterEnsemble(Writer):
    """The writers of several storages. It writes nothing itself.

    Args:
        writers: the writers.
    """

    def __init__(self, *writers: Writer) -> None:
        super().__init__()
        self.writers = writers

    @property
    def tracks_generations(self) -> bool:  # type: ignore[override]
        """Whether all writers tell rows that were written over."""
        return all(one.tracks_generations for one in self.writers)

    @property
    def _write_count(self) -> int:
        return sum(getattr(one, "_write_count", 0) for one in self.writers)

    def register_storage(self, storage: Storage) -> None:
        """Say which storages are written.

        Raises:
            TypeError: they are in no `StorageEnsemble`.
            ValueError: there are more or fewer than writers.
        """
        if not isinstance(storage, StorageEnsemble):
            raise TypeError(f"a WriterEnsemble writes a StorageEnsemble, got {type(storage).__name__}")
        if len(storage.storages) != len(self.writers):
            raise ValueError(f"{len(self.writers)} writers for {len(storage.storages)} storages")
        super().register_storage(storage)
        for writer, one in zip(self.writers, storage.storages, strict=True):
            writer.register_storage(one)

    def extend(self, data: RowData) -> Tensor:
        """Refuse to write."""
        raise RuntimeError(_NOT_WRITTEN)

    def generations_of(self, index: Any) -> Tensor:
        """How often each row was written before it held what it holds, by the index that a sample has."""
        rows = index["index"]
        found = torch.empty(index["buffer_ids"].shape, dtype=torch.int64, device=rows.device)
        for member, chosen, at in members_of(index, len(self.writers)):
            found[chosen] = self.writers[member].generations_of(at).to(found.device)
        return found

    def _check_can_be_emptied(self) -> None:
        for member, one in enumerate(self.writers):
            try:
                one._check_can_be_emptied()
            except RuntimeError as error:
                raise RuntimeError(f"member {member} of the ensemble: {error}") from None

    def _empty(self, empty_write_count: bool = True) -> None:
        self._check_can_be_emptied()
        for one in self.writers:
            one._empty(empty_write_count)

    def state_dict(self) -> dict[str, Any]:
        """Where each writer stands, by its number."""
        return {str(index): one.state_dict() for index, one in enumerate(self.writers)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where the writers of another one stood."""
        for index, one in enumerate(self.writers):
            one.load_state_dict(state_dict[str(index)])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.writers))})"


def groups_of(index: TensorDict) -> list[tuple[int, Tensor]]:
    """The member and the elements of each group of an index."""
    members = index["buffer_ids"].reshape(len(index), -1)[:, 0].tolist()
    return list(zip(members, index["index"].unbind(0), strict=True))


def members_of(index: TensorDictBase, count: int) -> list[tuple[int, Tensor, Tensor]]:
    """Each of `count` members that an index names, which of its elements are of it, and these: `[n]`, or `[n, ndim]`."""
    if not isinstance(index, TensorDictBase):
        raise TypeError(
            f'an index of an ensemble is a tensordict of "buffer_ids" and "index", as in a sample, got {type(index).__name__}'
        )
    members, rows = index["buffer_ids"], index["index"]
    if members.shape != rows.shape[: members.ndim]:
        raise ValueError(
            f'"index" {list(rows.shape)} has the shape of "buffer_ids" {list(members.shape)}, or more dimensions'
        )
    found = []
    for member in sorted(set(members.flatten().tolist())):
        if not 0 <= member < count:
            raise ValueError(f'"buffer_ids" names members from 0 to {count - 1}, got {member}')
        chosen = members == member
        found.append((member, chosen, rows[chosen.to(rows.device)]))
    return found
