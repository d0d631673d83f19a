"""A schema file's checked declarations as one module plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.imported import Import
from specgen.plan.imports import imports_of
from specgen.plan.items import ClassPlan, ModulePlan, Parts, Place, names_in_module
from specgen.plan.model import AliasPlan, DataPlan, RecordPlan
from specgen.plan.pipelines.model import PipelinePlan


def plan_module(
    path: str,
    source: str,
    doc: str,
    parts: Parts,
    further: Mapping[str, Import],
    bases: Iterable[Import],
    module: str,
    functions: tuple[str, ...] = (),
) -> ModulePlan:
    """Gather what was planned for the declarations of one file.

    Args:
        path: the generated file, relative to the output directory.
        source: the schema it comes from, without its ending.
        doc: the file's own documentation.
        parts: the records, functions and classes of each declaration, in order.
        further: names of other generated modules that the items may use.
        bases: classes of other modules that classes among the items are derived from.
        module: the module itself, dotted.
        functions: the functions among the items that are for users too.
    """
    items = tuple(item for made in parts.values() for item in made)
    declared: dict[str, Place] = {}
    twice = tuple(
        (name, place)
        for place, made in parts.items()
        for item in made
        for name in names_in_module(item)
        if declared.setdefault(name, place) != place
    )
    lines = (doc.strip() or f"Declared in {source}.",)
    public = tuple(
        item.name
        for item in items
        if isinstance(item, AliasPlan | ClassPlan | DataPlan | RecordPlan)
        and not isinstance(item, PipelinePlan)
        and not item.name.startswith("_")
    )
    if any(isinstance(item, PipelinePlan) for item in items):
        # a module that is run is not shown by its package, which would import it first
        public, functions = (), (*public, *functions)
    imports = imports_of(items, further, module).union(bases)
    return ModulePlan(path, source, lines, imports, items, declared, twice, public, functions)
