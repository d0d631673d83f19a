"""`LSTM` and `GRU`: networks as torch has them, which can also be compiled and mapped."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from specgen_runtime.envs.traced import is_traced
from specgen_runtime.modules.recurrent.steps import States, run_kernel, run_steps, zero_states


class LSTM(nn.RNNBase):
    """`torch.nn.LSTM`, computed step by step where torch compiles or maps, which torch can't do with its own.

    Arguments, parameters and results are those of `torch.nn.LSTM`; inputs have three dimensions.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The output and the last states.

        Args:
            input: `(time, n_rows, features)`, or `(n_rows, time, features)` with `batch_first`.
            hx: the states before the first step, each `(num_layers, n_rows, size)`. None: zeros.

        Raises:
            ValueError: inputs with more or fewer than three dimensions.
        """
        output, (h, c) = _run(self, input, hx)
        return output, (h, c)


class GRU(nn.RNNBase):
    """`torch.nn.GRU`, computed step by step where torch compiles or maps, which torch can't do with its own.

    Arguments, parameters and results are those of `torch.nn.GRU`; inputs have three dimensions.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The output and the last state.

        Args:
            input: `(time, n_rows, features)`, or `(n_rows, time, features)` with `batch_first`.
            hx: the state before the first step, `(num_layers, n_rows, size)`. None: zeros.

        Raises:
            ValueError: inputs with more or fewer than three dimensions.
        """
        output, (h,) = _run(self, input, None if hx is None else (hx,))
        return output, h


def _run(rnn: nn.RNNBase, inputs: Tensor, states: States | None) -> tuple[Tensor, States]:
    """The output and the last states of sequences, laid out as torch's classes do."""
    if inputs.ndim != 3:
        raise ValueError(
            f"{type(rnn).__name__} reads inputs of three dimensions, got shape {tuple(inputs.shape)}"
        )
    rows = inputs if rnn.batch_first else inputs.transpose(0, 1)
    before = zero_states(rnn, rows) if states is None else tuple(state.transpose(0, 1) for state in states)
    if is_traced():
        output, after = run_steps(rnn, rows, before)
        last = tuple(state[:, -1] for state in after)
    else:
        output, last = run_kernel(rnn, rows, before)
    return output if rnn.batch_first else output.transpose(0, 1), tuple(
        state.transpose(0, 1) for state in last
    )


def make_rnn(
    kind: type[LSTM] | type[GRU],
    given: nn.RNNBase | None,
    python_based: bool,
    batch_first: bool,
    **options: Any,
) -> nn.RNNBase:
    """The network that was given, or one made of options.

    Args:
        kind: the class to make.
        given: None to make one.
        python_based: step by step.
        batch_first: must be true; time is behind the rows in tensordicts.
        options: of the network's constructor.

    Raises:
        ValueError: a network and its sizes are given, or neither; time stands first; step by step in both directions.
    """
    sizes = {name: options[name] for name in ("input_size", "hidden_size")}
    if given is not None:
        if any(size is not None for size in sizes.values()):
            raise ValueError(
                f"a {kind.__name__} that exists has its sizes; input_size and hidden_size make one"
            )
        if not given.batch_first:
            raise ValueError(f"the {kind.__name__} must have batch_first=True: time is behind the rows")
        return given
    if any(not size for size in sizes.values()):
        raise ValueError(f"a {kind.__name__} needs input_size and hidden_size, got {sizes}")
    if not batch_first:
        raise ValueError("batch_first must be True: time is behind the rows")
    if python_based and options["bidirectional"]:
        raise ValueError("python_based networks read sequences in one direction: bidirectional=False")
    return kind(batch_first=True, **options)
