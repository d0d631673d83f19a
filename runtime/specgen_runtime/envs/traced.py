"""Whether torch traces the code that runs, so that it must not branch on values."""

from __future__ import annotations

import torch

__all__ = ["is_traced"]


def is_traced() -> bool:
    """Whether torch compiles this call or maps it over a batch: then no branch can depend on a tensor."""
    return torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None
