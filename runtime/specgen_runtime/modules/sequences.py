"""Sequences of tensordict modules whose calls cost little beside those of their modules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictSequential,
    set_interaction_type,
)
from tensordict.nn.probabilistic import interaction_type
from torch import nn

from specgen_runtime.plain_calls import is_ordinary_call, run


class PlainSequence(TensorDictSequential):  # type: ignore[misc]
    """A `tensordict.nn.TensorDictSequential` whose modules are called one after the other, where that is all it does."""

    def forward(self, tensordict: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Write what the modules write, one after the other."""
        modules = self._in_order()
        if modules is None or not is_ordinary_call(tensordict, args or kwargs):
            given = () if tensordict is None else (tensordict,)
            return super().forward(*given, *args, **kwargs)
        return _run_all(modules, tensordict)

    def _in_order(self) -> list[Any] | None:
        """The modules, if all are called, in the tensordict itself, and all that they write stays there."""
        modules = self._modules["module"]
        if (
            self.inplace is not None
            or self.partial_tolerant
            or self._select_before_return
            or type(modules) is not nn.ModuleList
        ):
            return None
        return list(modules._modules.values())


class PlainProbabilisticSequence(PlainSequence, ProbabilisticTensorDictSequential):  # type: ignore[misc]
    """As `PlainSequence`, of a `tensordict.nn.ProbabilisticTensorDictSequential`.

    Modules in front of the last see the interaction type that the last one has, as in tensordict.
    """

    def forward(self, tensordict: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Write what the modules write, and a draw from the distribution at the end."""
        *front, last = self._in_order() or [None]
        if (
            not isinstance(last, ProbabilisticTensorDictModule)
            or not self._requires_sample
            or self.return_composite
            or not is_ordinary_call(tensordict, args or kwargs)
        ):
            given = () if tensordict is None else (tensordict,)
            return ProbabilisticTensorDictSequential.forward(self, *given, *args, **kwargs)
        if interaction_type() is None:
            with set_interaction_type(last.default_interaction_type):
                tensordict = _run_all(front, tensordict)
        else:
            tensordict = _run_all(front, tensordict)
        return last(tensordict)


def _run_all(modules: Iterable[nn.Module], tensordict: Any) -> Any:
    for at, module in enumerate(modules):
        try:
            tensordict = run(module, tensordict)
        except Exception as error:
            error.add_note(f"Failed while executing module '{at}'.")
            raise
    return tensordict
