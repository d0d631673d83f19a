"""The processes that actors run in."""

from __future__ import annotations

import os
import time
from pathlib import Path

from specgen_runtime.services import RayService


def process_of(service: RayService) -> int:
    """The number of the process of a service's first actor."""
    import ray

    number: int = ray.get(service._actors[0].__ray_call__.remote(lambda _: os.getpid()))
    return number


def wait_for_end(process: int) -> None:
    """Wait until a process has ended, for as long as a test may take."""
    while Path(f"/proc/{process}").exists():
        time.sleep(0.05)
