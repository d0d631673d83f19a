"""A training from the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from specgen_runtime.extras import import_extra
from specgen_runtime.reported import ReportedError

__all__ = ["command_line"]

T = TypeVar("T")


def command_line(train: Callable[..., T]) -> T:
    """Call a training function with what the command line says: `--lr 3e-4 --seed 2 --resume`.

    The fields of its argument `config`, a dataclass, are options of their own, with their types, defaults and
    documentation.

    Args:
        train: the function; its first argument is `config`.

    Mistakes of whoever calls it, such as a folder that is in use, are told in one line: the process ends with exit code 1.

    Raises:
        ImportError: if tyro is not installed; the extra `train` brings it.
    """
    tyro = import_extra("tyro", "the command line of a training needs tyro", "train")
    # A module that `python -m` runs is named as it is called, not by its file.
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    name = f"python -m {spec.name}" if spec is not None else None
    try:
        result: T = tyro.cli(train, prog=name, config=(tyro.conf.OmitArgPrefixes, tyro.conf.SuppressFixed))
    except ReportedError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    return result
