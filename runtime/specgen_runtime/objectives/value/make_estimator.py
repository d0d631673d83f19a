"""Makes a value estimator from the arguments of `LossModule.make_value_estimator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

import torch
from torch import nn

from specgen_runtime.objectives.value.base import ValueEstimatorBase
from specgen_runtime.objectives.value.gae import GAE, MultiAgentGAE
from specgen_runtime.objectives.value.kinds import ValueEstimators
from specgen_runtime.objectives.value.td import TD0Estimator, TD1Estimator, TDLambdaEstimator
from specgen_runtime.objectives.value.vtrace import VTrace

EstimatorType: TypeAlias = ValueEstimators | type[ValueEstimatorBase]

_ESTIMATORS: dict[ValueEstimators, type[ValueEstimatorBase]] = {
    ValueEstimators.TD0: TD0Estimator,
    ValueEstimators.TD1: TD1Estimator,
    ValueEstimators.TDLambda: TDLambdaEstimator,
    ValueEstimators.GAE: GAE,
    ValueEstimators.MAGAE: MultiAgentGAE,
    ValueEstimators.VTrace: VTrace,
}
_ONE_DISCOUNT: dict[str, Any] = {"gamma": 0.99, "differentiable": True}
_TWO_DISCOUNTS: dict[str, Any] = {**_ONE_DISCOUNT, "lmbda": 0.95}
_DEFAULTS: dict[type[ValueEstimatorBase], dict[str, Any]] = {
    TD0Estimator: _ONE_DISCOUNT,
    TD1Estimator: _ONE_DISCOUNT,
    TDLambdaEstimator: _TWO_DISCOUNTS,
    GAE: _TWO_DISCOUNTS,
    MultiAgentGAE: _TWO_DISCOUNTS,
    VTrace: _ONE_DISCOUNT,
}


def make_estimator(
    value_type: EstimatorType | ValueEstimatorBase | Enum | str | None,
    hyperparams: Mapping[str, Any],
    *,
    supported: Sequence[ValueEstimators] | None,
    actor: nn.Module | None,
    device: torch.device | None,
    owner: str,
) -> tuple[ValueEstimatorBase, EstimatorType]:
    """The estimator and its type; see `LossModule.make_value_estimator` for arguments and errors.

    Args:
        value_type: what was asked for.
        hyperparams: over the estimator's defaults.
        supported: the estimators that the loss supports; empty for all, None if it has none.
        actor: the policy for estimators that weigh actions, unless the hyper-parameters name one.
        device: of the hyper-parameters, unless they name one.
        owner: the name of the loss, for messages.
    """
    if supported is None:
        raise NotImplementedError(f"{owner} has no value estimator: its targets are computed without one")
    if isinstance(value_type, Enum) and not isinstance(value_type, ValueEstimators):
        value_type = value_type.name  # TorchRL's have these names
    if isinstance(value_type, str):
        value_type = ValueEstimators.named(value_type)
    if isinstance(value_type, type) and issubclass(value_type, ValueEstimatorBase):
        return _built(value_type, hyperparams, actor, device), value_type
    if isinstance(value_type, ValueEstimatorBase):
        if hyperparams:
            raise TypeError("hyper-parameters cannot be given together with an estimator, which has its own")
        return value_type, type(value_type)
    if isinstance(value_type, ValueEstimators):
        kinds = list(supported or _ESTIMATORS)
        if value_type not in kinds:
            raise NotImplementedError(
                f"{owner} does not support {value_type.name}; it supports {', '.join(kind.name for kind in kinds)}"
            )
        return _built(_ESTIMATORS[value_type], hyperparams, actor, device), value_type
    raise TypeError(f"{owner} has no value estimator of type {value_type!r}")


def _built(
    estimator: type[ValueEstimatorBase],
    hyperparams: Mapping[str, Any],
    actor: nn.Module | None,
    device: torch.device | None,
) -> ValueEstimatorBase:
    policy = {"actor_network": actor} if issubclass(estimator, VTrace) else {}
    return estimator(**{"device": device, **policy, **_DEFAULTS.get(estimator, {}), **hyperparams})
