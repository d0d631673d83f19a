"""What recurrent networks compute, by torch's kernels or step by step, from the parameters of any LSTM or GRU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

States: TypeAlias = tuple[Tensor, ...]
_Step: TypeAlias = Callable[[Tensor, States], States]


def run_steps(
    rnn: nn.RNNBase,
    inputs: Tensor,
    states: States,
    starts: Tensor | None = None,
    resets: States | None = None,
) -> tuple[Tensor, States]:
    """What a recurrent network computes of sequences, and its states after each step.

    Args:
        rnn: an LSTM or a GRU.
        inputs: shape `(n_rows, time, features)`.
        states: before the first step, each of shape `(n_rows, num_layers, size)`.
        starts: bool, shape `(n_rows, time)`: steps before which the state is replaced. None: none.
        resets: the states that replace it, each of shape `(n_rows, time, num_layers, size)`. None: zeros.

    Returns:
        The output, `(n_rows, time, size)`, and the states after each step, each of shape
        `(n_rows, time, num_layers, size)`.

    Raises:
        ValueError: the network reads sequences in both directions.
    """
    if rnn.bidirectional:
        raise ValueError("networks of both directions can't be computed step by step: bidirectional=False")
    kept: list[list[Tensor]] = [[] for _ in states]
    value = inputs
    for layer in range(rnn.num_layers):
        of_input, step = _layer(rnn, layer)
        state = tuple(s[:, layer] for s in states)
        after: list[States] = []
        for t, x in enumerate(of_input(value).unbind(1)):
            if starts is not None:
                begins = starts[:, t].unsqueeze(-1)
                state = tuple(
                    torch.where(begins, torch.zeros_like(s) if resets is None else resets[i][:, t, layer], s)
                    for i, s in enumerate(state)
                )
            state = step(x, state)
            after.append(state)
        for of_kind, over_time in zip(kept, zip(*after, strict=True), strict=True):
            of_kind.append(torch.stack(over_time, 1))
        value = kept[0][-1]
        if rnn.dropout and layer < rnn.num_layers - 1:
            value = functional.dropout(value, rnn.dropout, rnn.training)
    return value, tuple(torch.stack(of_kind, 2) for of_kind in kept)


def _layer(rnn: nn.RNNBase, layer: int) -> tuple[Callable[[Tensor], Tensor], _Step]:
    """What a layer computes of all inputs at once, and its step from that and the states."""

    def weight(name: str, used: bool = True) -> Any:
        return getattr(rnn, f"{name}_l{layer}") if used else None

    of_input, of_state = weight("weight_ih"), weight("weight_hh")
    input_bias, state_bias = weight("bias_ih", rnn.bias), weight("bias_hh", rnn.bias)
    projection = weight("weight_hr", rnn.proj_size > 0)

    def project(inputs: Tensor) -> Tensor:
        return functional.linear(inputs, of_input, input_bias)

    def lstm_step(x: Tensor, state: States) -> States:
        h, c = lstm_states(x + functional.linear(state[0], of_state, state_bias), state[1])
        return (h if projection is None else functional.linear(h, projection)), c

    def gru_step(x: Tensor, state: States) -> States:
        (h,) = state
        return (gru_state(x, functional.linear(h, of_state, state_bias), h),)

    return project, lstm_step if rnn.mode == "LSTM" else gru_step


def lstm_states(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The states of an LSTM after a step.

    Args:
        gates: the sum of the products with the input and with the state, `(…, 4 * size)`.
        c: the cell's state before, `(…, size)`.
    """
    into, forget, new, out = gates.chunk(4, -1)
    c = forget.sigmoid() * c + into.sigmoid() * new.tanh()
    return out.sigmoid() * c.tanh(), c


def gru_state(of_input: Tensor, of_state: Tensor, h: Tensor) -> Tensor:
    """The state of a GRU after a step.

    Args:
        of_input: the products with the input, `(…, 3 * size)`.
        of_state: those with the state, of the same shape.
        h: the state before, `(…, size)`.
    """
    x_reset, x_update, x_new = of_input.chunk(3, -1)
    h_reset, h_update, h_new = of_state.chunk(3, -1)
    new = (x_new + (x_reset + h_reset).sigmoid() * h_new).tanh()
    return new + (x_update + h_update).sigmoid() * (h - new)


def state_sizes(rnn: nn.RNNBase) -> tuple[int, ...]:
    """The last dimension of each of a network's states."""
    return (rnn.proj_size or rnn.hidden_size, rnn.hidden_size) if rnn.mode == "LSTM" else (rnn.hidden_size,)


def zero_states(rnn: nn.RNNBase, rows: Tensor) -> States:
    """Zeros as the states of each of `len(rows)` rows, `(n_rows, n_layers, size)`."""
    layers = rnn.num_layers * (2 if rnn.bidirectional else 1)
    weight: Any = rnn.weight_ih_l0
    return tuple(weight.new_zeros(rows.shape[0], layers, size) for size in state_sizes(rnn))


def run_kernel(rnn: nn.RNNBase, inputs: Tensor, states: States) -> tuple[Tensor, States]:
    """What a recurrent network computes of sequences by torch's kernel, and its states after the last step.

    Args:
        rnn: an LSTM or a GRU.
        inputs: shape `(n_rows, time, features)`.
        states: before the first step, each of shape `(n_rows, n_layers, size)`.

    Returns:
        The output, `(n_rows, time, size)`, and the states, each of shape `(n_rows, n_layers, size)`.
    """
    weights = [getattr(rnn, name) for name in rnn._flat_weights_names]
    before = [state.transpose(0, 1).contiguous() for state in states]
    # One function for each kind, which takes all states of an LSTM and the only one of a GRU.
    kernel: Any = torch.lstm if rnn.mode == "LSTM" else torch.gru
    output, *after = kernel(
        inputs,
        before if rnn.mode == "LSTM" else before[0],
        weights,
        rnn.bias,
        rnn.num_layers,
        rnn.dropout,
        rnn.training,
        rnn.bidirectional,
        True,
    )
    return output, tuple(state.transpose(0, 1) for state in after)
