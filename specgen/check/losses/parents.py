"""Losses that extend others: each is made whole, from its parent's nodes and its own, before it is checked.

Every node keeps the place where it was written, so that a mistake is reported there. What is behind sees one whole
declaration, and need not know that a part of it was inherited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field

from specgen.check.losses.lets import merged_lets
from specgen.check.losses.model import LossClass
from specgen.check.unseen import unseen
from specgen.diagnostics import Note, Sink, Span, suggestion
from specgen.diagnostics.rules import loss_parents as rules
from specgen.diagnostics.rules import losses, unread
from specgen.diagnostics.rules.expressions import UNDEFINED
from specgen.expr import Function
from specgen.schema.load import SchemaFile, is_dropped, to_data
from specgen.schema.loss import Loss
from specgen.schema.module import Module
from specgen.source import Mapping as MappingNode
from specgen.source import Node, Scalar, Sequence
from specgen.values import dataclass, replace

_OWN = ("doc", "abstract", "extends", "allow")
"""Fields that a loss does not take over."""

_BY_FIELD = {
    "networks": None,
    "keys": "key",
    "params": "default",
    "learnable": None,
    "modules": None,
}
"""Sections whose entries are merged field by field, and the field that an entry in its short form gives."""

_BY_NAME = ("require", "let", "terms", "metrics", "writes", "methods", "reduce", "update")
"""Sections whose entries are replaced as wholes."""


@dataclass(frozen=True)
class ParentLoss:
    """A loss as those know it that extend it.

    Attributes:
        name: its name.
        module: the dotted module of its class.
        node: what it declares, with what it inherits; None where that can't be said.
        abstract: whether it has no class.
        allow: codes of warnings that it and the abstract ones above it allow.
        made: its class, or that of the nearest loss above it that has one; None where none has.
        functions: the functions of files that it calls, also what it inherits.
        sound: whether nothing is wrong with it and with what it extends.
    """

    name: str
    module: str
    node: MappingNode | None
    abstract: bool
    allow: frozenset[str] = frozenset()
    made: LossClass | None = None
    functions: Mapping[str, Function] = field(default_factory=dict)
    sound: bool = True


@dataclass(frozen=True)
class WholeLosses:
    """The losses of a file, made whole.

    Attributes:
        file: the file with whole losses in the place of those that extend others.
        order: those that can be checked, parents before those that extend them.
        parents: the losses of the file as parents of others.
        bases: of each loss that extends another, that one.
    """

    file: SchemaFile
    order: tuple[str, ...]
    parents: dict[str, ParentLoss]
    bases: dict[str, ParentLoss]


def whole_losses(
    file: SchemaFile, module: str, imported: Mapping[str, ParentLoss], others: Iterable[str], sink: Sink
) -> WholeLosses:
    """Put together every loss of a file that extends another one.

    Args:
        file: the loaded file.
        module: its dotted generated module.
        imported: the losses of other files that it sees.
        others: names of declarations that are no losses.
        sink: takes parents that are none, circles of them, and what is dropped and was never there.
    """
    nodes = file.root.get("losses")
    if not isinstance(nodes, MappingNode) or not any(loss.extends for loss in file.module.losses.values()):
        parents = {
            name: _parent(name, module, _mapping(file, name), loss, None)
            for name, loss in file.module.losses.items()
        }
        return WholeLosses(file, tuple(file.module.losses), parents, {})
    merger = _Merger(file, module, imported, frozenset(others), sink)
    order = tuple(merger.ordered())
    losses = {
        name: Loss.model_validate(to_data(node)) if (node := merger.parents[name].node) is not None else loss
        for name, loss in file.module.losses.items()
    }
    entries = tuple((key, merger.parents[key.text].node or node) for key, node in nodes.entries)
    whole = MappingNode(entries, nodes.span, nodes.lost)
    root = MappingNode(
        tuple((key, whole if key.text == "losses" else node) for key, node in file.root.entries),
        file.root.span,
        file.root.lost,
    )
    made: Module = file.module.model_copy(update={"losses": losses})
    return WholeLosses(SchemaFile(file.path, made, root), order, merger.parents, merger.bases)


def said_of_child(
    found: Sink, file: SchemaFile, name: str, base: ParentLoss, dropped: Mapping[str, Span]
) -> Sink:
    """What is to be said of a loss that extends another one.

    Mistakes in what it inherits stand where that is written, with a note of the loss where they were found; that it
    reads what the loss drops is said once. Of warnings there those are left out that the parent gave already, or allows, and that something inherited is not read.

    Args:
        found: everything that was found.
        file: the file of the loss, made whole.
        name: the loss.
        base: what it extends.
        dropped: the names that it drops, and where.
    """
    kept = Sink()
    missed: set[str] = set()
    whole = file.whole_span("losses", name)
    note = Note(f"`{name}` inherits it", file.span("losses", name, "extends"))
    given = base.made is not None
    for item in found.items:
        if item.span.begins_in(whole):
            unknown = item.rule is UNDEFINED and item.help is None
            kept.add(replace(item, help=_names_of(base)) if unknown else item)
        elif item.severity == "error":
            gone = next((each for each in dropped if item.message == f"undefined name `{each}`"), None)
            if gone in missed:
                continue
            notes, help = (*item.notes, note), item.help
            if gone is not None:
                missed.add(gone)
                notes = (*notes, Note(f"`{name}` drops `{gone}`", dropped[gone]))
                help = f"drop what reads `{gone}` too, or replace it"
            kept.add(item.rule.at(item.span, item.message, label=item.label, notes=notes, help=help))
        elif not given and item.code not in base.allow and item.rule not in _UNREAD:
            kept.add(item)
    return kept


def _names_of(base: ParentLoss) -> str | None:
    """The names that a loss hands on to those that extend it."""
    sections = {"let": "values", "keys": "keys", "networks": "networks"}
    found: list[str] = []
    for section, what in sections.items():
        node = None if base.node is None else base.node.get(section)
        if isinstance(node, MappingNode) and node.entries:
            names = [f"`{key.text}`" for key, _ in node.entries]
            found.append(f"{what} {', '.join(names)}")
    return f"`{base.name}` has the {'; the '.join(found)}" if found else None


def dropped_names(file: SchemaFile, name: str) -> dict[str, Span]:
    """The names that a loss drops of those that it would inherit, and where it says so.

    Args:
        file: the file as it was loaded.
        name: the loss.
    """
    sections = _mapping(file, name)
    nodes = () if sections is None else (node for _, node in sections.entries)
    return {
        key.text: key.span
        for node in nodes
        if isinstance(node, MappingNode)
        for key, entry in node.entries
        if is_dropped(entry)
    }


_UNREAD = (unread.UNREAD_DECLARATION, losses.UNUSED_TARGET)

_Inner = Callable[[str, Node, Node], Node]
"""How two nodes of one name become one."""


class _Merger:
    """Makes the losses of one file whole."""

    def __init__(
        self,
        file: SchemaFile,
        module: str,
        imported: Mapping[str, ParentLoss],
        others: frozenset[str],
        sink: Sink,
    ) -> None:
        self.file, self.module, self.imported, self.others, self.sink = file, module, imported, others, sink
        self.parents: dict[str, ParentLoss] = {}
        self.bases: dict[str, ParentLoss] = {}
        self._open: list[str] = []

    def ordered(self) -> Iterator[str]:
        """The losses that can be checked, parents first; fills `parents` and `bases`."""
        for name in self.file.module.losses:
            yield from self._make(name)

    def _make(self, name: str) -> Iterator[str]:
        if name in self.parents:
            return
        loss = self.file.module.losses[name]
        node = _mapping(self.file, name)
        base = None
        if loss.extends is not None:
            self._open.append(name)
            if loss.extends not in self._open and loss.extends in self.file.module.losses:
                yield from self._make(loss.extends)
            self._open.pop()
            base = self._base(name, loss.extends)
            if base is None or base.node is None:
                self.parents[name] = ParentLoss(name, self.module, None, loss.abstract, sound=False)
                return
            node = merged(base.node, node, name, base.name, self.sink)
            self.bases[name] = base
        self.parents[name] = _parent(name, self.module, node, loss, base)
        yield name

    def _base(self, name: str, parent: str) -> ParentLoss | None:
        """What a loss extends; None after reporting that it is nothing, or has a mistake itself."""
        losses = self.file.module.losses
        span = self.file.span("losses", name, "extends")
        if parent in self.parents:
            return self.parents[parent]
        if parent in self._open or parent == name:
            circle = [name, *self._open[self._open.index(parent) :], name] if parent != name else [name, name]
            message = f"`{name}` extends itself: {' -> '.join(circle)}"
            self.sink.add(rules.EXTENDS_ITSELF.at(span, message, help="let one of them stand by itself"))
            return None
        if parent in self.imported:
            return self.imported[parent]
        known = [*(one for one in losses if one != name), *self.imported]
        if parent in self.others:
            message, help = f"`{parent}` is no loss", "a loss extends a loss"
            self.sink.add(rules.UNKNOWN_PARENT.at(span, message, help=help))
        else:
            self.sink.add(unseen("loss", parent, ("losses",), known, span, rule=rules.UNKNOWN_PARENT))
        return None


def _mapping(file: SchemaFile, name: str) -> MappingNode:
    node = file.node("losses", name)
    assert isinstance(node, MappingNode), "loaded declarations are mappings"
    return node


def _parent(name: str, module: str, node: MappingNode, loss: Loss, base: ParentLoss | None) -> ParentLoss:
    allow = frozenset(loss.allow) | (base.allow if base is not None else frozenset())
    return ParentLoss(name, module, node, loss.abstract, allow)


def merged(parent: MappingNode, child: MappingNode, name: str, base: str, sink: Sink) -> MappingNode:
    """The whole declaration of a loss.

    Args:
        parent: the whole declaration of what it extends.
        child: what it says itself.
        name, base: what both are called.
        sink: takes what is dropped and is not there.
    """
    inherited = MappingNode(
        tuple((key, node) for key, node in parent.entries if key.text not in _OWN), parent.span
    )
    merger = _Nodes(name, base, sink)
    whole = _order_of_the_rest(merger.merged(inherited, child, "", merger.section), child)
    return merged_lets(whole, parent.get("let"), child.get("let"))


def _order_of_the_rest(whole: MappingNode, child: MappingNode) -> MappingNode:
    """The declaration with an order of outputs that is inherited without those that the child drops."""
    order = whole.get("out_keys")
    if not isinstance(order, Sequence) or child.get("out_keys") is not None:
        return whole
    sections = [node for name in ("terms", "metrics") if isinstance(node := child.get(name), MappingNode)]
    gone = {key.text for section in sections for key, node in section.entries if is_dropped(node)}
    left = tuple(one for one in order.items if not (isinstance(one, Scalar) and one.text in gone))
    kept = replace(order, items=left)
    entries = tuple((key, kept if node is order else node) for key, node in whole.entries)
    return replace(whole, entries=entries)


@dataclass(frozen=True)
class _Nodes:
    """Merges the nodes of two losses."""

    name: str
    base: str
    sink: Sink

    def merged(self, parent: MappingNode, child: MappingNode, where: str, inner: _Inner) -> MappingNode:
        """Both mappings by key, the child's over the parent's; `inner` merges what both have."""
        made = {key.text: (key, node) for key, node in parent.entries}
        for key, node in child.entries:
            if is_dropped(node):
                if made.pop(key.text, None) is None:
                    message = f"`{self.base}` has no `{where}{key.text}` that `{self.name}` could drop"
                    known = [one.text for one, _ in parent.entries]
                    help = suggestion(key.text, known) or "leave it out"
                    self.sink.add(rules.NOTHING_TO_DROP.at(key.span, message, help=help))
            elif key.text in made or isinstance(node, MappingNode):
                old = made[key.text][1] if key.text in made else MappingNode((), node.span)
                made[key.text] = (key, inner(key.text, old, node))
            else:
                made[key.text] = (key, node)
        return MappingNode(tuple(made.values()), child.span, parent.lost | child.lost)

    def section(self, section: str, parent: Node, child: Node) -> Node:
        """A section that both have."""
        if section == "value_estimator":
            return self._by_field("default", parent, child, "value_estimator")
        if section in _BY_NAME and isinstance(parent, MappingNode) and isinstance(child, MappingNode):
            return self.merged(parent, child, f"{section}.", lambda name, old, new: new)
        if section not in _BY_FIELD or not (
            isinstance(parent, MappingNode) and isinstance(child, MappingNode)
        ):
            return child
        short = _BY_FIELD[section]
        return self.merged(
            parent,
            child,
            f"{section}.",
            lambda name, old, new: self._by_field(short, old, new, f"{section}.{name}"),
        )

    def _by_field(self, short: str | None, parent: Node, child: Node, where: str) -> Node:
        """An entry that both have: its fields, of which the `short` one may stand for the entry."""
        old, new = _long(parent, short), _long(child, short)
        if old is None or new is None or (isinstance(parent, Scalar) and isinstance(child, Scalar)):
            return child
        return self.merged(old, new, f"{where}.", lambda name, old, new: new)


def _long(node: Node, short: str | None) -> MappingNode | None:
    if isinstance(node, MappingNode):
        return node
    if short is None or not isinstance(node, Scalar):
        return None
    return MappingNode(((Scalar(short, "plain", short, node.span), node),), node.span)
