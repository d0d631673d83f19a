"""Classes against the Protocols of `examples/warehouse`, each with mistakes that both checkers must find."""
# ruff: noqa: B018

from __future__ import annotations

import torch
from torch import Generator, Tensor
from warehouse_rl.warehouse import (
    DepotEpisodeParams,
    DepotProtocol,
    DepotReset,
    DepotSetup,
    DepotStep,
    Warehouse,
    WarehouseProtocol,
    WarehouseSetup,
)
from warehouse_rl.warehouse import WarehouseEpisodeParams as Params
from warehouse_rl.warehouse import WarehouseReset as Reset
from warehouse_rl.warehouse import WarehouseState as State
from warehouse_rl.warehouse import WarehouseStep as Step


class Returns(WarehouseProtocol):
    def reset(self, rows: int, params: Params, generator: Generator) -> State:  # E
        pos = torch.zeros(rows, 2)
        return State(pos=pos, shelves=pos)

    def step(self, state: State, action: Tensor, params: Params, generator: Generator) -> Tensor:  # E
        return state.pos


class Takes(WarehouseProtocol):
    def reset(self, rows: int) -> Reset:  # E
        pos = torch.zeros(rows, 2)
        return Reset(pos=pos, shelves=pos, observation=pos)  # E

    def step(self, state: Reset, action: Tensor, params: Params, generator: Generator) -> Step:  # E
        return Step(*state, reward=state.pos, terminated=True, truncated=state.pos)  # E


class Reads(WarehouseProtocol):
    def __init__(self, setup: WarehouseSetup) -> None:
        self.size = setup.params.sise  # E
        self.moves = setup.consts.mooves  # E
        self.bonus: str = setup.params.bonus  # E
        self.depot = DepotSetup(params=setup.params)  # E
        self.slip = setup.params.slip  # E

    def reset(self, rows: int, params: Params, generator: Generator) -> Reset:
        return (torch.zeros(rows, 2),)  # E

    def step(self, state: State, action: Tensor, params: Params, generator: Generator) -> Step:
        params.bonus  # E
        goal = state.goal  # E
        return Step(*state, alowed=goal, reward=goal, terminated=goal, truncated=goal)  # E


class Forgets(WarehouseProtocol):
    def reset(self, rows: int, params: Params, generator: Generator) -> Reset:
        raise NotImplementedError


Forgets()  # E


class Simulates(DepotProtocol):
    def reset(self, seed: int, params: DepotEpisodeParams) -> DepotReset:  # E
        return DepotReset(heights=[0] * 8, weight=None)  # E

    def step(self, action: Tensor) -> DepotStep:
        return DepotStep([0] * 8, 1.0, reward="much", terminated=False)  # E


env = Warehouse(size=5, check_domains=True)
env.dynamics.python.reset(3)  # E
Warehouse(slip=object())  # E
env.dynamics.pyton  # E
Warehouse(bonnus=1.0)  # E
env.reset()["shelfs"]  # E
