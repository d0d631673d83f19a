"""`LSTMCell` and `GRUCell`: cells as torch has them, which can also be compiled and mapped."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from specgen_runtime.envs.traced import is_traced
from specgen_runtime.modules.recurrent.steps import gru_state, lstm_states

__all__ = ["GRUCell", "LSTMCell"]


class LSTMCell(nn.LSTMCell):
    """`torch.nn.LSTMCell`, in plain operations where torch compiles or maps, which torch can't do with its own.

    Arguments, parameters and results are those of `torch.nn.LSTMCell`.

    Example:
        >>> cell = LSTMCell(3, 5)
        >>> h, c = torch.vmap(lambda x: cell(x))(torch.zeros(4, 2, 3))
        >>> h.shape
        torch.Size([4, 2, 5])
    """

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The states after a step.

        Args:
            input: `(features,)` or `(n_rows, features)`.
            hx: the states before, each `(size,)` or `(n_rows, size)`. None: zeros.

        Raises:
            ValueError: inputs or states of more dimensions, or of none.
        """
        if not is_traced():
            return super().forward(input, hx)
        h, c = (_zeros(self, input),) * 2 if hx is None else hx
        _check_ranks(self, input=input, h=h, c=c)
        return lstm_states(_of_input(self, input) + _of_state(self, h), c)


class GRUCell(nn.GRUCell):
    """`torch.nn.GRUCell`, in plain operations where torch compiles or maps, which torch can't do with its own.

    Arguments, parameters and results are those of `torch.nn.GRUCell`.
    """

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The state after a step.

        Args:
            input: `(features,)` or `(n_rows, features)`.
            hx: the state before, `(size,)` or `(n_rows, size)`. None: zeros.

        Raises:
            ValueError: an input or a state of more dimensions, or of none.
        """
        if not is_traced():
            return super().forward(input, hx)
        h = _zeros(self, input) if hx is None else hx
        _check_ranks(self, input=input, hx=h)
        return gru_state(_of_input(self, input), _of_state(self, h), h)


def _zeros(cell: nn.RNNCellBase, input: Tensor) -> Tensor:
    return input.new_zeros(*input.shape[:-1], cell.hidden_size)


def _of_input(cell: nn.RNNCellBase, input: Tensor) -> Tensor:
    return functional.linear(input, cell.weight_ih, _bias(cell.bias_ih))


def _of_state(cell: nn.RNNCellBase, h: Tensor) -> Tensor:
    return functional.linear(h, cell.weight_hh, _bias(cell.bias_hh))


def _bias(bias: Any) -> Tensor | None:
    """The parameter of a cell, which is None with `bias=False`."""
    found: Tensor | None = bias
    return found


def _check_ranks(cell: nn.RNNCellBase, **given: Tensor) -> None:
    for name, value in given.items():
        if value.ndim not in (1, 2):
            raise ValueError(
                f"{type(cell).__name__}: {name} has one dimension or two, got shape {list(value.shape)}"
            )
