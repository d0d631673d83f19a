"""A run of next to nothing, for tests of what is around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specgen_runtime.training import Run
from torch import nn


@dataclass(frozen=True)
class Config:
    lr: float = 0.1
    sizes: tuple[int, ...] = (64, 64)


class Parts:
    def __init__(self) -> None:
        self.network = nn.Linear(1, 1)

    def state_dict(self) -> dict[str, Any]:
        return {"network": self.network.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.network.load_state_dict(state["network"])


def run_in(folder: Path, config: Any = None, **options: Any) -> Run:
    options.setdefault("total_frames", 1_000)
    options.setdefault("progress", False)
    return Run(folder, Config() if config is None else config, Parts(), **options)
