"""The losses of one file, parents before those that extend them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specgen.check.losses.loss import CheckedLoss, LossChecker
from specgen.check.losses.method_values import check_method_values
from specgen.check.losses.model import LossClass
from specgen.check.losses.parents import ParentLoss, dropped_names, said_of_child, whole_losses
from specgen.check.losses.part_names import check_part_names
from specgen.check.losses.sizes import refuse_unknown_sizes
from specgen.check.model import Checked
from specgen.check.shared_functions import NO_FUNCTIONS, SharedFunctions, called_in
from specgen.diagnostics import Sink
from specgen.diagnostics.rules.yaml import IMPORT_CLASH
from specgen.expr import Function
from specgen.schema.load import SchemaFile
from specgen.source import Mapping as MappingNode
from specgen.source import Node, Scalar
from specgen.values import replace


def check_losses(
    file: SchemaFile,
    module: str,
    imported: Mapping[str, ParentLoss],
    others: frozenset[str],
    sink: Sink,
    functions: SharedFunctions = NO_FUNCTIONS,
) -> tuple[dict[str, Checked[CheckedLoss]], dict[str, ParentLoss]]:
    """Check every loss of a file that has a class.

    Args:
        file: the loaded file.
        module: its dotted generated module.
        imported: the losses of other files that it sees.
        others: names of declarations that are no losses.
        functions: the functions of files that they may call.
        sink: takes every mistake; what is wrong in a loss with a class is not said again of those that extend it.

    Returns:
        The checked losses, parents first, and all of them as those know them that extend them.
    """
    whole = whole_losses(file, module, imported, others, sink)
    checked: dict[str, Checked[CheckedLoss]] = {}
    parents = dict(whole.parents)
    for name in whole.order:
        base = whole.bases.get(name)
        base = parents.get(base.name, base) if base is not None else None
        within_reach = functions
        if base is not None:
            seen = _not_hidden(functions, base, parents[name])
            within_reach = _with_inherited(seen, base, whole.file, name, sink)
        parents[name] = replace(parents[name], functions=_called(parents[name], within_reach))
        if base is not None and not base.sound:
            parents[name] = replace(parents[name], sound=False)
            continue
        above = base.made if base is not None else None
        if parents[name].abstract:
            parents[name] = replace(parents[name], made=above)
            continue
        found = Sink()
        loss = check_loss(whole.file, name, module, found, above, within_reach)
        if loss is not None:
            check_method_values(whole.file, loss.value, found)
        if base is not None:
            found = said_of_child(found, whole.file, name, base, dropped_names(file, name))
        sink.extend(found.items)
        if loss is None:
            parents[name] = replace(parents[name], sound=False)
        else:
            checked[name] = loss
            value = loss.value
            methods = tuple((one, method.arguments) for one, method in value.methods.items())
            made = LossClass(name, module, value.accepted, value.properties, methods, len(value.out_keys))
            parents[name] = replace(parents[name], made=made)
    check_part_names(file, [loss.value for loss in checked.values()], sink)
    return checked, parents


def _not_hidden(functions: SharedFunctions, base: ParentLoss, loss: ParentLoss) -> SharedFunctions:
    """The functions that a file sees, without those that a loss does not call and inherits a value of the name of."""
    if base.node is None or loss.node is None:
        return functions
    values = {key.text for _, section in base.node.entries for key in _keys(section)}
    hidden = (values & functions.known.keys()) - set(called_in(loss.node))
    return replace(
        functions, known={name: one for name, one in functions.known.items() if name not in hidden}
    )


def _keys(node: Node) -> Iterator[Scalar]:
    """The keys of a section of a declaration."""
    if isinstance(node, MappingNode):
        yield from (key for key, _ in node.entries)


def _with_inherited(
    functions: SharedFunctions, base: ParentLoss, file: SchemaFile, name: str, sink: Sink
) -> SharedFunctions:
    """What a loss may call: the functions that its file sees, and those that it inherits calls of.

    Args:
        functions: those that its file sees.
        base: the loss that it extends.
        file: its file.
        name: the loss.
        sink: takes functions of one name that differ.
    """
    for one, inherited in base.functions.items():
        here = functions.known.get(one)
        if here is not None and here.module != inherited.module:
            message = f"`{base.name}` calls `{one}` of {inherited.module}, and here that is a function of {here.module}"
            span = file.span("losses", name, "extends")
            sink.add(IMPORT_CLASH.at(span, message, help=f"rename the `{one}` of {here.module}"))
    unseen = {one: base.name for one in base.functions if one not in functions.known}
    return replace(functions, known={**base.functions, **functions.known}, inherited=unseen)


def _called(loss: ParentLoss, functions: SharedFunctions) -> dict[str, Function]:
    """The functions of files that a whole declaration calls."""
    called = set(called_in(loss.node)) if functions.known and loss.node is not None else set()
    return {name: function for name, function in functions.known.items() if name in called}


def check_loss(
    file: SchemaFile,
    name: str,
    module: str,
    sink: Sink,
    parent: LossClass | None = None,
    functions: SharedFunctions = NO_FUNCTIONS,
) -> Checked[CheckedLoss] | None:
    """Check one loss.

    Args:
        file: where it is declared.
        name: its name under `losses:`.
        module: the generated module that it goes to, dotted.
        sink: takes every mistake.
        parent: the class that its class extends; None of one that extends no declared one.
        functions: the functions of files that it may call.

    Returns:
        The checked loss, or ``None`` when there were errors.
    """
    mine, declared = Sink(), file.module.losses[name]
    checker = LossChecker(file, name, module, declared, mine, parent, functions)
    loss = checker.run()
    if loss is not None and not mine.has_errors:
        refuse_unknown_sizes(file, checker.assigned, mine)
    sink.extend(mine.items)
    return None if mine.has_errors or loss is None else Checked(loss)
