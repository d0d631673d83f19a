"""`Backward`: the loss of an update and its gradients, which torch may compile together."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.params import wrong_type
from specgen_runtime.random_state import drawing_from
from specgen_runtime.reported import ReportedError

__all__ = ["Backward", "NotCompiledError", "check_compiler"]

P = ParamSpec("P")
OutputT = TypeVar("OutputT", bound=TensorDictBase)

_TRACED = "trace_autograd_ops"
"""The setting of torch that lets gradients be computed within a graph."""


class NotCompiledError(ReportedError, RuntimeError):
    """Something that torch can't compile, or not on this machine."""


class Backward(Generic[P, OutputT]):
    """Calls a function that gives a loss, and leaves its gradients in the parameters of some optimizers.

    Compiled, the loss and its gradients are one graph, of the shapes of its data. Numbers are those of a call that is not
    compiled up to rounding, and so are draws. Another process makes the same graph, so that a resumed training goes on bit
    by bit.

    Args:
        function: from what it is called with to the loss, a scalar, and what is returned besides.
        optimizers: whose parameters get gradients: None where the loss does not depend on one, or one is frozen.
        generator: what the loss draws from; None for torch's default generator.
        compiled: whether torch compiles it, at the first call, and where a shape is new.
    """

    def __init__(
        self,
        function: Callable[P, tuple[Tensor, OutputT]],
        optimizers: Sequence[torch.optim.Optimizer],
        *,
        generator: torch.Generator | None = None,
        compiled: bool = False,
    ) -> None:
        self.function = function
        self.optimizers = optimizers
        self.generator = generator
        self.compiled = compiled
        self._graph = _compiled(function) if compiled else None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> OutputT:
        """Call the function, and write gradients over those that there are.

        Returns:
            What the function returns besides the loss, detached.

        Raises:
            NotCompiledError: torch can't compile the function, or not on this machine.
        """
        if self._graph is None:
            with drawing_from(self.generator):
                loss, outputs = self.function(*args, **kwargs)
            self._zero_grad()
            torch.autograd.backward(loss)
            detached: OutputT = outputs.detach()
            return detached
        parameters = [
            parameter
            for optimizer in self.optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.requires_grad  # others are frozen
        ]
        try:
            with drawing_from(self.generator):  # a graph can't change to another generator
                outputs, gradients = self._graph(parameters, *args, **kwargs)
        except Exception as error:
            if isinstance(error, _not_compiled()):
                raise NotCompiledError(_told(error)) from error
            raise
        self._zero_grad()
        _write(parameters, gradients)
        return outputs

    def _zero_grad(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad()


def check_compiler(name: str, value: bool, device: torch.device) -> None:
    """Refuse to compile where that can't be done.

    Args:
        name: the field of the configuration, for messages.
        value: whether to compile.
        device: where the loss is computed.

    Raises:
        TypeError: `value` is no truth value.
        NotCompiledError: this torch has no gradients in graphs, or this machine no compiler.
    """
    if not isinstance(value, bool):
        raise wrong_type(name, "a truth value", value)
    if not value:
        return
    from torch._dynamo import config

    if not hasattr(config, _TRACED):
        raise NotCompiledError(
            f"{name} is true, and torch {torch.__version__} compiles no gradients: take a later one"
        )
    if device.type == "cpu":
        from torch._inductor.cpp_builder import get_cpp_compiler
        from torch._inductor.exc import InvalidCxxCompiler

        try:
            get_cpp_compiler()
        except InvalidCxxCompiler:
            raise NotCompiledError(
                f"{name} is true, and torch finds no C++ compiler on this machine: install g++, or name one in CXX"
            ) from None


def _compiled(function: Callable[..., tuple[Tensor, Any]]) -> Callable[..., Any]:
    """The function and its gradients in one graph."""

    def whole(parameters: list[Tensor], *args: Any, **kwargs: Any) -> tuple[Any, list[Tensor | None]]:
        loss, outputs = function(*args, **kwargs)
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        gradients: list[Tensor | None] = [
            # laid out as its parameter, which fused optimizers take for granted
            None if gradient is None else torch.empty_like(parameter).copy_(gradient)
            for parameter, gradient in zip(parameters, found, strict=True)
        ]
        return outputs.detach(), gradients

    # Graphs are kept with the code of a function, so many of them at most: each of these has its own.
    whole.__code__ = whole.__code__.replace()
    setattr(torch._dynamo.config, _TRACED, True)
    # Shapes are not generalised, since one process would meet them in another order than the next; draws are torch's own.
    graph: Callable[..., Any] = torch.compile(
        whole, fullgraph=True, dynamic=False, options={"fallback_random": True}
    )
    return graph


def _write(parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
    """Let parameters have gradients, each its own: what is scaled in place is scaled once."""
    written: set[int] = set()
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is not None:
            place = gradient.data_ptr()
            if place in written:
                gradient = gradient.clone()
            written.add(place)
        parameter.grad = gradient


def _not_compiled() -> tuple[type[Exception], ...]:
    """What torch raises where it can't compile."""
    from torch._dynamo import exc

    return exc.TorchDynamoException, exc.FailOnRecompileLimitHit


_REASONS = (
    (r"raised exception (.+)", "it raises {}"),  # by the function itself
    (r": got (\w+\(.+\))", "it raises {}"),  # by torch, for what it is given
    (r"Explanation: (.+)", "{}"),
    (r"raised:\n(.+)", "{}"),  # by what makes the code
    (r"(.+)", "{}"),
)
"""Where what torch says of an error has the reason, and how that is told."""


def _told(error: Exception) -> str:
    """Why something can't be compiled, in a line."""
    from torch._dynamo import config, exc

    why = repr(error)
    if isinstance(error, exc.FailOnRecompileLimitHit):
        why = (
            f"it has {config.recompile_limit} graphs, the most that torch keeps, each for data of other shapes,"
            " or other numbers and flags beside them"
        )
    else:
        for pattern, text in _REASONS:
            if (found := re.search(pattern, str(error))) is not None:
                why = text.format(found[1].strip().rstrip("."))
                break
    return f"torch can't compile the loss and its gradients: {why}; train without `compile`"
