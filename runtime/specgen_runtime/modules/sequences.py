"""Sequences of tensordict modules whose calls cost little beside those of their modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tensordict import is_tensor_collection
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
    dispatch,
    set_interaction_type,
    set_skip_existing,
)
from tensordict.nn.probabilistic import interaction_type
from torch import nn

from specgen_runtime.plain_calls import TensorFunction, is_ordinary_call, is_plain, of_tensors, run


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

    def tensor_function(self) -> TensorFunction | None:
        """What the sequence makes of tensors; None where it, or one of its modules, has to see a tensordict."""
        modules = self._in_order()
        if modules is None or type(self).forward not in _FORWARDS or not is_plain(self):
            return None
        functions = [_function_of(module) for module in modules]
        return None if None in functions else self._composed([one for one in functions if one is not None])

    def _composed(self, functions: list[TensorFunction]) -> TensorFunction:
        """Functions that are called one after the other, as one."""
        written = tuple(dict.fromkeys(key for one in functions for key in one.out_keys))
        known: set[Any] = set()
        reads: dict[Any, None] = {}
        for one in functions:
            reads |= dict.fromkeys(key for key in one.in_keys if key not in known)
            known.update(one.out_keys)
        steps = [(one.in_keys, one.out_keys, one.call) for one in functions]

        def call(*given: Any) -> tuple[Any, ...]:
            values = dict(zip(reads, given, strict=True))
            for in_keys, out_keys, function in steps:
                results = function(*[values[key] for key in in_keys])
                values.update(zip(out_keys, results, strict=True))
            return tuple([values[key] for key in written])

        return TensorFunction(tuple(reads), written, call)


class PlainProbabilisticSequence(PlainSequence, ProbabilisticTensorDictSequential):  # type: ignore[misc]
    """As `PlainSequence`, of a `tensordict.nn.ProbabilisticTensorDictSequential`.

    Modules in front of the last see the interaction type that the last one has, as in tensordict.
    """

    def forward(self, tensordict: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Write what the modules write, and a draw from the distribution at the end."""
        modules = self._in_order()
        if modules is None or not is_ordinary_call(tensordict, args or kwargs):
            given = () if tensordict is None else (tensordict,)
            sums = modules is not None and getattr(modules[-1], "sums_parts", False)
            if sums and not is_tensor_collection(tensordict) and "tensordict_out" not in kwargs:
                return self._of_tensors(*given, *args, **kwargs)
            return ProbabilisticTensorDictSequential.forward(self, *given, *args, **kwargs)
        *front, last = modules
        return last(_run_front(front, last, tensordict))

    @dispatch(auto_batch_size=False)  # type: ignore[untyped-decorator]
    @set_skip_existing(None)  # type: ignore[untyped-decorator]
    def _of_tensors(self, tensordict: Any) -> Any:
        """`forward` of tensors, whose tensordict has no batch: rows are what the parts of a composite at the end share."""
        modules = self._in_order()
        assert modules is not None  # `forward` has asked
        *front, last = modules
        tensordict = _run_front(front, last, tensordict)
        rows = last.rows_of_parts(tensordict)
        if all(value.shape[: len(rows)] == rows for value in tensordict.values(True, True)):
            tensordict.batch_size = rows
        return last(tensordict)

    def _in_order(self) -> list[Any] | None:
        """As of `PlainSequence`, if a distribution is at the end, which is drawn from."""
        modules = super()._in_order()
        if not modules or not self._requires_sample or self.return_composite:
            return None
        return modules if isinstance(modules[-1], ProbabilisticTensorDictModule) else None

    def _composed(self, functions: list[TensorFunction]) -> TensorFunction:
        whole, default = super()._composed(functions), self._in_order()[-1].default_interaction_type  # type: ignore[index]

        def call(*given: Any) -> tuple[Any, ...]:
            if interaction_type() is not None:
                return whole.call(*given)
            with set_interaction_type(default):
                return whole.call(*given)

        return TensorFunction(whole.in_keys, whole.out_keys, call)


_FORWARDS = (PlainSequence.forward, PlainProbabilisticSequence.forward)
"""What sequences do that call their modules one after the other."""


def _function_of(module: Any) -> TensorFunction | None:
    """A module of a sequence as a function of tensors; None where it has to see a tensordict."""
    if type(module) is TensorDictModule:
        return of_tensors(module)
    function: Callable[[], TensorFunction | None] | None = getattr(module, "tensor_function", None)
    return None if function is None else function()


def _run_front(front: Iterable[nn.Module], last: Any, tensordict: Any) -> Any:
    """What the modules in front of the last write, who see the interaction type that it has."""
    if interaction_type() is not None:
        return _run_all(front, tensordict)
    with set_interaction_type(last.default_interaction_type):
        return _run_all(front, tensordict)


def _run_all(modules: Iterable[nn.Module], tensordict: Any) -> Any:
    for at, module in enumerate(modules):
        try:
            tensordict = run(module, tensordict)
        except Exception as error:
            error.add_note(f"Failed while executing module '{at}'.")
            raise
    return tensordict
