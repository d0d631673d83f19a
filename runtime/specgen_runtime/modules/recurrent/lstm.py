"""`LSTMModule`: an LSTM that reads single steps or sequences of tensordicts."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from specgen_runtime.modules.recurrent.base import Backend, RecurrentModule
from specgen_runtime.modules.recurrent.networks import LSTM, make_rnn
from specgen_runtime.typing import DEVICE_TYPING, NestedKey


class LSTMModule(RecurrentModule):
    """An LSTM for policies and values: one step at a time while data are collected, whole sequences for losses.

    Reads an input of shape `(*batch, input_size)`, two states of shape `(*batch, num_layers, size)` (`h` and `c`), which
    may be missing where they are zeros, and `is_init`, bool of shape `(*batch, 1)` or `(*batch,)`, which `InitTracker`
    writes. Writes the output, `(*batch, hidden_size)`, and the next states.

    Outside recurrent mode each call is one step of all rows, from zeros where `is_init` is true. In recurrent mode (see
    `set_recurrent_mode`, which losses turn on) the last dimension of the batch is time, and rows may hold several
    trajectories behind each other: each begins with the states that are stored at its first step.

    Args:
        input_size: size of the input's last dimension.
        hidden_size: size of the state `c`, and of `h` and the output unless `proj_size` is given.
        num_layers: LSTMs, each of which reads the output of the one before.
        bias: whether there are biases.
        batch_first: True, as time is behind the rows.
        dropout: between layers, in training.
        proj_size: project `h` to this size; 0: don't.
        bidirectional: read sequences from both ends.
        python_based: always compute step by step.
        recurrent_backend: `"pad"` and `"auto"` use torch's kernels, on parts of equal lengths where trajectories begin within
            rows, and go step by step where torch compiles or maps; `"scan"` always goes step by step.
        in_key: of the input; states are `"recurrent_state_h"` and `"recurrent_state_c"`, and `"is_init"`.
        in_keys: instead: of the input and the states, and of `is_init` if it is not `"is_init"`.
        out_key: of the output; the next states are the same under `"next"`.
        out_keys: instead: of the output and the states.
        device: of the parameters.
        lstm: an LSTM that exists, with `batch_first=True`; one of `torch.nn` can't be compiled.
        default_recurrent_mode: whether to read sequences outside any `set_recurrent_mode`.
        agents: how many agents a group has, where inputs, states and outputs are of each: their dimension stands behind the
            batch. Each has a state of its own, and all share the parameters; `is_init` is of the batch.

    Raises:
        ValueError: sizes are missing, or given with `lstm`; keys are missing, given twice, or not as many as needed;
            options that exclude each other.

    Example:
        >>> module = LSTMModule(3, 8, in_key="observation", out_key="features")
        >>> data = TensorDict({"observation": torch.zeros(4, 3), "is_init": torch.ones(4, 1, dtype=torch.bool)}, [4])
        >>> module(data)["next", "recurrent_state_h"].shape
        torch.Size([4, 1, 8])
    """

    _states = ("recurrent_state_h", "recurrent_state_c")

    def __init__(
        self,
        input_size: int | None = None,
        hidden_size: int | None = None,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        proj_size: int = 0,
        bidirectional: bool = False,
        python_based: bool = False,
        recurrent_backend: Backend = "pad",
        *,
        in_key: NestedKey | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        device: DEVICE_TYPING | None = None,
        lstm: nn.RNNBase | None = None,
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
        self.lstm: nn.RNNBase = make_rnn(
            LSTM,
            lstm,
            python_based,
            batch_first,
            input_size=input_size,
            hidden_size=hidden_size,
            num_layers=num_layers,
            bias=bias,
            dropout=dropout,
            proj_size=proj_size,
            bidirectional=bidirectional,
            device=device,
        )

    @property
    def rnn(self) -> nn.RNNBase:
        """The LSTM."""
        return self.lstm
