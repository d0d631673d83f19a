"""TorchRL's public names for losses and value estimators: where they are here, the methods of each, and what is not there."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest
import specgen_runtime.objectives
import specgen_runtime.objectives.value
import specgen_runtime.objectives.value.functional
import specgen_std.losses
from tensordict.nn import TensorDictModuleBase
from torch import nn

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

MODULES = ("torchrl.objectives", "torchrl.objectives.value", "torchrl.objectives.value.functional")
HERE = (
    specgen_runtime.objectives,
    specgen_runtime.objectives.value,
    specgen_runtime.objectives.value.functional,
    specgen_std.losses,
)

OF_WORLD_MODELS = {
    "DreamerActorLoss",
    "DreamerModelLoss",
    "DreamerV3ActorLoss",
    "DreamerV3Loss",
    "DreamerV3ModelLoss",
    "DreamerV3ValueLoss",
    "DreamerValueLoss",
    "ExponentialQuadraticCost",
    "WorldModelLoss",
    "categorical_kl_balanced",
    "categorical_kl_terms",
    "symexp",
    "symlog",
    "two_hot_cross_entropy",
    "two_hot_decode",
    "two_hot_encode",
}
"""Their actors learn from rollouts within the loss (docs/losses.md)."""

STEP_BY_STEP = {"ACTLoss", "DiffusionBCLoss"}
"""Whose networks are run step by step (docs/losses.md)."""

OTHERWISE = {
    "AUTO_LOSS_MASK_KEYS": "`loss_mask_key`",
    "TD0Estimate": "`TD0Estimator`, an old name",
    "TD1Estimate": "`TD1Estimator`, an old name",
    "TDLambdaEstimate": "`TDLambdaEstimator`, an old name",
    "default_value_kwargs": "the defaults of `make_value_estimator`",
    "next_state_value": "`td0_return_estimate`, with the value of the next state",
}
"""What is said in another way."""

OPEN = {"KLAdaptiveLR"}
"""What is not there."""

NO_METHODS = {
    "CrossQLoss": {"get_action_spec", "maybe_init_target_entropy"},
    "DiscreteIQLLoss": {"loss_value_diff"},
    "IQLLoss": {"loss_value_diff"},
    "SACLoss": {"qvalue_v1_loss"},
    "TQCLoss": {"compute_target", "qvalue_v1_loss", "value_loss"},
}
"""Methods that take something else than data, or serve another method there (docs/losses.md)."""

ANYWHERE = {"SEP", "SUPPORTED_VALUE_ESTIMATORS", "TARGET_NET_WARNING", "device", "target_entropy_buffer"}
"""Constants of theirs, and what a part of their losses says of itself: parameters have devices, buffers their own names."""


def names() -> dict[str, Any]:
    pytest.importorskip("torchrl")
    found: dict[str, Any] = {}
    for path in MODULES:
        module = importlib.import_module(path)
        listed = getattr(module, "__all__", None) or [
            name for name in vars(module) if not name.startswith("_")
        ]
        found |= {name: value for name in listed if not inspect.ismodule(value := getattr(module, name))}
    return found


def here(name: str) -> Any:
    return next((getattr(module, name) for module in HERE if hasattr(module, name)), None)


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_names() -> None:
    missing = {name for name in names() if here(name) is None}
    assert missing == OF_WORLD_MODELS | STEP_BY_STEP | OTHERWISE.keys() | OPEN


def test_methods_of_losses() -> None:
    """Those of instances, too, such as `delay_actor`."""
    losses = pytest.importorskip("torchrl.objectives")
    known = public(nn.Module) | public(TensorDictModuleBase) | ANYWHERE
    lacking = {}
    for name, theirs in names().items():
        if inspect.isclass(theirs) and issubclass(theirs, losses.LossModule) and here(name) is not None:
            missing = public(theirs) - public(here(name)) - known
            if missing := {one for one in missing if not one.startswith("delay_")}:
                lacking[name] = missing
    assert lacking == NO_METHODS


def test_keywords_of_functions() -> None:
    lacking = {}
    for name, theirs in names().items():
        ours = here(name)
        if inspect.isfunction(theirs) and inspect.isfunction(ours):
            wanted, known = (inspect.signature(one).parameters for one in (theirs, ours))
            if missing := wanted.keys() - known.keys():
                lacking[name] = missing
    # the first two are called `prediction` and `target`; shapes are always compared
    assert lacking == {"distance_loss": {"strict_shape", "v1", "v2"}}
