"""A generated module, and what may stand in it."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.imported import Import
from specgen.plan.envs.model import ChatEnvPlan, ComposedChainPlan, EnvironmentPlan
from specgen.plan.losses.model import LossPlan
from specgen.plan.model import (
    AliasPlan,
    DataPlan,
    FunctionPlan,
    ProtocolPlan,
    RecordPlan,
    SpecTypesPlan,
    TypedDictPlan,
)
from specgen.plan.pipelines.model import PipelinePlan
from specgen.plan.transforms.model import TransformPlan
from specgen.values import dataclass

ClassPlan = (
    ChatEnvPlan
    | ComposedChainPlan
    | EnvironmentPlan
    | LossPlan
    | PipelinePlan
    | ProtocolPlan
    | TransformPlan
    | TypedDictPlan
)
TypingPlan = DataPlan | SpecTypesPlan
Item = AliasPlan | ClassPlan | FunctionPlan | RecordPlan | TypingPlan

Place = tuple[str, str]
"""Where a declaration stands: its section and its name."""
Parts = dict[Place, list[Item]]
"""What is planned for each declaration of a file."""


def names_in_module(item: Item) -> tuple[str, ...]:
    """What stands in a module of an item, by its name: of a pipeline several classes and functions."""
    if not isinstance(item, PipelinePlan):
        return (item.name,)
    makers = (network.name for network in item.networks)
    return item.name, item.config.name, *makers, f"{item.name}Metrics", "update", "train", "main"


@dataclass(frozen=True)
class ModulePlan:
    """A generated module: what it imports and what stands in it, in order.

    Attributes:
        path: the file, relative to the package.
        source: the schema it comes from, without its ending.
        doc: its documentation.
        imports: what it imports.
        items: what stands in it.
        declared: the declaration that each name of the module is made of.
        twice: the names that two declarations would have in it, each with the second one.
        exports: its public classes, which its package shows too.
        functions: its public functions, which only the module itself shows.
    """

    path: str
    source: str
    doc: tuple[str, ...]
    imports: frozenset[Import]
    items: tuple[Item, ...]
    declared: Mapping[str, Place]
    twice: tuple[tuple[str, Place], ...] = ()
    exports: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
