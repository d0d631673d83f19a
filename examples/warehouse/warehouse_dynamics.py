"""The dynamics of `Warehouse`: vectorised and stateless, state in and state out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from warehouse_rl.warehouse import (
    WarehouseEpisodeParams,
    WarehouseProtocol,
    WarehouseReset,
    WarehouseSetup,
    WarehouseState,
    WarehouseStep,
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int64


class WarehouseDynamics(WarehouseProtocol):
    """Shelves stand anew in each episode, on another floor; the gate is at the origin."""

    def __init__(self, setup: WarehouseSetup) -> None:
        self.size = setup.params.size
        self.bonus = setup.params.bonus
        self.moves = setup.consts.moves

    def reset(self, rows: int, params: WarehouseEpisodeParams, generator: torch.Generator) -> WarehouseReset:
        place = generator.device
        shelves = torch.rand((rows, 10, 10), generator=generator, device=place) < 0.1
        pos = torch.randint(1, self.size, (rows, 2), generator=generator, device=place)
        return WarehouseReset(pos, shelves, self.look(pos), self.allowed(pos, shelves))

    def step(
        self,
        state: WarehouseState,
        action: Int64[Tensor, "rows"],
        params: WarehouseEpisodeParams,
        generator: torch.Generator,
    ) -> WarehouseStep:
        free = self.allowed(state.pos, state.shelves).gather(1, action[:, None]).squeeze(1)
        spins = torch.rand(len(action), generator=generator, device=generator.device) < params.slip
        moves = free & ~spins
        pos = torch.where(moves[:, None], state.pos + self.moves[action], state.pos)
        there = (pos == 0).all(-1)
        return WarehouseStep(
            pos=pos,
            shelves=state.shelves,
            observation=self.look(pos),
            allowed=self.allowed(pos, state.shelves),
            reward=torch.where(there, self.bonus, -0.01),
            terminated=there,
            truncated=torch.zeros_like(there),
        )

    def look(self, pos: Int64[Tensor, "rows 2"]) -> Float32[Tensor, "rows 4"]:
        """How far it is to each wall, in parts of the warehouse's side."""
        near = pos / (self.size - 1)
        return torch.cat([near, 1 - near], -1)

    def allowed(
        self, pos: Int64[Tensor, "rows 2"], shelves: Bool[Tensor, "rows 10 10"]
    ) -> Bool[Tensor, "rows 4"]:
        """Which moves stay inside and end at no shelf; all of them where the robot is walled in."""
        ahead = pos[:, None, :] + self.moves
        inside = ((ahead >= 0) & (ahead < self.size)).all(-1)
        row, column = ahead.clamp(0, self.size - 1).unbind(-1)
        free = inside & ~shelves[torch.arange(len(pos), device=pos.device)[:, None], row, column]
        return torch.where(free.any(-1, keepdim=True), free, inside)
