"""Policies as functions of tensors: what a rollout calls where nobody has to see a tensordict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensordict.nn import TensorDictModule
from tensordict.nn.utils import skip_existing
from torch import nn

from specgen_runtime.envs.layout import Layout
from specgen_runtime.envs.policy import note_inputs, observation_policy, takes_tensordict
from specgen_runtime.plain_calls import TensorFunction, flat_call, of_tensors

__all__ = ["flat_policy"]


def flat_policy(layout: Layout, policy: Any, trust_policy: bool) -> TensorFunction | None:
    """The policy as a function of tensors; None where it has to be given the tensordict.

    It writes the action, and perhaps more, such as its log-probability, but nothing that the environment writes.

    Args:
        layout: of an environment with one action, whose keys are flat.
        policy: as `rollout` takes it.
        trust_policy: whether it takes a tensordict, whatever it looks like.
    """
    (action,) = layout.action.keys
    if type(policy) is TensorDictModule or hasattr(policy, "tensor_function"):
        if skip_existing():
            return None
        function = of_tensors(policy) if type(policy) is TensorDictModule else policy.tensor_function()
        taken = {"next", *layout.observation.keys, *layout.done.keys}
        if function is None or action not in function.out_keys or not taken.isdisjoint(function.out_keys):
            return None
        flat = all(isinstance(key, str) for key in (*function.in_keys, *function.out_keys))
        return _noting(function) if flat else None
    if trust_policy or not isinstance(policy, nn.Module) or takes_tensordict(policy):
        return None
    observations, values_of = observation_policy(layout, policy)
    called: Callable[..., Any] = flat_call(policy)
    return _noting(TensorFunction(tuple(observations), (action,), lambda *values: values_of(called(*values))))


def _noting(function: TensorFunction) -> TensorFunction:
    """A policy that notes at its errors what it was called with."""

    def call(*values: Any) -> tuple[Any, ...]:
        try:
            return function.call(*values)
        except RuntimeError as error:
            note_inputs(error, function.in_keys, values)
            raise

    return TensorFunction(function.in_keys, function.out_keys, call)
