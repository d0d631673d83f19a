"""Regions as torch: loops that carry values, scans along an axis of time, and blocks without gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from specgen.expr import Symbol, Typed
from specgen.expr.printer import FunctionTexts
from specgen.program.program import Assign, Carried, Region, Statement
from specgen.program.walk import read, reads, reads_symbol, store, targets, where
from specgen.values import dataclass


@dataclass(frozen=True)
class FunctionPrinter:
    """What the printer of the whole function does for a region in it.

    Attributes:
        names: The names of values; those of the region are added.
        forced: Names that values of a region must get: what a loop carries on keeps its name.
        texts: What its expressions share.
        expr: Prints an expression.
        block: Prints statements as an indented block, with what is read behind them.
        new_name: A name that nothing has, for a symbol.
        unused: A name that nothing has, like the one that is given.
        is_free: Whether a name is read in a statement for the last time, so that it can be taken again.
    """

    names: dict[Symbol, str]
    forced: dict[Symbol, str]
    texts: FunctionTexts
    expr: Callable[[Typed], str]
    block: Callable[[Sequence[Statement], Sequence[Symbol]], str]
    new_name: Callable[[Symbol], str]
    unused: Callable[[str], str]
    is_free: Callable[[str, Statement], bool]


def region_lines(region: Region, printer: FunctionPrinter) -> list[str]:
    """The statements of a region, each perhaps of several lines."""
    match region.kind:
        case "no_grad":
            lines = [
                f"with {printer.texts.call('torch.no_grad').text}:{printer.block(region.body, [inner for _, inner in region.results])}"
            ]
            printer.names.update((outer, printer.names[inner]) for outer, inner in region.results)
            return lines
        case "repeat":
            return _repeat(region, printer)
        case "scan":
            return _scan(region, printer)
        case "when":
            return _when(region, printer)


def _when(region: Region, printer: FunctionPrinter) -> list[str]:
    """A condition on one row: its values are as before, or what the statements make of them."""
    assert region.condition is not None
    negated = region.condition.op == "not"
    lines = _begin(region, printer)
    _keep_names(region, printer)
    block = printer.block(region.body, [one.after for one in region.carried])
    updates = _updates([(one, read(one.after)) for one in region.carried], printer)
    flag = printer.expr(region.condition.args[0] if negated else region.condition)
    lines.append(f"if {'not ' if negated else ''}bool({flag}):{block}{updates}")
    return lines


def _repeat(region: Region, printer: FunctionPrinter) -> list[str]:
    """A loop; with a mask, rows that are finished keep what they have, or it is left where its one row is finished."""
    assert region.count is not None
    lines = _begin(region, printer)
    if region.mask is None or region.leaves:
        _keep_names(region, printer)
    index = "_"
    if region.index is not None:
        index = printer.names[region.index] = printer.unused(region.index.name)
    lists = [(outer, inner, printer.unused(f"{outer.name}_of_each")) for outer, inner in region.results]
    for _, _, name in lists:
        printer.texts.uses.add("Tensor")
        lines.append(f"{name}: list[Tensor] = []")
    block = printer.block(region.body, [inner for _, inner, _ in lists])
    for _, inner, name in lists:
        block += f"\n    {name}.append({printer.names[inner]})"
    # The mask comes last: it says which rows keep the others.
    carried = sorted(region.carried, key=lambda one: one.inner == region.mask)
    updates = _updates([(one, _handed_on(region, one)) for one in carried], printer)
    count = printer.expr(region.count)
    over = ""
    if region.leaves:
        assert region.mask is not None
        over = f"\n    if bool({printer.names[region.mask]}):\n        break"
    lines.append(f"for {index} in range({count}):{over}{block}{updates}")
    for outer, inner, name in lists:
        if region.leaves:
            nothing = printer.texts.call("torch.zeros_like", f"{name}[0]").text
            lines.append(f"{name} += [{nothing}] * ({count} - len({name}))")
        printer.names[outer] = printer.new_name(outer)
        axis = str(-len(inner.type.shape) - inner.type.col - 1)
        lines.append(f"{printer.names[outer]} = {printer.texts.call('torch.stack', name, axis).text}")
    return lines


def _handed_on(region: Region, one: Carried) -> Typed:
    """What the next iteration starts with: in the rows that are finished, what this one started with."""
    if region.mask is None or region.leaves or one.inner == region.mask:
        return read(one.after)
    return store(where(region.mask, one.inner, one.after), one.inner.type)


def _scan(region: Region, printer: FunctionPrinter) -> list[str]:
    """A loop over the first axis: what is read along it is indexed, what comes of it is written into its place."""
    names = printer.names
    whole = {outer: names[outer] for outer, _ in region.over}
    asked = _asked_for(region)  # None at all times, or a value at each
    there = [outer for outer, inner in region.over if inner not in asked]
    # Before the loop, one time of a value along the axis tells rows and device.
    names.update((outer, f"{name}[0]") for outer, name in whole.items())
    lines = _begin(region, printer)
    names.update(whole)
    time = printer.unused("t")
    places: list[tuple[Symbol, str, bool]] = []
    for outer, inner in region.results:
        alike = next((whole[one] for one in there if one.type == outer.type), None)
        name = printer.new_name(outer) if alike is not None else printer.unused(f"{outer.name}_of_each")
        if alike is not None:
            lines.append(f"{name} = {printer.texts.call('torch.empty_like', alike).text}")
        else:
            printer.texts.uses.add("Tensor")
            lines.append(f"{name}: list[Tensor] = []")
        places.append((inner, name, alike is not None))
    names.update((inner, f"{whole[outer]}[{time}]") for outer, inner in region.over)
    first = ""
    for outer, inner in region.over:
        if inner in asked:
            name = names[inner] = printer.unused(f"{outer.name}_now")
            first += f"\n    {name} = None if {whole[outer]} is None else {whole[outer]}[{time}]"
    _keep_names(region, printer)
    block = first + printer.block(region.body, ())
    for inner, name, has_place in places:
        value = names[inner]
        block += f"\n    {name}[{time}] = {value}" if has_place else f"\n    {name}.append({value})"
    block += _updates([(one, read(one.after)) for one in region.carried], printer)
    times = f"range({whole[there[0]]}.shape[0])"
    lines.append(f"for {time} in {f'reversed({times})' if region.backward else times}:{block}")
    for (outer, _), (_, name, has_place) in zip(region.results, places, strict=True):
        names[outer] = name
        if not has_place:
            names[outer] = printer.new_name(outer)
            stacked = printer.texts.call("torch.stack", f"{name}{'[::-1]' if region.backward else ''}")
            lines.append(f"{names[outer]} = {stacked.text}")
    return lines


def _asked_for(region: Region) -> set[Symbol]:
    """What a region asks of whether it is there."""
    values = (one.value for one in region.body if isinstance(one, Assign))
    return {
        node.args[0].symbol
        for value in values
        for node in value.nodes
        if node.op == "given" and node.args[0].symbol is not None
    }


def _begin(region: Region, printer: FunctionPrinter) -> list[str]:
    """The first values of what a region carries; a name that nothing else reads any more goes on."""
    lines: list[str] = []
    read_inside = {symbol for statement in region.body for symbol in reads(statement)}
    inits = Counter(one.init.symbol for one in region.carried if reads_symbol(one.init))
    for one in region.carried:
        text, symbol = printer.expr(one.init), one.init.symbol if reads_symbol(one.init) else None
        alone = symbol is not None and symbol not in read_inside and inits[symbol] == 1
        if alone and text.isidentifier() and printer.is_free(text, region):
            name = text
        else:
            name = printer.new_name(one.inner)
            lines.append(f"{name} = {text}")
        printer.names[one.inner] = name
        if one.result is not None:
            printer.names[one.result] = name
    return lines


def _keep_names(region: Region, printer: FunctionPrinter) -> None:
    """What an iteration hands on gets the name of what it was given, where nothing reads that afterwards."""
    ends = {one.after for one in region.carried} | {inner for _, inner in region.results}
    for one in region.carried:
        at = next((k for k, statement in enumerate(region.body) if one.after in targets(statement)), None)
        if at is None or not isinstance(region.body[at], Assign) or one.after in printer.forced:
            continue
        if one.inner not in ends and not any(one.inner in reads(later) for later in region.body[at + 1 :]):
            printer.forced[one.after] = printer.names[one.inner]


def _updates(updates: Sequence[tuple[Carried, Typed]], printer: FunctionPrinter) -> str:
    """The assignments at the end of an iteration; in one line, where one of them reads what another changes."""
    pairs: list[tuple[str, str]] = []
    changed: set[Symbol] = set()
    at_once = False
    for one, value in updates:
        name, text = printer.names[one.inner], printer.expr(value)
        at_once = at_once or not changed.isdisjoint(value.symbols_read)
        changed.add(one.inner)
        if name != text:
            pairs.append((name, text))
    if at_once:
        names, texts = (", ".join(side) for side in zip(*pairs, strict=True))
        return f"\n    {names} = {texts}"
    return "".join(f"\n    {name} = {text}" for name, text in pairs)
