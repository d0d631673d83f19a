"""Environments that workers make, and how they are to fail; importable there."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from specgen_std.envs.cartpole import CartPole


class FailsOnce(CartPole):
    """Ends its process in the middle of a batch, once: a file says that it was done."""

    def __init__(self, path: str, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.path, self.steps = Path(path), 0

    def _advance(self, root: Any, actions: Any) -> Any:
        self.steps += 1
        if self.steps == 130 and not self.path.exists():
            self.path.write_text("killed")
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._advance(root, actions)


class AlwaysDies(CartPole):
    """Ends its process at the first step."""

    def _advance(self, root: Any, actions: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


class Raises(CartPole):
    """Raises at the first step."""

    def _advance(self, root: Any, actions: Any) -> Any:
        raise ArithmeticError("no step")
