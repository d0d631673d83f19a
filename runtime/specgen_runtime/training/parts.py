"""`PipelineParts`: the base class of the parts of a pipeline, which says in a few lines what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from specgen_runtime.envs import EnvBase

__all__ = ["PipelineParts"]


class PipelineParts:
    """The parts of a pipeline, by their names: environments, networks, losses, optimizers, and what goes with them."""

    def __repr__(self) -> str:
        """Each part in a line, with its class; those of random numbers and the configuration are left out."""
        names: dict[int, str] = {}
        lines = []
        for name, part in vars(self).items():
            if name == "config" or isinstance(part, torch.Generator):
                continue
            lines.append(f"    {name}: {names.get(id(part)) or _said(part)}\n")
            names.setdefault(id(part), name)
        if "collector" not in vars(self) and hasattr(type(self), "collector"):
            lines.append("    collector: not asked for yet\n")
        return f"{type(self).__name__}(\n{''.join(lines)})"

    def _check_state(self, state: Mapping[str, Any], *names: str) -> None:
        """Raise a `ValueError` unless a state has the entries that these parts restore."""
        missing = [name for name in names if name not in state]
        if not missing:
            return
        more = [str(name) for name in state if name not in names]
        others = f", and has {', '.join(map(repr, more))}, which is none of its parts" if more else ""
        raise ValueError(
            f"what {type(self).__name__} is to restore lacks {', '.join(map(repr, missing))}{others}: it is what"
            f" `state_dict` of a {type(self).__name__} gave"
        )


def _said(part: Any) -> str:
    """A part in a few words."""
    if isinstance(part, torch.device):
        return str(part)
    if isinstance(part, EnvBase):
        return f"{type(part).__name__} {list(part.batch_size)}"
    if isinstance(part, torch.optim.Optimizer):
        rates = dict.fromkeys(f"{float(group['lr']):g}" for group in part.param_groups)
        return f"{type(part).__name__}, lr={', '.join(rates)}"
    return type(part).__name__
