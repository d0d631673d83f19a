"""TorchRL's recurrent mode, in which its LSTM and GRU modules read sequences, where TorchRL is loaded."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager


def torchrl_recurrent_mode() -> AbstractContextManager[None] | None:
    """TorchRL's `set_recurrent_mode(True)`; None where TorchRL is not loaded, so that no network is its."""
    modules = sys.modules.get("torchrl.modules")
    mode = getattr(modules, "set_recurrent_mode", None)
    return None if mode is None else mode(True)
