"""`Description`: what has to be known of an environment to be one of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.check_specs import resets_itself
from specgen_runtime.envs.spec_groups import SPEC_GROUPS
from specgen_runtime.envs.spec_leaves import leaves_of
from specgen_runtime.specs import Composite
from specgen_runtime.typing import NestedKey

__all__ = ["Description", "common_device", "joined"]


@dataclass(frozen=True)
class Description:
    """An environment's outside.

    Attributes:
        name: of its class.
        batch_size: its own.
        device: its own.
        specs: the five composites by name, with its batch size in front.
        allow_done_after_reset: whether a reset may leave it done.
        steps_rows: whether some of its own rows can step without the others.
        resets_itself: whether what is done cannot be told to reset, since it has done so already.
        sets_state: whether its resets can start from a given state.
        action_masks: actions whose allowed values an observation tells, with that observation's key.
    """

    name: str
    batch_size: torch.Size
    device: torch.device | None
    specs: dict[str, Composite]
    allow_done_after_reset: bool
    steps_rows: bool
    resets_itself: bool
    sets_state: bool
    action_masks: tuple[tuple[NestedKey, NestedKey], ...]

    @classmethod
    def of(cls, env: EnvBase[Any]) -> Description:
        """Describe an environment."""
        return cls(
            name=type(env).__name__,
            batch_size=env.batch_size,
            device=env.device,
            specs={name: env._env_layout.specs[name] for name in SPEC_GROUPS},
            allow_done_after_reset=env._allow_done_after_reset,
            steps_rows=env._steps_rows(),
            resets_itself=resets_itself(env),
            sets_state=env._supports_set_state,
            action_masks=tuple(getattr(env, "_action_masks", ())),
        )

    def layout(self) -> tuple[Any, ...]:
        """The keys, shapes and dtypes of all entries: data of environments with one layout stack densely."""
        return self.batch_size, tuple(
            (name, leaf.key, leaf.items, tuple(leaf.spec.shape), leaf.spec.dtype)
            for name in SPEC_GROUPS
            for leaf in leaves_of(self.specs[name])
        )


def joined(descriptions: Sequence[Description], device: torch.device | None) -> dict[str, Composite]:
    """The specs of a batch: those of its environments, with a dimension in front.

    Raises:
        ValueError: the environments have different batch sizes.
    """
    first = descriptions[0]
    for place, each in enumerate(descriptions):
        if each.batch_size != first.batch_size:
            raise ValueError(
                f"the environments of a batch need one batch size: environment {place} ({each.name}) has"
                f" {list(each.batch_size)}, environment 0 ({first.name}) {list(first.batch_size)}"
            )
    found: dict[str, Composite] = {}
    for name in SPEC_GROUPS:
        specs = [each.specs[name].clone() for each in descriptions]
        if device is not None:
            specs = [spec.to(device) for spec in specs]
        if all(spec == specs[0] for spec in specs):
            found[name] = specs[0].expand(len(specs), *specs[0].shape)
        else:
            stack: Any = torch.stack
            found[name] = stack(specs, 0)
    return found


def common_device(descriptions: Sequence[Description]) -> torch.device | None:
    """The device that all environments are on.

    Raises:
        ValueError: there are several.
    """
    devices = {each.device for each in descriptions}
    if len(devices) > 1:
        shown = ", ".join(sorted(map(str, devices)))
        raise ValueError(
            f"the environments are on different devices ({shown}); say device=... for their data"
        )
    return devices.pop()
