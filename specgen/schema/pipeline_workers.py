"""The `workers:` of a pipeline."""

from __future__ import annotations

from specgen.schema.fields import Declaration
from specgen.schema.pipeline_networks import Quantity


class Workers(Declaration):
    """Processes that collect, each with a part of the environments: on this machine, or on a cluster.

    Attributes:
        processes: how many, on this machine.
        ray: how many, as actors of a Ray cluster.
        cpus: processors of each actor.
        gpus: GPUs of each actor; a fraction is a part of one.
        sync: whether a batch waits for all of them; else it is of the one that is ready first.
    """

    processes: Quantity | None = None
    ray: Quantity | None = None
    cpus: Quantity | None = None
    gpus: Quantity | None = None
    sync: bool = True
