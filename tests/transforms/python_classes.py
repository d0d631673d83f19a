"""The classes behind the transforms of `schemas/python.yaml`."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn


class Embedder(nn.Module):
    """A linear feature, and its size; it knows rows only."""

    def __init__(self, setup: Any) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.linear = nn.Linear(3, 4)
        self.scale = setup.params.scale

    def map(self, inputs: Any) -> Any:
        from_rows: Tensor = inputs.x
        assert from_rows.ndim == 2
        feature = self.scale * self.linear(from_rows)
        return made(self, inputs, "EmbedMap")(feature=feature, size=feature.norm(dim=-1))


class Smoother:
    """A moving average."""

    def __init__(self, setup: Any) -> None:
        self.rate = setup.params.rate

    def reset(self, inputs: Any) -> Any:
        zeros = torch.zeros(len(inputs.x))
        return made(self, inputs, "SmoothReset")(mean=inputs.x.clone(), moved=zeros)

    def step(self, carried: Any, inputs: Any) -> Any:
        change = self.rate * (inputs.x - carried.mean)
        moved = change.abs().sum(-1)
        return made(self, inputs, "SmoothStep")(mean=carried.mean + change, moved=moved, calm=-moved)


class Aims:
    """How near what is aimed at is; of keys that may be missing it reads what is there."""

    def __init__(self, setup: Any) -> None:
        assert setup.device is None or isinstance(setup.device, torch.device)

    def near(self, inputs: Any) -> Tensor:
        away = inputs.x if inputs.goal is None else inputs.goal - 0.5 * inputs.x
        fast = away.abs().sum(-1)
        return fast if inputs.speed is None else fast + inputs.speed

    def reset(self, inputs: Any) -> Any:
        return made(self, inputs, "AimReset")(last=self.near(inputs))

    def step(self, carried: Any, inputs: Any) -> Any:
        near = self.near(inputs)
        return made(self, inputs, "AimStep")(last=near, nearer=carried.last - near)


class Tells:
    """Which keys are there."""

    def __init__(self, setup: Any) -> None:
        pass

    def map(self, inputs: Any) -> Any:
        assert type(inputs)._fields == ("goal", "x", "speed")
        known = torch.tensor([inputs.goal is not None, inputs.speed is not None], dtype=torch.float32)
        return made(self, inputs, "TellMap")(there=known.expand(len(inputs.x), 2).clone())


class Weigher:
    """A reward times the size of an observation."""

    def __init__(self, setup: Any) -> None:
        assert setup.device is None or isinstance(setup.device, torch.device)

    def map(self, inputs: Any) -> Any:
        assert inputs.reward.ndim == 1
        return made(self, inputs, "WeighMap")(weighed=inputs.reward * inputs.x.abs().sum(-1))


class Scales:
    """Reads a parameter of the environment."""

    def __init__(self, setup: Any) -> None:
        self.mass = float(setup.env.params.m)
        assert "observation" in list(setup.env.full_observation_spec)  # it is complete

    def map(self, inputs: Any) -> Any:
        return made(self, inputs, "MassMap")(mass=torch.full((len(inputs.x), 1), self.mass))


class ScalesThatMove(nn.Module):
    """Reads a parameter of the environment, or the limit of an action, whenever it is called."""

    def __init__(self, setup: Any) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(2.0))
        self.env = (setup.env,) if setup.params.kept else setup.env

    def map(self, inputs: Any) -> Any:
        (env,) = self.env
        mass = env.full_action_spec["action"].space.high if env.params is None else env.params.m
        return made(self, inputs, "HeavyMap")(
            weight=self.factor * torch.full((len(inputs.x), 1), float(mass))
        )


class Primitives(nn.Module):
    """A table of actions."""

    def __init__(self, setup: Any) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.linspace(-2, 2, setup.params.count)[:, None])

    def inverse(self, written: Any) -> Any:
        assert written.choice.ndim == 1
        assert written.force.ndim == 2
        return made(self, written, "PrimitiveInverse")(u=self.table[written.choice] * written.force)


class Brakes:
    """Counts how long the pendulum has been fast."""

    def __init__(self, setup: Any) -> None:
        del setup

    def reset(self, inputs: Any) -> Any:
        return made(self, inputs, "BrakeReset")(fast=torch.zeros(len(inputs.x), dtype=torch.int64))

    def step(self, carried: Any, inputs: Any) -> Any:
        count = torch.where(inputs.x[:, 2].abs() > 0.5, carried.fast + 1, 0)
        return made(self, inputs, "BrakeStep")(fast=count, truncated=count >= 3)

    def inverse(self, written: Any) -> Any:
        return made(self, written, "BrakeInverse")(u=written.v.clamp(-0.5, 0.5))


def made(python: object, inputs: Any, record: str) -> Any:
    """A record of the generated module, which tests make anew each time."""
    return getattr(sys.modules[type(inputs).__module__], record)


class Means:
    """Methods that the class of a declared transform has besides its own."""

    mean: float

    def off(self, value: float) -> float:
        """How far a value is from the mean."""
        return value - self.mean
