"""Target updates: `SoftUpdate` and `HardUpdate` move target parameters towards those of the networks."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from specgen_runtime.objectives.common import LossModule


class TargetNetUpdater(ABC):
    """Moves target networks of a loss, all of them unless it is said which. Making one changes no parameter.

    Args:
        loss_module: a loss with target parameters.
        networks: the networks whose targets it moves, as `LossModule.target_networks` calls them; others want an updater
            of their own.

    Raises:
        ValueError: if it is not a loss, or one of the networks has no target.
        RuntimeError: if it has no target parameters.
    """

    def __init__(self, loss_module: LossModule, *, networks: Sequence[str] | None = None) -> None:
        if not isinstance(loss_module, LossModule):
            raise ValueError(f"loss_module must be a LossModule, got {type(loss_module).__name__}")
        if not loss_module.target_networks():
            raise RuntimeError(
                f"{type(loss_module).__name__} has no target parameters to update; if it has an option such as "
                "delay_value, set it to True, otherwise it needs no updater"
            )
        self.loss_module = loss_module
        self.networks = _with_targets(loss_module, networks)
        for name in self.networks:
            loss_module._has_updater[name] = True

    def init_(self) -> None:
        """Copy the parameters into the targets."""
        with torch.no_grad():
            for source, target in self._pairs():
                target.copy_(source)

    @abstractmethod
    def step(self) -> None:
        """Count one optimizer step and move the targets accordingly."""

    def state_dict(self) -> dict[str, Any]:
        """Progress that the loss's own state does not hold."""
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave.

        Raises:
            KeyError: if an entry is unknown.
        """
        if state_dict:
            raise KeyError(f"{type(self).__name__} has no state, got {', '.join(state_dict)}")

    def _pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Each tensor of the networks, parameters and buffers, with its target."""
        for name in self.networks:
            sources = getattr(self.loss_module, f"{name}_params")
            targets = getattr(self.loss_module, f"target_{name}_params")
            # `data` of each tensor: of the whole it would make a tensordict like it, which takes longer than the update.
            for key, source in sources.items(True, True):
                yield source.data, targets.get(key).data


class SoftUpdate(TargetNetUpdater):
    """Polyak averaging: ``target = (1 - tau) * target + tau * source`` (Lillicrap et al. 2016, algorithm 1).

    Floating-point buffers, such as the statistics of batch normalisation, are averaged too; others are copied.

    Args:
        loss_module: a loss with target parameters.
        eps: how much of the target stays, in [0, 1]; ``1 - tau``.
        tau: how much of the source comes in, in [0, 1]. Exactly one of the two must be given.
        networks: the networks whose targets it moves; all of them by default.

    Raises:
        ValueError: if both are given, if it is outside [0, 1], or if one of the networks has no target.
        RuntimeError: if neither is given, or the loss has no target parameters.
    """

    def __init__(
        self,
        loss_module: LossModule,
        *,
        eps: float | None = None,
        tau: float | None = None,
        networks: Sequence[str] | None = None,
    ) -> None:
        if eps is not None and tau is not None:
            raise ValueError("SoftUpdate takes eps or tau, not both: eps = 1 - tau")
        if eps is None and tau is None:
            raise RuntimeError("SoftUpdate needs eps or tau")
        name, value = ("tau", tau) if eps is None else ("eps", eps)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise ValueError(f"SoftUpdate: {name} must be in [0, 1], got {value!r}")
        if eps is not None and eps < 0.5:
            warnings.warn(
                f"eps={eps} replaces {1 - eps:.1%} of the target at each step; did you mean tau={eps}?",
                UserWarning,
                stacklevel=2,
            )
        super().__init__(loss_module, networks=networks)
        self.tau = float(1 - value if tau is None else value)
        self.eps = float(1 - value if eps is None else value)

    @property
    def tau(self) -> float:
        """How much of the source comes in; `eps` follows when it is assigned.

        Raises:
            ValueError: when it is assigned, and not in [0, 1].
        """
        return self._tau

    @tau.setter
    def tau(self, value: float) -> None:
        if isinstance(value, bool) or not 0 <= value <= 1:
            raise ValueError(f"SoftUpdate: tau must be in [0, 1], got {value!r}")
        self._tau = float(value)
        self.eps = 1 - self._tau

    def step(self) -> None:
        """Move the targets a little."""
        sources: list[Tensor] = []
        targets: list[Tensor] = []
        for source, target in self._pairs():
            if target.is_floating_point() or target.is_complex():
                sources.append(source)
                targets.append(target)
            else:
                target.copy_(source)
        torch._foreach_lerp_(targets, sources, self.tau)


class HardUpdate(TargetNetUpdater):
    """Copy the parameters into the targets at every ``value_network_update_interval``-th step (Mnih et al. 2015).

    Args:
        loss_module: a loss with target parameters.
        value_network_update_interval: a positive whole number of steps.
        networks: the networks whose targets it moves; all of them by default.

    Raises:
        ValueError: if the interval is not a positive whole number, or one of the networks has no target.
        RuntimeError: if the loss has no target parameters.
    """

    def __init__(
        self,
        loss_module: LossModule,
        *,
        value_network_update_interval: int = 1000,
        networks: Sequence[str] | None = None,
    ) -> None:
        interval = value_network_update_interval
        if isinstance(interval, bool) or interval != int(interval) or interval < 1:
            raise ValueError(
                f"HardUpdate: value_network_update_interval must be a positive whole number, got {interval!r}"
            )
        super().__init__(loss_module, networks=networks)
        self.value_network_update_interval = int(interval)
        self.counter = 0

    def step(self) -> None:
        """Count a step; the ``value_network_update_interval``-th copies and starts counting anew."""
        self.counter += 1
        if self.counter >= self.value_network_update_interval:
            self.counter = 0
            self.init_()

    def state_dict(self) -> dict[str, Any]:
        """The steps since the last copy."""
        return {"counter": self.counter}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the steps since the last copy.

        Raises:
            KeyError: if ``counter`` is missing.
        """
        self.counter = int(state_dict["counter"])


def _with_targets(loss_module: LossModule, networks: Sequence[str] | None) -> tuple[str, ...]:
    """The networks that are asked for, each of which has to have a target; all that have one where none are."""
    known = loss_module.target_networks()
    if isinstance(networks, str):
        raise ValueError(f"networks must be a list of names, got {networks!r}; write [{networks!r}]")
    if networks is not None and not networks:
        raise ValueError("networks must name those whose targets are moved, got none; leave it out for all")
    for name in networks or ():
        if name not in known:
            raise ValueError(
                f"{type(loss_module).__name__} has no target of {name!r}; it has targets of {', '.join(known)}"
            )
    return tuple(known if networks is None else dict.fromkeys(networks))
