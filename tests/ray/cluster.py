"""A program that holds a Ray cluster while one of its users lives: `python cluster.py FOLDER`.

In the folder it writes `ray.address`; each user adds the number of its process to `ray.users`, and holds `ray.lock`
while it asks for the cluster.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import ray
from filelock import FileLock


def is_alive(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def hold_cluster(folder: Path) -> None:
    """Start a cluster, and return when nobody uses it any more."""
    for last in (False, False, True):
        try:
            ray.init(
                address="local",
                num_cpus=2,
                object_store_memory=200 * 2**20,
                include_dashboard=False,
                log_to_driver=False,
            )
            break
        except Exception:  # whatever did not come up in time on a busy machine
            ray.shutdown()
            if last:
                raise
    address = folder / "ray.address"
    written = folder / "ray.address.new"
    written.write_text(ray.get_runtime_context().gcs_address)
    written.rename(address)
    while True:
        time.sleep(0.5)
        with FileLock(folder / "ray.lock"):
            if not any(map(is_alive, (folder / "ray.users").read_text().split())):
                address.unlink()
                return


if __name__ == "__main__":
    hold_cluster(Path(sys.argv[1]))
