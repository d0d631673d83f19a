"""Adam and the clipping of gradients as torch computes them, without what torch does around the kernels.

At each step torch looks for hooks and sorts parameters by device and dtype. For networks of a few thousand parameters that takes
longer than the arithmetic. Here it is left out where it changes nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import optimizer as torch_optimizer

__all__ = ["Adam", "AdamW", "clip_grad_norm_"]


class _Columns(NamedTuple):
    """A group, what belongs to each of its parameters that have gradients, and the numbers of their steps in one tensor."""

    group: dict[str, Any]
    parameters: list[Tensor]
    gradients: list[Tensor]
    means: list[Tensor]
    squares: list[Tensor]
    steps: list[Tensor]
    counter: Tensor


class _LeanSteps(torch.optim.Adam):
    """The steps of `Adam` and `AdamW`."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        if not set_to_none:
            super().zero_grad(set_to_none=False)
            return
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a step; see `torch.optim.Adam.step`."""
        columns = None if closure is not None else self._columns()
        if columns is None:
            whole: Any = torch.optim.Adam.step
            if not getattr(
                whole, "hooked", False
            ):  # torch adds the calls of hooks when the first Adam is made
                whole = self.profile_hook_step(whole)
            return whole(self) if closure is None else whole(self, closure)
        with torch.no_grad():
            for group, parameters, gradients, means, squares, steps, counter in columns:
                counter.add_(1)
                kernel = torch._fused_adamw_ if group["decoupled_weight_decay"] else torch._fused_adam_
                beta1, beta2 = group["betas"]
                kernel(
                    parameters, gradients, means, squares, [], steps, lr=group["lr"], beta1=beta1, beta2=beta2,
                    weight_decay=group["weight_decay"], eps=group["eps"], amsgrad=False, maximize=group["maximize"],
                )  # fmt: skip
        return None

    step.hooked = True  # type: ignore[attr-defined]  # torch is not to wrap it

    def _columns(self) -> list[_Columns] | None:
        """What the kernels are called with; None if a step is more than that, or there is no state yet."""
        own, states = vars(self), self.state
        if (
            own["_optimizer_step_pre_hooks"]
            or own["_optimizer_step_post_hooks"]
            or torch_optimizer._global_optimizer_pre_hooks
            or torch_optimizer._global_optimizer_post_hooks
            or "grad_scale" in own  # a GradScaler asks for the step
            or torch.compiler.is_compiling()
        ):
            return None
        found: list[_Columns] = []
        for index, group in enumerate(self.param_groups):
            if not _is_usual(group):
                return None
            trained, gradients = _with_gradients(group["params"])
            if not trained:
                continue
            kept: list[Any] = [states.get(parameter) for parameter in trained]
            if not all(kept) or not _are_alike([*trained, *gradients]):
                return None
            means = [each["exp_avg"] for each in kept]
            squares = [each["exp_avg_sq"] for each in kept]
            counted = self._steps(index, kept)
            if counted is None:
                return None
            counter, steps = counted
            found.append(_Columns(group, trained, gradients, means, squares, steps, counter))
        return found

    def _init_group(
        self,
        group: dict[str, Any],
        params_with_grad: list[Tensor],
        grads: list[Tensor],
        exp_avgs: list[Tensor],
        exp_avg_sqs: list[Tensor],
        max_exp_avg_sqs: list[Tensor],
        state_steps: list[Tensor],
    ) -> bool:
        """What torch's own step takes of a group, laid out as its fused kernel needs it: that walks through memory.

        Gradients and state in another layout than their parameter's are copied into its own. There is none to walk
        through where a parameter has gaps in memory: from then on its group is trained without that kernel.
        """
        found: bool = super()._init_group(  # type: ignore[no-untyped-call]
            group, params_with_grad, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps
        )
        if not group["fused"]:
            return found
        columns = [each for each in (grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs) if each]
        for index, (parameter, *others) in enumerate(zip(params_with_grad, *columns, strict=True)):
            strides = parameter.stride()
            if torch.empty_like(parameter).stride() != strides:
                group["fused"] = False
            elif any(each.stride() != strides for each in others):
                state = self.state[parameter]
                for column in columns:
                    column[index] = torch.empty_like(parameter).copy_(column[index])
                for name, column in zip(
                    ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"), columns[1:], strict=False
                ):
                    state[name] = column[index]
                vars(self).pop("_counters", None)
        return found

    def _steps(self, index: int, kept: Sequence[dict[str, Any]]) -> tuple[Tensor, list[Tensor]] | None:
        """The numbers of steps of parameters of a group as one tensor, and as views of it, which are in their states.

        Others may change the views, as torch's own step does, or replace them, as a state does that is loaded. None
        if such a state is not contiguous.
        """
        counters: dict[int, tuple[Tensor, list[Tensor]]] = vars(self).setdefault("_counters", {})
        steps = [each["step"] for each in kept]
        if index in counters:
            counter, views = counters[index]
            if len(views) == len(steps) and all(map(operator.is_, views, steps)):
                return counter, views
        if not all(each[name].is_contiguous() for each in kept for name in ("exp_avg", "exp_avg_sq")):
            return None
        counter = torch.stack(steps)
        views = [counter[i] for i in range(len(steps))]
        for each, view in zip(kept, views, strict=True):
            each["step"] = view
        counters[index] = counter, views
        return counter, views


class Adam(_LeanSteps):
    """`torch.optim.Adam` with its fused kernel: the same numbers and state, for small networks in half the time.

    Hooks, closures and a `GradScaler` work as with torch's.

    Args:
        params: what is trained, or groups of it.
        lr: the step size.
        betas: how much of the means of gradients and of their squares stays at each step.
        eps: is added to the square root of the mean of squares.
        weight_decay: how much of each parameter is added to its gradient.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, fused=True)


class AdamW(_LeanSteps):
    """`torch.optim.AdamW` with its fused kernel: as `Adam`, but parameters decay by themselves.

    Args:
        params: what is trained, or groups of it.
        lr: the step size.
        betas: how much of the means of gradients and of their squares stays at each step.
        eps: is added to the square root of the mean of squares.
        weight_decay: how much of each parameter, times `lr`, is taken away at each step.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, fused=True, decoupled_weight_decay=True)


def clip_grad_norm_(parameters: Sequence[nn.Parameter], max_norm: float) -> Tensor:
    """Scale gradients down so that their norm, of all together, is `max_norm` at most.

    What `torch.nn.utils.clip_grad_norm_` does, in half the time for small networks.

    Args:
        parameters: whose gradients change in place; those without are left out.
        max_norm: the norm.

    Returns:
        The norm that they had, a scalar tensor.
    """
    _, gradients = _with_gradients(parameters)
    if not gradients or not _are_alike(gradients):
        return nn.utils.clip_grad_norm_(parameters, max_norm)
    with torch.no_grad():
        norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


def _with_gradients(parameters: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Those of some parameters that have gradients, and these."""
    trained: list[Tensor] = []
    gradients: list[Tensor] = []
    for parameter in parameters:
        if (gradient := parameter.grad) is not None:
            trained.append(parameter)
            gradients.append(gradient)
    return trained, gradients


def _is_usual(group: dict[str, Any]) -> bool:
    """Whether the fused kernel is all that a step of a group is."""
    return (
        bool(group["fused"])
        and not (group["amsgrad"] or group["capturable"] or group["differentiable"])
        and type(group["lr"]) is float
        and type(group["betas"][0]) is float
        and type(group["betas"][1]) is float
    )


def _are_alike(tensors: Sequence[Tensor]) -> bool:
    """Whether tensors are contiguous, and of one device and dtype."""
    device, dtype, strided, plain = tensors[0].device, tensors[0].dtype, torch.strided, nn.Parameter
    on_cpu = device.type == "cpu"
    if not on_cpu and device.type != "cuda":
        return False
    for each in tensors:  # at each update of a training: a generator would cost half as much again
        kind = type(each)
        if not (
            (kind is plain or kind is Tensor)
            and each.dtype is dtype
            and (each.is_cpu if on_cpu else each.device == device)
            and each.layout is strided
            and each.is_contiguous()
        ):
            return False
    return True
