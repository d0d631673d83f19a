"""One Ray cluster for all tests of a run, whatever process of it they run in: it takes seconds to start."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

_CLUSTER = Path(__file__).with_name("cluster.py")


@pytest.fixture(scope="session")
def ray_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Ray cluster of two processors that all processes of this run share; actors have names in each by themselves."""
    ray = pytest.importorskip("ray")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # of all workers of this run
    with FileLock(shared / "ray.lock"):
        with (shared / "ray.users").open("a") as users:
            users.write(f"{os.getpid()}\n")
        if not (shared / "ray.address").exists():
            _start(shared)
    ray.init(address=(shared / "ray.address").read_text(), log_to_driver=False)
    yield
    ray.shutdown()


def _start(shared: Path) -> None:
    with (shared / "ray.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(_CLUSTER), str(shared)], stdout=log, stderr=log, start_new_session=True
        )
    while not (shared / "ray.address").exists():
        assert process.poll() is None, (shared / "ray.log").read_text()
        time.sleep(0.05)
