"""Waiting for a change in the files of a project."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from specgen.project.config import NAME, Project

PAUSE = 0.2
"""Seconds between two looks at the files."""
SETTLING = 0.03
"""Seconds for which files have to stay as they are after a change."""


def changes(project: Project) -> Iterator[None]:
    """Go on at once, and then each time when a file of the schemas, or the configuration, has changed."""
    seen: dict[str, tuple[int, int]] | None = None
    while True:
        now = _times(project)
        if seen is not None and now == seen:
            time.sleep(PAUSE)
            continue
        # An editor may write a file in several steps: what is seen is taken when it stays.
        while seen is not None:
            time.sleep(SETTLING)
            before, now = now, _times(project)
            if now == before:
                break
        seen = now
        yield


def _times(project: Project) -> dict[str, tuple[int, int]]:
    """Time and size of each file; of those that vanish meanwhile nothing."""
    times: dict[str, tuple[int, int]] = {}
    paths = [str(project.root / NAME)]
    for folder, inner, names in os.walk(project.root / project.config.schemas):
        inner[:] = [name for name in inner if not name.startswith((".", "__"))]
        paths += [os.path.join(folder, name) for name in names if not name.startswith(".")]
    for path in paths:
        try:
            stat = os.stat(path)
        except OSError:
            continue
        times[path] = (stat.st_mtime_ns, stat.st_size)
    return times
