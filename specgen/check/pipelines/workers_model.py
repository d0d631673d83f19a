"""The processes that collect the data of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.check.pipelines.model import Setting


@dataclass(frozen=True)
class CollectingWorkers:
    """Processes that collect.

    Attributes:
        kind: `processes` of this machine, or actors of `ray`.
        count: how many.
        sync: whether a batch waits for all of them.
        resources: what each actor asks for, by what Ray calls it.
    """

    kind: Literal["processes", "ray"]
    count: Setting
    sync: bool
    resources: Mapping[str, Setting]
