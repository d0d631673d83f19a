"""The parts of a printed training with TorchRL's loss in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from specgen_runtime.objectives import LossModule as OurLossModule
from torchrl.objectives import HardUpdate, LossModule, SoftUpdate


def parts_with(make: Callable[..., LossModule], parts: type[Any]) -> type[Any]:
    """A subclass of the parts whose losses, estimators and target updater are TorchRL's.

    Environment, networks, buffer and random streams stay. The loss begins with the numbers of ours, targets and members of
    ensembles too, and optimizers are torch's over its parameters.

    Args:
        make: from the parts, and the group of agents where there are several losses, to TorchRL's loss over the networks of
            the parts, with its value estimator.
        parts: the printed class.
    """

    class Parts(parts):  # type: ignore[misc]
        def __init__(self, config: Any = None) -> None:
            super().__init__(config)
            swapped: dict[int, torch.nn.Parameter] = {}
            for attribute, ours in list(vars(self).items()):
                if not isinstance(ours, OurLossModule):
                    continue
                group = attribute.removesuffix("loss").removesuffix("_")
                theirs = make(self, group) if group else make(self)
                missing = theirs.load_state_dict(ours.state_dict(), strict=False).missing_keys
                if missing:
                    raise KeyError(f"{type(theirs).__name__}: ours has no {', '.join(missing)}")
                named = dict(theirs.named_parameters())
                swapped |= {id(parameter): named[name] for name, parameter in ours.named_parameters()}
                setattr(self, attribute, theirs)
                estimator = attribute.removesuffix("loss") + "estimator"
                if hasattr(self, estimator):
                    setattr(self, estimator, theirs.value_estimator)
                if hasattr(self, "updater"):
                    self.updater = _updater(theirs, self.config)
            for attribute, optimizer in list(vars(self).items()):
                if isinstance(optimizer, torch.optim.Optimizer):
                    (group,) = optimizer.param_groups
                    trained = [swapped[id(parameter)] for parameter in group["params"]]
                    settings = {
                        name: optimizer.defaults[name] for name in ("lr", "betas", "eps", "weight_decay")
                    }
                    kind = getattr(torch.optim, type(optimizer).__name__)
                    setattr(self, attribute, kind(trained, fused=True, **settings))

    return Parts


def _updater(loss: LossModule, config: Any) -> SoftUpdate | HardUpdate:
    if hasattr(config, "tau"):
        return SoftUpdate(loss, tau=config.tau)
    return HardUpdate(loss, value_network_update_interval=config.interval)
