"""`PipelineParts`: the base class of the parts of a pipeline, which says in a few lines what they are."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import torch

from specgen_runtime.envs import EnvBase

__all__ = ["PipelineParts"]


class PipelineParts:
    """The parts of a pipeline, by their names: environments, networks, losses, optimizers, and what goes with them."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let the constructor of a printed class say which configuration it takes, where it is given none of these."""
        super().__init_subclass__(**kwargs)
        made: Any = vars(cls).get("__init__")
        annotation = getattr(made, "__annotations__", {}).get("config")
        if PipelineParts not in cls.__bases__ or not isinstance(annotation, str):
            return

        @functools.wraps(made)
        def checked(self: PipelineParts, config: Any = None, *args: Any, **more: Any) -> None:
            if config is not None:
                _check_config(cls, made.__globals__.get(annotation.removesuffix(" | None")), config)
            made(self, config, *args, **more)

        cls.__init__ = checked  # type: ignore[method-assign, assignment]

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


def _check_config(parts: type, expected: Any, config: Any) -> None:
    """Raise a `TypeError` where a configuration lacks fields of the one that the parts of a pipeline are made of."""
    if not (isinstance(expected, type) and dataclasses.is_dataclass(expected)) or isinstance(
        config, expected
    ):
        return
    missing = [field.name for field in dataclasses.fields(expected) if not hasattr(config, field.name)]
    if not missing and not isinstance(config, type):
        return
    name, found = expected.__name__, f"{type(config).__name__}"
    remedy = (
        "it is the configuration of another pipeline"
        if dataclasses.is_dataclass(config)
        else f"give it {name}(...)"
    )
    if isinstance(config, Mapping):
        remedy = f"give it {name}(**config)"
    if isinstance(config, type):
        found, remedy = f"the class {config.__name__}", f"give it {name}()"
    raise TypeError(f"{parts.__name__} takes a {name} as config, found {found}: {remedy}")


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
