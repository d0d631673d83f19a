"""Importing a user's modules while a project is built."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def importing_from(root: Path) -> Iterator[None]:
    """Look for modules in the project's folder first, as `python -m` there does, and leave no bytecode in it."""
    before, bytecode = list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, str(root))
    # A cache folder among the schemas would be clutter in the user's tree.
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path[:] = before
        sys.dont_write_bytecode = bytecode
