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
        fast: Tensor = away.abs().sum(-1)
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


class Nearness:
    """How near a goal is; without one, how far an observation is from zero."""

    def __init__(self, setup: Any) -> None:
        self.squares, self.outputs = setup.params.squares, setup.outputs

    def map(self, inputs: Any) -> Any:
        record, size = made(self, inputs, "NearMap"), inputs.x.square().sum(-1)
        square = size if self.squares else None
        offset = inputs.x - 1 if "offset" in self.outputs else None
        if inputs.goal is None:
            return record(near=None, far=size.sqrt(), square=square, moved=None, offset=offset)
        moved = inputs.goal - 0.5 * inputs.x
        return record(near=moved.abs().sum(-1), far=None, square=square, moved=moved, offset=offset)


class Holder:
    """Keeps the smallest distance, counts how long it has been that, and makes actions as strong as the policy says."""

    def __init__(self, setup: Any) -> None:
        self.limit, self.gentle = setup.params.limit, setup.params.gentle

    def reset(self, inputs: Any) -> Any:
        size = inputs.x.abs().sum(-1)
        held = None if self.limit is None else torch.zeros(len(size), dtype=torch.int64)
        return made(self, inputs, "HoldReset")(best=size, held=held)

    def step(self, carried: Any, inputs: Any) -> Any:
        best = torch.minimum(carried.best, inputs.x.abs().sum(-1))
        held = truncated = None
        assert (carried.held is None) is (self.limit is None)
        if self.limit is not None:
            held = torch.where(best < carried.best, 0, carried.held + 1)
            truncated = held >= self.limit
        # rewards are given whether anybody asks or not: what does not exist is left out
        return made(self, inputs, "HoldStep")(
            best=best, held=held, better=carried.best - best, truncated=truncated
        )

    def inverse(self, written: Any) -> Any:
        assert (written.strength is None) is not self.gentle
        strength = 1.0 if written.strength is None else written.strength
        return made(self, written, "HoldInverse")(u=written.v.clamp(-2, 2) * strength)


class Recall:
    """Begins a memory, which the policy goes on with, and a price for each change of it."""

    def __init__(self, setup: Any) -> None:
        self.gentle = setup.params.gentle

    def reset(self, inputs: Any) -> Any:
        zeros = torch.zeros(len(inputs.x))
        return made(self, inputs, "RecallReset")(
            hidden=inputs.x[:, :2].clone(),
            sure=zeros if self.gentle else None,
            wanted=inputs.goal,
            moved=zeros,
        )

    def step(self, carried: Any, inputs: Any) -> Any:
        assert type(carried)._fields == ("hidden", "sure", "wanted")
        assert (carried.wanted is None) is (inputs.goal is None)
        assert (carried.sure is not None) is self.gentle
        moved = (inputs.x[:, :2] - carried.hidden).abs().sum(-1)
        price = -moved if carried.sure is None else -moved * carried.sure
        return made(self, inputs, "RecallStep")(moved=moved, price=price)


class Begin:
    """Begins a memory, and has no say in what it becomes."""

    def __init__(self, setup: Any) -> None:
        del setup

    def reset(self, inputs: Any) -> Any:
        return made(self, inputs, "BeginReset")(memory=2 * inputs.x)


class ToGo(nn.Module):
    """Sums of rewards to the end of each episode, one moment after the other."""

    def __init__(self, setup: Any) -> None:
        super().__init__()
        self.gamma = setup.params.gamma

    def offline(self, recorded: Any) -> Any:
        assert type(recorded)._fields == ("next", "done")
        reward, later = recorded.next.reward, torch.zeros(len(recorded.done))
        found = []
        for moment in reversed(range(reward.shape[1])):
            later = torch.where(recorded.done[:, moment], 0.0, later)
            later = reward[:, moment] + self.gamma * later
            found.append(later)
        return made(self, recorded, "ToGoOffline")(togo=torch.stack(found[::-1], 1))


class SoFar:
    """Sums of rewards since an episode began."""

    def __init__(self, setup: Any) -> None:
        assert setup.device is None

    def offline(self, recorded: Any) -> Any:
        total, found = torch.zeros(len(recorded.done)), []
        for moment in range(recorded.done.shape[1]):
            total = total + recorded.next.reward[:, moment]
            found.append(total)
            total = torch.where(recorded.done[:, moment], 0.0, total)
        return made(self, recorded, "SoFarOffline")(total=torch.stack(found, 1))


class Last:
    """What is seen at the end of each episode."""

    def __init__(self, setup: Any) -> None:
        del setup

    def offline(self, recorded: Any) -> Any:
        following = recorded.next.x
        assert following.shape == recorded.root.x.shape == (*recorded.done.shape, following.shape[-1])
        last, found = following[:, -1], []
        for moment in reversed(range(following.shape[1])):
            last = torch.where(recorded.done[:, moment, None], following[:, moment], last)
            found.append(last)
        return made(self, recorded, "LastOffline")(last=torch.stack(found[::-1], 1))


class Gain:
    """Advantages over a value, discounted for each row by a number of its own."""

    def __init__(self, setup: Any) -> None:
        self.outputs, self.scale = setup.outputs, setup.params.scale

    def offline(self, recorded: Any) -> Any:
        root, following, done = recorded
        later, found = following.value[:, -1], []
        for moment in reversed(range(done.shape[1])):
            later = torch.where(done[:, moment], 0.0, later)
            later = following.reward[:, moment] + root.gamma * later
            found.append(later)
        target = torch.stack(found[::-1], 1)
        near = count = length = None
        goals = [place.goal for place in (root, following) if place.goal is not None]
        if goals:
            near = self.scale * torch.stack(goals).sum(0)
            count = torch.full(done.shape, len(goals))
        if "length" in self.outputs:
            length = torch.full(done.shape, done.shape[1])
        return made(self, recorded, "GainOffline")(
            gain=target - root.value, target=target, near=near, count=count, length=length
        )


class Puller:
    """Reads numbers of each row."""

    def __init__(self, setup: Any) -> None:
        assert type(setup.params)._fields == ("scale",)
        self.scale = setup.params.scale

    def map(self, inputs: Any) -> Any:
        assert inputs.side.shape == inputs.counts.shape == inputs.x.shape[:1]
        assert inputs.counts.dtype is torch.bool
        pulled = self.scale * (inputs.x[:, 0] - inputs.side)
        return made(self, inputs, "PullMap")(pulled=torch.where(inputs.counts, pulled, -1.0))

    def inverse(self, written: Any) -> Any:
        force = written.force[:, None]
        return made(self, written, "PullInverse")(u=written.v.clamp(min=-force, max=force))


class Drift:
    """Rows that drift with some noise until one is far."""

    def __init__(self, setup: Any) -> None:
        self.setup = setup

    def reset(self, rows: int, generator: torch.Generator) -> Any:
        x = torch.rand(rows, 2, generator=generator)
        return made(self, self.setup, "DriftReset")(x=x, seen=x.sin())

    def step(self, state: Any, action: Tensor, generator: torch.Generator) -> Any:
        x = state.x + 0.5 * action + 0.1 * torch.randn(state.x.shape, generator=generator)
        over = (x.abs() > 1.5).any(-1)
        return made(self, self.setup, "DriftStep")(
            x=x, seen=x.sin(), reward=x.sum(-1), terminated=over, truncated=torch.zeros_like(over)
        )


class Track:
    """Counts the steps of an episode on the object, and refuses those behind its end."""

    def __init__(self, setup: Any) -> None:
        self.setup = setup
        self.steps = 0

    def reset(self, seed: int | None) -> Any:
        self.count, self.place = 0, 0.0
        return made(self, self.setup, "TrackReset")(place=[self.place], count=self.count)

    def step(self, action: Tensor) -> Any:
        assert self.count < self.setup.params.length
        self.steps += 1
        self.count += 1
        self.place += float(action)
        return made(self, self.setup, "TrackStep")(
            place=[self.place],
            count=self.count,
            reward=self.place,
            terminated=self.count == self.setup.params.length,
        )


def made(python: object, inputs: Any, record: str) -> Any:
    """A record of the generated module, which tests make anew each time."""
    return getattr(sys.modules[type(inputs).__module__], record)


class Means:
    """Methods that the class of a declared transform has besides its own."""

    mean: float

    def off(self, value: float) -> float:
        """How far a value is from the mean."""
        return value - self.mean
