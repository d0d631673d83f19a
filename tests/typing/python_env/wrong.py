"""Classes against the Protocols of `examples/warehouse`, each with mistakes that both checkers must find."""
# ruff: noqa: B018

from __future__ import annotations

import torch
from torch import Tensor
from warehouse_rl.warehouse import (
    DepotProtocol,
    DepotReset,
    DepotSetup,
    DepotStep,
    Warehouse,
    WarehouseProtocol,
    WarehouseReset,
    WarehouseSetup,
    WarehouseState,
    WarehouseStep,
)


class Returns(WarehouseProtocol):
    def reset(self, rows: int, generator: torch.Generator) -> WarehouseState:  # E
        pos = torch.zeros(rows, 2)
        return WarehouseState(pos=pos, shelves=pos)

    def step(self, state: WarehouseState, action: Tensor, generator: torch.Generator) -> Tensor:  # E
        return state.pos


class Takes(WarehouseProtocol):
    def reset(self, rows: int) -> WarehouseReset:  # E
        pos = torch.zeros(rows, 2)
        return WarehouseReset(pos=pos, shelves=pos, observation=pos)  # E

    def step(self, state: WarehouseReset, action: Tensor, generator: torch.Generator) -> WarehouseStep:  # E
        return WarehouseStep(*state, reward=state.pos, terminated=True, truncated=state.pos)  # E


class Reads(WarehouseProtocol):
    def __init__(self, setup: WarehouseSetup) -> None:
        self.size = setup.params.sise  # E
        self.moves = setup.consts.mooves  # E
        self.bonus: str = setup.params.bonus  # E
        self.depot = DepotSetup(params=setup.params)  # E

    def reset(self, rows: int, generator: torch.Generator) -> WarehouseReset:
        return (torch.zeros(rows, 2),)  # E

    def step(self, state: WarehouseState, action: Tensor, generator: torch.Generator) -> WarehouseStep:
        goal = state.goal  # E
        return WarehouseStep(*state, alowed=goal, reward=goal, terminated=goal, truncated=goal)  # E


class Forgets(WarehouseProtocol):
    def reset(self, rows: int, generator: torch.Generator) -> WarehouseReset:
        raise NotImplementedError


Forgets()  # E


class Simulates(DepotProtocol):
    def reset(self, seed: int) -> DepotReset:  # E
        return DepotReset(heights=[0] * 8, weight=None)  # E

    def step(self, action: Tensor) -> DepotStep:
        return DepotStep([0] * 8, 1.0, reward="much", terminated=False)  # E


env = Warehouse(size=5, check_domains=True)
env.dynamics.python.reset(3)  # E
env.dynamics.pyton  # E
Warehouse(bonnus=1.0)  # E
env.reset()["shelfs"]  # E
