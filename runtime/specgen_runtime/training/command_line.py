"""A training from the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from specgen_runtime.extras import import_extra

__all__ = ["command_line"]

T = TypeVar("T")


def command_line(train: Callable[..., T]) -> T:
    """Call a training function with what the command line says: `--lr 3e-4 --seed 2 --resume`.

    The fields of its argument `config`, a dataclass, are options of their own, with their types, defaults and
    documentation.

    Args:
        train: the function; its first argument is `config`.

    Raises:
        ImportError: if tyro is not installed; the extra `train` brings it.
    """
    tyro = import_extra("tyro", "the command line of a training needs tyro", "train")
    # A module that `python -m` runs is named as it is called, not by its file.
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    name = f"python -m {spec.name}" if spec is not None else None
    result: T = tyro.cli(train, prog=name, config=(tyro.conf.OmitArgPrefixes,))
    return result
