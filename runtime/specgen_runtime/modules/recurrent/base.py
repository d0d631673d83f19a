"""What LSTM and GRU modules share: keys, modes, states, and trajectories that stand behind each other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self, TypeAlias

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase, dispatch
from torch import Tensor, nn

from specgen_runtime.envs.traced import is_traced
from specgen_runtime.modules.action_space import entry
from specgen_runtime.modules.recurrent.mode import recurrent_mode
from specgen_runtime.modules.recurrent.steps import States, run_kernel, run_steps, state_sizes, zero_states
from specgen_runtime.modules.recurrent.trajectories import trajectories
from specgen_runtime.params import int_param
from specgen_runtime.specs import Unbounded
from specgen_runtime.transforms.keys import as_tuple, normal_key
from specgen_runtime.transforms.primer import TensorDictPrimer
from specgen_runtime.typing import NestedKey

Backend: TypeAlias = Literal["auto", "pad", "scan"]


class RecurrentModule(TensorDictModuleBase):  # type: ignore[misc]
    """A recurrent network that reads its input and its states from tensordicts, and puts the next states there.

    Each subclass has a network of `torch.nn`, and says how many states it has.
    """

    _states: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        *,
        in_key: NestedKey | None,
        in_keys: Sequence[NestedKey] | None,
        out_key: NestedKey | None,
        out_keys: Sequence[NestedKey] | None,
        python_based: bool,
        recurrent_backend: Backend,
        default_recurrent_mode: bool | None,
        agents: int | None,
    ) -> None:
        super().__init__()
        name, n = type(self).__name__, len(self._states)
        if (in_key is None) == (in_keys is None) or (out_key is None) == (out_keys is None):
            raise ValueError(
                f"{name} takes either in_key or in_keys, and either out_key or out_keys, got in_key={in_key!r},"
                f" in_keys={in_keys!r}, out_key={out_key!r}, out_keys={out_keys!r}"
            )
        if isinstance(in_keys, str) or isinstance(out_keys, str):
            raise TypeError(f"in_keys and out_keys of {name} are lists, got {in_keys!r} and {out_keys!r}")
        reads = [in_key, *self._states] if in_keys is None else list(in_keys)
        writes = (
            [out_key, *(("next", state) for state in self._states)] if out_keys is None else list(out_keys)
        )
        if len(reads) not in (n + 1, n + 2):
            raise ValueError(f"{name} reads a value, {n} states and is_init, got in_keys={reads}")
        if len(writes) != n + 1:
            raise ValueError(f"{name} writes a value and {n} states, got out_keys={writes}")
        if recurrent_backend not in ("auto", "pad", "scan"):
            raise ValueError(
                f"recurrent_backend is 'auto', 'pad' or 'scan' for {name}, got {recurrent_backend!r}"
            )
        if len(reads) == n + 1:
            reads.append("is_init")
        self.in_keys = [normal_key(key) for key in reads]
        self.out_keys = [normal_key(key) for key in writes]
        self.python_based = python_based
        self.recurrent_backend = recurrent_backend
        self._recurrent_mode = default_recurrent_mode
        self.agents = None if agents is None else int_param(f"agents of {name}", agents, at_least=1)

    @property
    @abstractmethod
    def rnn(self) -> nn.RNNBase:
        """The network."""

    @property
    def optional_in_keys(self) -> list[NestedKey]:
        """What may be missing in tensordicts: the states, which are zeros then."""
        return list(self.in_keys[1:-1])

    @property
    def is_init_key(self) -> NestedKey:
        """Where it reads whether a step is the first of its episode."""
        return self.in_keys[-1]

    @property
    def recurrent_mode(self) -> bool:
        """Whether a call reads sequences: as `set_recurrent_mode` says, or `default_recurrent_mode`."""
        mode = recurrent_mode()
        return bool(self._recurrent_mode) if mode is None else mode

    def make_python_based(self) -> Self:
        """Compute step by step from now on.

        Raises:
            ValueError: the network reads sequences in both directions.
        """
        if self.rnn.bidirectional:
            raise ValueError(
                "networks of both directions can't be computed step by step: bidirectional=False"
            )
        self.python_based = True
        return self

    def make_cudnn_based(self) -> Self:
        """Compute with torch's kernels from now on."""
        self.python_based = False
        return self

    def make_tensordict_primer(self) -> TensorDictPrimer:
        """The transform that gives an environment the states, zeros at each reset.

        Raises:
            ValueError: the states are not written under `"next"` by the keys that they are read from, so that no step
                of the environment would hand them on.
        """
        keys = self.in_keys[1:-1]
        if [as_tuple(key) for key in self.out_keys[1:]] != [("next", *as_tuple(key)) for key in keys]:
            raise ValueError(
                f"states are handed on from one step to the next if they are written under 'next': in_keys are"
                f" {self.in_keys}, out_keys {self.out_keys}"
            )
        layers = self.rnn.num_layers * (2 if self.rnn.bidirectional else 1)
        dtype = next(self.rnn.parameters()).dtype
        specs: dict[Any, Unbounded] = {
            key: Unbounded(shape=(*self._group, layers, size), dtype=dtype)
            for key, size in zip(keys, state_sizes(self.rnn), strict=True)
        }
        return TensorDictPrimer(specs, expand_specs=True)

    @dispatch  # type: ignore[untyped-decorator]
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the output and the states.

        Single steps: all of the batch are rows, of which each goes one step; where `is_init` is true from a state of
        zeros. Sequences: the last dimension of the batch is time. Each row begins with the state that stands at its first
        step, and so does each trajectory that begins within it. The states that come out stand at the last step of each
        trajectory, and are zero elsewhere.

        Raises:
            KeyError: the value, `is_init` or one of several states is missing. Without any state they are zeros.
            ValueError: entries have other shapes than the batch asks for; sequences without a batch dimension.
        """
        name, sequences = type(self).__name__, self.recurrent_mode
        batch = self._batch(tensordict, sequences)
        if sequences and not batch:
            raise ValueError(
                f"{name} reads sequences, so the tensordict needs time as its last batch dimension"
            )
        inputs = self._by_row(self._read(tensordict, 0, "the input", 1, batch), batch, sequences)
        starts = self._starts(tensordict, batch).reshape((*batch, *(1 for _ in self._group)))
        starts = self._by_row(starts.expand((*batch, *self._group)), batch, sequences)
        states = self._read_states(tensordict, batch, sequences)
        if sequences:
            output, after = self._sequences(inputs, states, starts)
        else:
            output, after = self._one_step(inputs, states, starts)
        for key, value in zip(self.out_keys, (output, *after), strict=True):
            tensordict.set(key, self._by_step(value, batch, sequences))
        return tensordict

    # ------------------------------------------------------- rows: each agent's is one

    @property
    def _group(self) -> tuple[int, ...]:
        """The dimension of agents, if there is one."""
        return () if self.agents is None else (self.agents,)

    def _by_row(self, value: Tensor, batch: tuple[int, ...], sequences: bool) -> Tensor:
        """A value of each step, `(*batch, agents, *own)`, as `(rows, steps, *own)`."""
        if not sequences:
            return value.reshape(-1, 1, *value.shape[len(batch) + len(self._group) :])
        if self._group:
            value = value.movedim(len(batch), len(batch) - 1)
        return value.reshape(-1, batch[-1], *value.shape[len(batch) + len(self._group) :])

    def _by_step(self, value: Tensor, batch: tuple[int, ...], sequences: bool) -> Tensor:
        """What `_by_row` made rows of, as it was."""
        if not (sequences and self._group):
            return value.reshape((*batch, *self._group, *value.shape[2:]))
        rows = value.reshape(*batch[:-1], *self._group, batch[-1], *value.shape[2:])
        return rows.movedim(len(batch), len(batch) - 1)

    # ------------------------------------------------------------- what is read

    def _batch(self, tensordict: TensorDictBase, sequences: bool) -> tuple[int, ...]:
        """The batch; of single steps without one, as in a call with tensors, all that is in front of the input's own."""
        batch = tuple(tensordict.batch_size)
        if sequences or batch:
            return batch
        value = entry(tensordict, self.in_keys[0], owner=type(self).__name__, role="the input")
        return tuple(value.shape[: max(value.ndim - 1 - len(self._group), 0)])

    def _read(
        self, tensordict: TensorDictBase, position: int, role: str, dims: int, batch: tuple[int, ...]
    ) -> Tensor:
        key = self.in_keys[position]
        value = entry(tensordict, key, owner=type(self).__name__, role=role)
        each = (*batch, *self._group)
        if value.ndim != len(each) + dims or tuple(value.shape[: len(each)]) != each:
            raise ValueError(
                f"{type(self).__name__}: {role} {key!r} must have the batch {each} and {dims} more dimension(s),"
                f" got shape {tuple(value.shape)}"
            )
        return value

    def _starts(self, tensordict: TensorDictBase, batch: tuple[int, ...]) -> Tensor:
        key = self.is_init_key
        value = entry(tensordict, key, owner=type(self).__name__, role="is_init")
        if tuple(value.shape) not in (batch, (*batch, 1)):
            raise ValueError(
                f"{type(self).__name__}: is_init {key!r} must have shape {batch} or {(*batch, 1)}, got"
                f" {tuple(value.shape)}"
            )
        return value

    def _read_states(
        self, tensordict: TensorDictBase, batch: tuple[int, ...], sequences: bool
    ) -> States | None:
        """The states of each step, `(rows, steps, n_layers, size)`; None if there are none."""
        if all(tensordict.get(key, None) is None for key in self.in_keys[1:-1]):
            return None
        found = [self._read(tensordict, i + 1, "the state", 2, batch) for i in range(len(self._states))]
        return tuple(self._by_row(state, batch, sequences) for state in found)

    # ------------------------------------------------------------ what is computed

    def _one_step(self, inputs: Tensor, states: States | None, starts: Tensor) -> tuple[Tensor, States]:
        if states is None:
            before = zero_states(self.rnn, inputs)
        else:
            fresh = starts.reshape(-1, 1, 1)
            before = tuple(state[:, 0].masked_fill(fresh, 0.0) for state in states)
        output, after = self._run(inputs, before)
        return output, tuple(state.unsqueeze(1) for state in after)

    def _sequences(self, inputs: Tensor, states: States | None, starts: Tensor) -> tuple[Tensor, States]:
        before = zero_states(self.rnn, inputs) if states is None else tuple(state[:, 0] for state in states)
        if self._by_steps():
            output, after = run_steps(self.rnn, inputs, before, starts, states)
            ends = torch.cat([starts[:, 1:], torch.ones_like(starts[:, :1])], 1)
            return output, tuple(state.masked_fill(~ends[..., None, None], 0.0) for state in after)
        if not bool(starts[:, 1:].any()):
            output, last = self._run(inputs, before)
            shape = (inputs.shape[0], inputs.shape[1] - 1)
            return output, tuple(
                torch.cat([state.new_zeros(*shape, *state.shape[1:]), state.unsqueeze(1)], 1)
                for state in last
            )
        return self._trajectories(inputs, states, starts)

    def _trajectories(self, inputs: Tensor, states: States | None, starts: Tensor) -> tuple[Tensor, States]:
        """Sequences within which trajectories begin, by torch's kernels."""
        first, last, segments = trajectories(starts, whole=self.rnn.bidirectional)
        if states is None:
            now = zero_states(self.rnn, first)
        else:
            now = tuple(state.flatten(0, 1).index_select(0, first) for state in states)
        steps = inputs.flatten(0, 1)
        outputs = []
        for segment in segments:
            before = tuple(state.index_select(0, segment.which) for state in now)
            output, after = run_kernel(self.rnn, steps[segment.steps], before)
            outputs.append(output.flatten(0, 1))
            now = tuple(
                state.index_copy(0, segment.which, new) for state, new in zip(now, after, strict=True)
            )
        order = torch.cat([segment.steps.flatten() for segment in segments])
        place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        output = torch.cat(outputs).index_select(0, place)
        return output.reshape(*starts.shape, output.shape[-1]), tuple(
            state.new_zeros(starts.numel(), *state.shape[1:])
            .index_copy(0, last, state)
            .reshape(*starts.shape, *state.shape[1:])
            for state in now
        )

    def _run(self, inputs: Tensor, before: States) -> tuple[Tensor, States]:
        """The output, and the last states as `(n_rows, n_layers, size)`, of sequences that don't start anew."""
        if self._by_steps():
            output, after = run_steps(self.rnn, inputs, before)
            return output, tuple(state[:, -1] for state in after)
        return run_kernel(self.rnn, inputs, before)

    def _by_steps(self) -> bool:
        """Whether to compute step by step; torch's kernels can be neither compiled nor mapped."""
        return self.python_based or self.recurrent_backend == "scan" or is_traced()
