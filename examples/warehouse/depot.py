"""The simulation behind `Depot`: plain Python, one instance, with its state inside."""

from __future__ import annotations

import random

from torch import Tensor

from warehouse_rl.warehouse import DepotEpisodeParams, DepotProtocol, DepotReset, DepotSetup, DepotStep


class DepotSimulation(DepotProtocol):
    """A stack tips over when there is more above its lowest parcel than that bears."""

    def __init__(self, setup: DepotSetup) -> None:
        self.random = random.Random()
        self.places = setup.params.places
        self.stacks: list[list[float]] = []
        self.parcel = 0.0
        self.limit = 0.0

    def reset(self, seed: int | None, params: DepotEpisodeParams) -> DepotReset:
        if seed is not None:
            self.random.seed(seed)
        self.stacks = [[] for _ in range(self.places)]
        self.parcel = self.random.uniform(1, 20)
        self.limit = float(params.limit)
        return DepotReset(heights=self.heights(), weight=self.parcel)

    def step(self, action: Tensor) -> DepotStep:
        stack = self.stacks[int(action) % self.places]
        stack.append(self.parcel)
        tipped = sum(stack[1:]) > self.limit
        self.parcel = self.random.uniform(1, 20)
        return DepotStep(self.heights(), self.parcel, reward=0.0 if tipped else 1.0, terminated=tipped)

    def heights(self) -> list[int]:
        """How many parcels stand at each of eight places."""
        return [len(stack) for stack in self.stacks] + [0] * (8 - self.places)
