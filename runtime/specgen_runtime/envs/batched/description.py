"""`Description`: what has to be known of an environment to be one of a batch."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.batched.arguments import EnvFunction, checked_env
from specgen_runtime.envs.check_specs import resets_itself
from specgen_runtime.envs.spec_groups import SPEC_GROUPS
from specgen_runtime.envs.spec_leaves import leaves_of
from specgen_runtime.specs import Composite
from specgen_runtime.typing import NestedKey

__all__ = ["Description", "common_device", "describe_all", "differ", "joined", "make_samples"]


@dataclass(frozen=True)
class Description:
    """What a batch has to know of one of its environments.

    Attributes:
        name: of its class.
        batch_size: its own.
        device: its own.
        specs: the five composites by name, with its batch size in front.
        allow_done_after_reset: whether a reset may leave it done.
        steps_rows: whether some of its own rows can step without the others.
        resets_itself: whether what is done cannot be told to reset, since it has done so already.
        acts_in_resets: whether its resets draw random actions.
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
    acts_in_resets: bool
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
            acts_in_resets=env._acts_in_resets,
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


def make_samples(
    functions: Sequence[EnvFunction[Any]], kwargs: Sequence[Mapping[str, Any]]
) -> dict[int, EnvBase[Any]]:
    """Make one environment for each different function and kwargs, by place."""
    made: dict[int, EnvBase[Any]] = {}
    for place, function in enumerate(functions):
        if _made_alike(functions, kwargs, place, made) is None:
            made[place] = checked_env(function(**kwargs[place]), place)
    return made


def describe_all(
    functions: Sequence[EnvFunction[Any]],
    kwargs: Sequence[Mapping[str, Any]],
    samples: Mapping[int, EnvBase[Any]],
) -> list[Description]:
    """The descriptions of all environments, of which some are described by the samples of others."""
    known = {place: Description.of(env) for place, env in samples.items()}
    places = (_made_alike(functions, kwargs, place, known) for place in range(len(functions)))
    return [known[place] for place in places if place is not None]


def _made_alike(
    functions: Sequence[Any], kwargs: Sequence[Any], place: int, places: Collection[int]
) -> int | None:
    """The one of some places that has the same function and kwargs; the place itself, if it is one of them."""
    if place in places:
        return place
    for other in places:
        if functions[other] is functions[place]:
            with contextlib.suppress(Exception):  # arrays have no truth
                if bool(kwargs[other] == kwargs[place]):
                    return other
    return None


def differ(descriptions: Sequence[Description], *, stacked: bool) -> bool:
    """Whether environments differ in the keys, shapes or dtypes of their data, so that these can't be stacked densely.

    Raises:
        ValueError: they do, and have to be `stacked`.
    """
    found = len({each.layout() for each in descriptions}) > 1
    if found and stacked:
        raise ValueError(
            "share_individual_td=False, but the environments' data differ in keys, shapes or dtypes: they can"
            " only be stacked lazily"
        )
    return found


def joined(descriptions: Sequence[Description], device: torch.device | None) -> Description:
    """The description of a batch: the specs of its environments with a dimension in front.

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
    masks = {each.action_masks for each in descriptions}
    return Description(
        name=", ".join(dict.fromkeys(each.name for each in descriptions)),
        batch_size=torch.Size((len(descriptions), *first.batch_size)),
        device=device,
        specs={
            name: _joined_spec([each.specs[name] for each in descriptions], device) for name in SPEC_GROUPS
        },
        allow_done_after_reset=any(each.allow_done_after_reset for each in descriptions),
        steps_rows=all(each.steps_rows for each in descriptions),
        resets_itself=any(each.resets_itself for each in descriptions),
        acts_in_resets=any(each.acts_in_resets for each in descriptions),
        sets_state=all(each.sets_state for each in descriptions),
        action_masks=masks.pop() if len(masks) == 1 else (),
    )


def _joined_spec(specs: Sequence[Composite], device: torch.device | None) -> Composite:
    specs = [spec.clone() if device is None else spec.clone().to(device) for spec in specs]
    if all(spec == specs[0] for spec in specs):
        return specs[0].expand(len(specs), *specs[0].shape)
    stack: Any = torch.stack
    stacked: Composite = stack(specs, 0)
    return stacked


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
