"""Pipelines that extend others: each is made whole, from its parent's nodes and its own, before it is checked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from pydantic import ValidationError

from specgen.check.pipelines.model import EXPLORATIONS
from specgen.check.pipelines.visible import Scopes, Visible
from specgen.check.unseen import unseen
from specgen.diagnostics import Sink, Span, suggestion
from specgen.diagnostics.rules import loss_parents as rules
from specgen.schema.fields import Declaration
from specgen.schema.load import SchemaFile, is_dropped, load, to_data
from specgen.schema.pipeline import OPTIMIZERS, OptimizerGroup, Pipeline, TargetUpdate, names_losses
from specgen.source import Mapping as MappingNode
from specgen.source import Node, Scalar
from specgen.values import dataclass, replace

_OWN = ("doc", "abstract", "extends", "allow")
"""Fields that a pipeline does not take over."""

_CHOICES: Mapping[tuple[str, ...], tuple[tuple[str, ...], ...]] = {
    ("data",): (("on_policy", "replay", "recorded", "online_and_recorded"),),
    ("data", "replay", "sampler"): (("prioritized", "slices", "hindsight"),),
    ("data", "online_and_recorded", "sampler"): (("prioritized", "slices", "hindsight"),),
    ("data", "on_policy"): (("minibatch_size", "minibatches"),),
    ("workers",): (("processes", "ray"),),
    ("value_estimator",): (("td0", "td1", "td_lambda", "gae", "multi_agent_gae", "vtrace"),),
    ("target_updater",): (("soft", "hard"),),
    ("target_updater", "*"): (("soft", "hard"),),
    ("policy", "explore"): (EXPLORATIONS,),
    ("networks", "*", "scale"): (("parameter", "fixed"),),
    ("networks", "*", "mixer"): (("qmix", "python"),),
    ("optimizer",): (OPTIMIZERS,),
    ("optimizer", "*"): (OPTIMIZERS,),
}
"""Fields of which there is one at most, by where they stand: another one takes the place of the parent's."""


_ONE_FOR_ALL: Mapping[str, type[Declaration]] = {"optimizer": OptimizerGroup, "target_updater": TargetUpdate}
"""Fields that are one for all parameters, or several by name."""

_ENVS = (("env",), ("evaluate", "env"))
"""Where an environment is named, with arguments or without."""


@dataclass(frozen=True)
class ParentPipeline:
    """A pipeline as those know it that extend it.

    Attributes:
        name: its name.
        node: what it declares, with what it inherits; None where that can't be said.
        scopes: what its names mean.
        said: what is reported of it, by code and place: it is not said again of those that extend it.
    """

    name: str
    node: MappingNode | None
    scopes: Scopes
    said: frozenset[tuple[str, Span]] = frozenset()


def whole_pipelines(
    file: SchemaFile, imported: Mapping[str, ParentPipeline], visible: Visible, sink: Sink
) -> tuple[SchemaFile, dict[str, ParentPipeline]]:
    """The file with every pipeline that extends another one made whole, and all of them as parents.

    Args:
        file: the loaded file.
        imported: the pipelines of other files that it sees.
        visible: what its pipelines may name.
        sink: takes every mistake.
    """
    nodes = file.root.get("pipelines")
    assert isinstance(nodes, MappingNode)
    merger = _Merger(file, imported, visible, sink)
    for name in file.module.pipelines:
        merger.make(name)
    whole = MappingNode(
        tuple((key, merger.parents[key.text].node or node) for key, node in nodes.entries),
        nodes.span,
        nodes.lost,
    )
    entries = tuple((key, whole if key.text == "pipelines" else node) for key, node in file.root.entries)
    root = MappingNode(entries, file.root.span, file.root.lost)
    pipelines = dict(file.module.pipelines)
    wrong: list[str] = []
    for name, parent in merger.parents.items():
        if parent.node is not None:
            try:
                pipelines[name] = Pipeline.model_validate(to_data(parent.node))
            except ValidationError:
                wrong.append(name)
                merger.parents[name] = replace(parent, node=None)
    if wrong:
        load(file.path, root, sink)  # what doesn't go together is reported there
    module = file.module.model_copy(update={"pipelines": pipelines})
    return SchemaFile(file.path, module, root), merger.parents


class _Merger:
    """Makes the pipelines of one file whole."""

    def __init__(
        self, file: SchemaFile, imported: Mapping[str, ParentPipeline], visible: Visible, sink: Sink
    ) -> None:
        self.file, self.imported, self.sink = file, imported, sink
        self.scopes = Scopes({file.root.span.file: visible})
        self.parents: dict[str, ParentPipeline] = {}
        self._merged_names: dict[Span, Span] = {}
        self._open: list[str] = []

    def make(self, name: str) -> ParentPipeline:
        """A pipeline of the file, made whole."""
        if name in self.parents:
            return self.parents[name]
        node = self.file.node("pipelines", name)
        assert isinstance(node, MappingNode)
        whole: MappingNode | None = node
        said: frozenset[tuple[str, Span]] = frozenset()
        scopes = self.scopes
        base = self.file.module.pipelines[name].extends
        if base is not None:
            self._open.append(name)
            parent = self._parent(name, base)
            self._open.pop()
            whole = None
            if parent is not None:
                whole = None if parent.node is None else self._merged(parent, parent.node, node)
                said = parent.said
                scopes = replace(scopes, merged=self._merged_names).over(parent.scopes)
        self.parents[name] = ParentPipeline(name, whole, scopes, said)
        return self.parents[name]

    def _parent(self, name: str, base: str) -> ParentPipeline | None:
        span = self.file.span("pipelines", name, "extends")
        if base in self._open:
            circle = " -> ".join([*self._open[self._open.index(base) :], base])
            message = f"`{name}` extends itself: {circle}"
            self.sink.add(rules.EXTENDS_ITSELF.at(span, message, help="let one of them stand by itself"))
            return None
        if base in self.file.module.pipelines:
            return self.make(base)
        if base in self.imported:
            return self.imported[base]
        known = [*(one for one in self.file.module.pipelines if one != name), *self.imported]
        self.sink.add(unseen("pipeline", base, ("pipelines",), known, span, rule=rules.UNKNOWN_PARENT))
        return None

    def _merged(self, base: ParentPipeline, parent: MappingNode, child: MappingNode) -> MappingNode:
        inherited = tuple((key, node) for key, node in parent.entries if key.text not in _OWN)
        self._merged_names = {}
        return self._mapping(replace(parent, entries=inherited), child, (), base)

    def _mapping(
        self, parent: MappingNode, child: MappingNode, place: tuple[str, ...], base: ParentPipeline
    ) -> MappingNode:
        """Both mappings by key, the child's over the parent's."""
        gone = frozenset(_replaced(parent, child, place))
        made = {key.text: (key, node) for key, node in parent.entries if key.text not in gone}
        for key, node in child.entries:
            if is_dropped(node):
                if made.pop(key.text, None) is None:
                    message = f"`{base.name}` has no `{'.'.join((*place, key.text))}` that could be dropped"
                    help = suggestion(key.text, [one.text for one, _ in parent.entries]) or "leave it out"
                    self.sink.add(rules.NOTHING_TO_DROP.at(key.span, message, help=help))
                continue
            named, old = made.get(key.text, (key, None))
            if old is not None and _is_choice(parent, child, place):
                self._merged_names[key.span] = base.scopes.written(named.span)
            if isinstance(node, MappingNode):
                before = old if isinstance(old, MappingNode) else MappingNode((), node.span)
                if isinstance(old, Scalar) and (*place, key.text) in _ENVS:
                    before = MappingNode(((old, MappingNode((), old.span)),), old.span)  # without arguments
                merged: Node = self._mapping(before, node, (*place, key.text), base)
            else:
                merged = node
            made[key.text] = (key, merged)
        return MappingNode(tuple(made.values()), child.span, parent.lost | child.lost)


def _replaced(parent: MappingNode, child: MappingNode, place: tuple[str, ...]) -> Iterator[str]:
    """The keys of a mapping that others of the child take the place of."""
    given = {key.text for key, node in child.entries if not is_dropped(node)}
    if _is_choice(parent, child, place):
        yield from (key.text for key, _ in parent.entries if given and key.text not in given)
    for group in _choices(place):
        if given & set(group):
            yield from (name for name in group if name not in given)
    if len(place) == 1 and place[0] in _ONE_FOR_ALL:
        fields = _ONE_FOR_ALL[place[0]].model_fields.keys()
        before = {key.text for key, _ in parent.entries}
        if given and bool(before & fields) is not bool(given & fields):
            yield from before  # one for all becomes several, or several become one


def _is_choice(parent: MappingNode, child: MappingNode, place: tuple[str, ...]) -> bool:
    """Whether the name itself is the choice: the environment, and the class of a loss."""
    match place:
        case _ if place in _ENVS:
            return True
        case ("loss",):
            return not all(names_losses(key.text for key, _ in one.entries) for one in (parent, child))
        case ("loss", name):
            return names_losses((name,))
        case _:
            return False


def _choices(place: tuple[str, ...]) -> Collection[tuple[str, ...]]:
    for known, groups in _CHOICES.items():
        if len(known) == len(place) and all(a in ("*", b) for a, b in zip(known, place, strict=True)):
            return groups
    return ()
