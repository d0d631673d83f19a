"""What a loss computes or keeps and nothing reads: values under `let`, target parameters, parts of an action."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from specgen.check.losses.forward import Forward, Read, parts_of
from specgen.check.losses.model import LossNetwork
from specgen.check.losses.numbers import Coefficient
from specgen.check.unread import all_reads, report_unread
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import losses as rules
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Estimator, Loss, Method
from specgen.source import Mapping as MappingNode


def report_unread_values(
    file: SchemaFile, path: tuple[str, ...], loss: Loss, masked: Iterable[str], sink: Sink
) -> None:
    """Report a value that nothing reads: most often another one is read in its place.

    Args:
        file, path, loss: where the loss is declared, and what it says.
        masked: the terms that have a mask.
        sink: takes what is found.
    """
    sections = ("let", "terms", "metrics", "writes", "update", "mask")
    nodes = {name: file.node(*path, name) for name in sections if getattr(loss, name)}
    masks = [file.node(*path, "terms", name, "mask") for name in masked]
    let, reads = nodes.get("let"), all_reads([*nodes.values(), *masks])
    given = loss.value_estimator
    if isinstance(let, MappingNode) and reads is not None:
        if isinstance(given, Estimator) and given.value is not None:
            reads |= {given.value}
        full = [one for one in loss.methods.values() if isinstance(one, Method)]
        reads |= {one.value for one in full if one.value is not None}
        report_unread(let, loss.let, reads, reads, sink)


def report_unused_targets(
    file: SchemaFile,
    path: tuple[str, ...],
    loss: Loss,
    networks: Iterable[LossNetwork],
    called: Collection[str],
    sink: Sink,
) -> None:
    """Report networks whose target copy nothing calls; `called` are those where something does."""
    given = loss.value_estimator
    for network in networks:
        used = network.name in called or (isinstance(given, Estimator) and network.name == given.network)
        if network.target is not False and not used:
            sink.add(
                rules.UNUSED_TARGET.at(
                    file.key_span(*path, "networks", network.name, "target"),
                    f"nothing calls `{network.name}.target`",
                    help=f"call {network.name}.target(next), or remove `target`",
                )
            )


def report_parts_without_entropies(
    file: SchemaFile,
    path: tuple[str, ...],
    coefficients: Mapping[str, Coefficient],
    found: Iterable[Forward],
    sink: Sink,
) -> None:
    """Report numbers of parts of an action where no `entropies` is among the values found: nothing tells which parts there are."""
    reads = (part for made in found for part in parts_of(made.value) if isinstance(part, Read))
    if any(read.function == "entropies" for read in reads):
        return
    for one in coefficients.values():
        if one.by_part:
            sink.add(
                rules.PARAM_FORM.at(
                    file.key_span(*path, "params", one.name, "by_part"),
                    f"`{one.name}` is one for each part of an action, and nothing reads the parts",
                    help="weigh `entropies(…)` of a policy with it, or leave `by_part` out",
                )
            )
