"""Exported programs beside what they were made of."""

from __future__ import annotations

import torch
from specgen_runtime.deployment import DeployedPolicy


class ProgramOfAnyNumber:
    """A program of any batch size, beside an agent of one: for its first observation, and for twice as many."""

    def __init__(self, agent: DeployedPolicy) -> None:
        self.program = agent.export(dynamic_batch=True).module()
        self.states = [
            {name: torch.cat([value] * 2)[:rows] for name, value in agent.initial_state().items()}
            for rows in (1, 2 * agent.batch_size[0])
        ]

    def acts_alike(self, observation: dict[str, torch.Tensor], action: dict[str, torch.Tensor]) -> None:
        for place, rows in enumerate(len(state["begins"]) for state in self.states):
            given = {name: torch.cat([value] * 2)[:rows] for name, value in observation.items()}
            found, self.states[place] = self.program(given, self.states[place])
            for name, value in action.items():
                assert torch.allclose(found[name], torch.cat([value] * 2)[:rows], atol=1e-6)
