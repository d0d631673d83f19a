"""`GRUModule`: a GRU that reads single steps or sequences of tensordicts."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from specgen_runtime.modules.recurrent.base import Backend, RecurrentModule
from specgen_runtime.modules.recurrent.networks import GRU, make_rnn
from specgen_runtime.typing import DEVICE_TYPING, NestedKey


class GRUModule(RecurrentModule):
    """A GRU for policies and values: one step at a time while data are collected, whole sequences for losses.

    Reads an input of shape `(*batch, input_size)`, a state of shape `(*batch, num_layers, hidden_size)`, which may be
    missing where it is zero, and `is_init`, bool of shape `(*batch, 1)` or `(*batch,)`, which `InitTracker`
    writes. Writes the output, `(*batch, hidden_size)`, and the next state.

    Outside recurrent mode each call is one step of all rows, from zeros where `is_init` is true. In recurrent mode (see
    `set_recurrent_mode`, which losses turn on) the last dimension of the batch is time, and rows may hold several
    trajectories behind each other: each begins with the state that is stored at its first step.

    Args:
        input_size: size of the input's last dimension.
        hidden_size: size of the state and the output.
        num_layers: GRUs, each of which reads the output of the one before.
        bias: whether there are biases.
        batch_first: True, as time is behind the rows.
        dropout: between layers, in training.
        bidirectional: read sequences from both ends.
        python_based: always compute step by step.
        recurrent_backend: `"pad"` and `"auto"` use torch's kernels, on parts of equal lengths where trajectories begin within
            rows, and go step by step where torch compiles or maps; `"scan"` always goes step by step.
        in_key: of the input; the state is `"recurrent_state"`, and `"is_init"`.
        in_keys: instead: of the input and the state, and of `is_init` if it is not `"is_init"`.
        out_key: of the output; the next state is the same under `"next"`.
        out_keys: instead: of the output and the state.
        device: of the parameters.
        gru: a GRU that exists, with `batch_first=True`; one of `torch.nn` can't be compiled.
        default_recurrent_mode: whether to read sequences outside any `set_recurrent_mode`.
        agents: how many agents a group has, where inputs, states and outputs are of each: their dimension stands behind the
            batch. Each has a state of its own, and all share the parameters; `is_init` is of the batch.

    Raises:
        ValueError: sizes are missing, or given with `gru`; keys are missing, given twice, or not as many as needed;
            options that exclude each other.

    Example:
        >>> module = GRUModule(3, 8, in_key="observation", out_key="features")
        >>> data = TensorDict({"observation": torch.zeros(4, 3), "is_init": torch.ones(4, 1, dtype=torch.bool)}, [4])
        >>> module(data)["next", "recurrent_state"].shape
        torch.Size([4, 1, 8])
    """

    _states = ("recurrent_state",)

    def __init__(
        self,
        input_size: int | None = None,
        hidden_size: int | None = None,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        python_based: bool = False,
        recurrent_backend: Backend = "pad",
        *,
        in_key: NestedKey | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        device: DEVICE_TYPING | None = None,
        gru: nn.RNNBase | None = None,
        default_recurrent_mode: bool | None = None,
        agents: int | None = None,
    ) -> None:
        super().__init__(
            in_key=in_key,
            in_keys=in_keys,
            out_key=out_key,
            out_keys=out_keys,
            python_based=python_based,
            recurrent_backend=recurrent_backend,
            default_recurrent_mode=default_recurrent_mode,
            agents=agents,
        )
        self.gru: nn.RNNBase = make_rnn(
            GRU,
            gru,
            python_based,
            batch_first,
            input_size=input_size,
            hidden_size=hidden_size,
            num_layers=num_layers,
            bias=bias,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
        )

    @property
    def rnn(self) -> nn.RNNBase:
        """The GRU."""
        return self.gru
