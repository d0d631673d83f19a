"""`ReplayBufferEnsemble`: several replay buffers that are sampled together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.data.ensemble_parts import SamplerEnsemble, StorageEnsemble, WriterEnsemble, groups_of
from specgen_runtime.data.replay_buffer import ReplayBuffer
from specgen_runtime.data.rows import RowData, is_key
from specgen_runtime.data.samplers import Sampler
from specgen_runtime.data.samples import Sample
from specgen_runtime.data.storage import Storage
from specgen_runtime.data.writers import Writer
from specgen_runtime.envs.keys import MissingKeyError, show_key
from specgen_runtime.envs.packing import put_checked
from specgen_runtime.transforms.function import TransformLike
from specgen_runtime.typing import NestedKey

__all__ = ["ReplayBufferEnsemble"]


class ReplayBufferEnsemble(ReplayBuffer):
    """Samples from several replay buffers, its members: each sample has groups `[groups, k]`, each of one member.

    Rows pass the transforms of their member first, then those of the ensemble. Samples hold `("index", "buffer_ids")`, the member
    of each row, and `("index", "index")`, which it is there. `ensemble[0]` is a member; what is written into it is sampled.
    With `routing_key` or `routing_dim` the ensemble is written, too.

    Args:
        buffers: the members.
        storages: the storages of new members, whose samplers and writers are `samplers` and `writers`, instead.
        samplers: their samplers; they say how members are chosen.
        writers: their writers.
        transform: of what the members give.
        batch_size: how many elements a sample has, of all groups.
        collate_fn: called with the list of groups; None: they are stacked.
        collate_fns: of new members, called with each group as the storage gives it.
        p: how likely each member is: a number for each, `"sampleable"`, or None: all alike; see `SamplerEnsemble`.
        sample_from_all: whether each sample has one group of each member.
        num_buffer_sampled: how many groups a sample has; None: as many as there are members.
        routing_key: where the data say into which member each row is written, an integer.
        routing_dim: along which dimension the data have one entry for each member, instead.
        generator: what members, samplers and transforms draw from; None: those of the members.
        options: `pin_memory` and `prefetch` of `ReplayBuffer`.

    Raises:
        TypeError: both members and parts of them, or neither.
        ValueError: `routing_key` and `routing_dim`; one of them for members whose elements several dimensions count; arguments
            of `SamplerEnsemble` beside `samplers`; what that refuses.

    Example:
        >>> ensemble = ReplayBufferEnsemble(recorded, online, p=[0.25, 0.75], batch_size=256)
        >>> ensemble[1].extend(env.rollout(100))
        >>> ensemble.sample().shape
        torch.Size([2, 128])
    """

    def __init__(
        self,
        *buffers: ReplayBuffer,
        storages: StorageEnsemble | None = None,
        samplers: SamplerEnsemble | None = None,
        writers: WriterEnsemble | None = None,
        transform: TransformLike | None = None,
        batch_size: int | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        collate_fns: Sequence[Callable[[Any], Any]] | None = None,
        p: Sequence[float] | Tensor | Literal["sampleable"] | None = None,
        sample_from_all: bool = False,
        num_buffer_sampled: int | None = None,
        routing_key: NestedKey | None = None,
        routing_dim: int | None = None,
        generator: torch.Generator | None = None,
        **options: Any,
    ) -> None:
        if routing_key is not None and routing_dim is not None:
            raise ValueError("give routing_key or routing_dim, not both")
        parts = (storages, samplers, writers)
        if (not buffers and None in parts) or (buffers and parts != (None, None, None)):
            raise TypeError("give replay buffers, or all of storages, samplers and writers")
        if storages is not None and samplers is not None and writers is not None:
            if p is not None or sample_from_all or num_buffer_sampled is not None:
                raise ValueError(
                    "`samplers` say how members are chosen: give p and the like to SamplerEnsemble"
                )
            buffers = _made(storages, samplers, writers, collate_fns)
        else:
            storages = StorageEnsemble(
                *(one.storage for one in buffers), transforms=[one.transform for one in buffers]
            )
            samplers = SamplerEnsemble(
                *(one.sampler for one in buffers),
                p=p,
                sample_from_all=sample_from_all,
                num_buffer_sampled=num_buffer_sampled,
            )
            writers = WriterEnsemble(*(one.writer for one in buffers))
        self.buffers = buffers
        self.routing_key = routing_key
        self.routing_dim = routing_dim
        super().__init__(
            storage=storages,
            sampler=samplers,
            writer=writers,
            transform=transform,
            batch_size=batch_size,
            collate_fn=collate_fn,
            generator=generator,
            dim_extend=0,
            **options,
        )
        if self.storage.ndim > 1 and (routing_key is not None or routing_dim is not None):
            raise ValueError(
                f"rows are routed one by one, and {self.storage.ndim} dimensions count the elements of the members: "
                "write into them, `ensemble[0].extend(data)`"
            )

    def set_rng(self, generator: torch.Generator | None) -> None:
        """Draw from another generator from now on, in all members; None: what they draw from stays."""
        if generator is not None:
            super().set_rng(generator)
            for one in self.buffers:
                one.set_rng(generator)

    def set_sampler(self, sampler: Sampler) -> Sampler:
        """Refuse: a member is told, and a new ensemble made."""
        raise RuntimeError(
            "an ensemble has the sampler of its members: change theirs, and make a new ensemble"
        )

    def set_storage(self, storage: Storage, collate_fn: Callable[[Any], Any] | None = None) -> Storage:
        """Refuse: a member is told, and a new ensemble made."""
        raise RuntimeError(
            "an ensemble has the storages of its members: change theirs, and make a new ensemble"
        )

    def set_writer(self, writer: Writer) -> Writer:
        """Refuse: a member is told, and a new ensemble made."""
        raise RuntimeError(
            "an ensemble has the writers of its members: change theirs, and make a new ensemble"
        )

    def extend(self, data: RowData) -> TensorDict:
        """Write each row into the member that `routing_key` or `routing_dim` names.

        Args:
            data: a tensordict, whose batch dimensions all count rows.

        Returns:
            The member of each row and its index there, in the order of `data.reshape(-1)`: `"buffer_ids"`, `"index"`. It is
            empty if a transform holds the data back; an index is -1 where the writer left the row out, and for all rows of
            a member whose transforms wrote more or fewer.

        Raises:
            RuntimeError: the ensemble has neither; write into `ensemble[0]`, for example.
            KeyError: `routing_key` is missing.
            TypeError: its entry holds no integers.
            ValueError: there is no such member, or `routing_dim` has another size.
        """
        if not isinstance(data, TensorDictBase):
            raise TypeError(f"an ensemble is written with tensordicts, got {type(data).__name__}")
        data = self._samples.inverted(data)
        if data is None:
            none = torch.zeros(0, dtype=torch.int64)
            return TensorDict({"buffer_ids": none, "index": none.clone()}, [0])
        members = self._routed(data)
        rows = data.reshape(-1)
        index = torch.full_like(members, -1)
        for member in sorted(set(members.tolist())):
            chosen = members == member
            written = self.buffers[member].extend(rows[chosen.to(rows.device or "cpu")])
            if len(written) == int(chosen.sum()):
                index[chosen] = written.to(index.device)
        return TensorDict({"buffer_ids": members, "index": index}, [len(members)])

    def add(self, data: RowData) -> TensorDict:
        """Write one row into the member that `routing_key` names; see `extend`."""
        if self.routing_dim is not None:
            raise RuntimeError("one row has no dimension of members: use `extend`, or routing_key")
        return self.extend(data.unsqueeze(0))[0]

    def _routed(self, data: TensorDictBase) -> Tensor:
        """The member of each row, `[rows]`."""
        count = len(self.buffers)
        if self.routing_dim is not None:
            dim = self.routing_dim % max(data.ndim, 1)
            if not data.ndim or data.shape[dim] != count:
                raise ValueError(
                    f"the data {list(data.shape)} have {count} entries along routing_dim {self.routing_dim}, one for each member"
                )
            shape = [count if place == dim else 1 for place in range(data.ndim)]
            return torch.arange(count).reshape(shape).expand(data.shape).reshape(-1)
        if self.routing_key is None:
            raise RuntimeError(
                "nothing says into which member rows are written: use `ensemble[0].extend`, routing_key or routing_dim"
            )
        named = data.get(self.routing_key, None)
        if named is None:
            raise MissingKeyError(
                f"{show_key(self.routing_key)} is missing: it says into which member rows are written"
            )
        if named.numel() != data.numel():
            raise ValueError(
                f"{show_key(self.routing_key)} is one number of each row, got {list(named.shape)} for {list(data.shape)}"
            )
        if named.dtype == torch.bool or named.is_floating_point():
            raise TypeError(
                f"{show_key(self.routing_key)} holds the numbers of members, integers, got {named.dtype}"
            )
        members: Tensor = named.reshape(-1).to("cpu", torch.int64)
        if len(members) and not 0 <= int(members.min()) <= int(members.max()) < count:
            raise ValueError(
                f"{show_key(self.routing_key)} names members from 0 to {count - 1}, got {int(members.min())} to {int(members.max())}"
            )
        return members

    def update_priority(self, index: Any, priority: Tensor | float) -> None:
        """Change the priority of rows in their members.

        Args:
            index: the entry `"index"` of a sample.
            priority: one for all, or one for each row.

        Raises:
            ValueError: a priority is negative or not finite, or their number is another.
        """
        with self._samples.idle():
            self.sampler.update_priority(index, priority, storage=self.storage)

    def empty(self, empty_write_count: bool = True) -> None:
        """Forget the rows of all members, or of none; see `ReplayBuffer.empty`."""
        with self._samples.idle():
            self.writer._check_can_be_emptied()
            self._samples.clear()
            for one in self.buffers:
                one.empty(empty_write_count)

    def _reading(self, index: Any) -> Callable[[], RowData]:
        ahead, groups = bool(self._samples.ahead), []
        for member, rows in groups_of(index):
            one = self.buffers[member]
            read = one._reading(rows if one.storage.ndim == 1 else rows.unbind(-1))
            groups.append((one._samples, one._samples.transforming(read, ahead=ahead)))
        collate = self._collate_fn or self.storage.collate

        def read_all() -> RowData:
            found = []
            for samples, read in groups:
                with samples.idle():  # a thread may read ahead while rows are written
                    found.append(read())
            return collate(found)

        return read_all

    def _finished(self, result: Sample) -> Any:
        data = result.data
        if isinstance(data, TensorDictBase):
            for key, value in result.info.items():
                put_checked(data, key, value if data.device is None else value.to(data.device))
        return data

    def __getitem__(self, index: Any) -> Any:
        """A member, by its number; of several an ensemble, with the transforms and the shares of this one.

        Args:
            index: a number, a slice, or numbers or flags of members.
        """
        if is_key(index):
            raise TypeError(f"entries are in the members: `ensemble[0][{index!r}]`")
        if isinstance(index, tuple):
            raise TypeError("rows are in the members: `ensemble[0][:3]` for the first three of one of them")
        chosen: Any = torch.arange(len(self.buffers))[index].tolist()  # one number, or a list of them
        if isinstance(chosen, int):
            return self.buffers[chosen]
        sampler = self.sampler
        assert isinstance(sampler, SamplerEnsemble)
        return ReplayBufferEnsemble(
            *(self.buffers[member] for member in chosen),
            transform=self.transform,
            batch_size=self.batch_size,
            collate_fn=self._collate_fn,
            p=sampler.p[chosen] if isinstance(sampler.p, Tensor) else sampler.p,  # type: ignore[arg-type]
            sample_from_all=sampler.sample_from_all,
            num_buffer_sampled=sampler.groups_asked_for,
            generator=self.generator,
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        raise RuntimeError("rows are in the members: `ensemble[0][index] = data`")

    def state_dict(self) -> dict[str, Any]:
        """The states of all members, and of what the ensemble has beside them; see `ReplayBuffer.state_dict`."""
        with self._samples.idle():
            members = {str(index): one.state_dict() for index, one in enumerate(self.buffers)}
            return {"members": members, **self._samples.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from where another ensemble of the same members stood.

        Raises:
            ValueError: it had more members, or fewer.
            KeyError, TypeError: as `ReplayBuffer.load_state_dict`.
        """
        if len(state_dict["members"]) != len(self.buffers):
            raise ValueError(
                f"the state is of {len(state_dict['members'])} members, and the ensemble has {len(self.buffers)}"
            )
        with self._samples.idle():
            for index, one in enumerate(self.buffers):
                one.load_state_dict(state_dict["members"][str(index)])
            self._samples.load_state_dict(state_dict)
            self.set_rng(self.generator)

    def dumps(self, path: str | Path) -> None:
        """Refuse: members are saved, each in a folder of its own."""
        raise RuntimeError("save the members, `ensemble[0].dumps(path)`, or `state_dict()`")

    def loads(self, path: str | Path) -> None:
        """Refuse: members are loaded, each from its folder."""
        raise RuntimeError("load the members, `ensemble[0].loads(path)`, or `load_state_dict(state)`")


def _made(
    storages: StorageEnsemble,
    samplers: SamplerEnsemble,
    writers: WriterEnsemble,
    collate_fns: Sequence[Callable[[Any], Any]] | None,
) -> tuple[ReplayBuffer, ...]:
    """Members of these parts."""
    count = len(storages.storages)
    collates: Sequence[Callable[[Any], Any] | None] = [None] * count if collate_fns is None else collate_fns
    lengths = (len(samplers.samplers), len(writers.writers), len(collates))
    if lengths != (count, count, count):
        raise ValueError(f"{count} storages have as many samplers, writers and collate_fns, got {lengths}")
    return tuple(
        ReplayBuffer(storage=storage, sampler=sampler, writer=writer, transform=transform, collate_fn=collate)
        for storage, sampler, writer, transform, collate in zip(
            storages.storages,
            samplers.samplers,
            writers.writers,
            storages.transforms or [None] * count,
            collates,
            strict=True,
        )
    )
