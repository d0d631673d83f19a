"""Which samples of a loss count: masks of the declaration, of terms and of keys; and the dimensions of a sample."""

from __future__ import annotations

from typing import Final, Literal

from specgen.check.losses.batch import LOSS_BATCH
from specgen.check.losses.model import CheckedLoss
from specgen.check.model import Statement
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import loss_conditions as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import Type, Typed, full
from specgen.expr.builtins.record import Builtin, Param
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Loss, LossKey
from specgen.source import Scalar

COUNTED: Final = Builtin(
    name="combined_mask",
    family="condition",
    doc="Which samples count: those of a mask of the loss that no other one leaves out.",
    params=(Param("own"), Param("mask")),
    infer=lambda site: site.node(site.values[0].type),
    interval=lambda args, node: full("bool"),
    torch=lambda node, printer: printer.call(
        "combined_mask", *(printer.logical(arg).text for arg in node.args)
    ),
    reference=lambda np, own, mask: np.logical_and(own, mask),
    layout=lambda args: (),
)


def counted(own: Typed, mask: Typed) -> Typed:
    """Which samples count for a mask of the loss and the one that it is given, which may be None."""
    return Typed(COUNTED.name, Type("bool"), full("bool"), (own, mask), builtin=COUNTED)


def is_mask(typed: Typed, source: Scalar, sink: Sink) -> bool:
    """Whether an expression is one truth value of each sample; reported where it is not."""
    kind = typed.type
    if kind.dtype == "bool" and kind.level == "batch" and kind.dims == () and not kind.axes:
        return True
    same = ", the same for all" if kind.level != "batch" else ""
    message = f"a mask is one truth value of each sample, this is {kind}{same}"
    help = "what is decided by parameters alone is said with `when`" if kind.python else None
    sink.add(rules.WRONG_MASK.at(source.span, message, help=help))
    return False


def mask_of_key(
    file: SchemaFile, here: tuple[str, ...], key: LossKey, type: Type | None, sink: Sink
) -> Literal["true", "not"] | None:
    """Whether a key says which samples count (`true`), or which don't (`not`)."""
    if key.mask is None:
        return None
    if key.mask not in ("true", "not"):
        message = f"`mask` is true, or `not` where the key marks samples that don't count; it is `{key.mask}`"
        sink.add(rules.WRONG_MASK.at(file.span(*here, "mask"), message))
        return None
    if type is None or type.dtype != "bool" or type.dims != ():
        message = f"a mask is one truth value of each sample, `{here[-1]}` is {type or 'of no declared type'}"
        sink.add(rules.WRONG_MASK.at(file.span(*here, "mask"), message, help="write `type: bool`"))
        return None
    return "not" if key.mask == "not" else "true"


def sample_dimensions(file: SchemaFile, path: tuple[str, ...], loss: Loss, sink: Sink) -> tuple[str, ...]:
    """The dimensions of a sample behind those of the batch; the first that is declared is the batch."""
    if not loss.samples:
        return ()
    first, *others = loss.samples
    if (
        first != "batch"
        or len(set(loss.samples)) < len(loss.samples)
        or not all(o.isidentifier() for o in others)
    ):
        message = "`samples` are the dimensions of what counts as a sample: `batch`, then others with names of their own"
        help = "write `samples: [batch, agents]`"
        sink.add(schema_rules.WRONG_TYPE.at(file.span(*path, "samples"), message, help=help))
        return ()
    return tuple(others)


def report_late_masks(loss: CheckedLoss, sink: Sink) -> None:
    """Report statistics over the batch that stand before values which the mask of the samples reads."""
    if loss.mask is None:
        return
    names = [statement.target for statement in loss.let]
    needed = values_of_mask(loss, loss.mask)
    last = max((names.index(name) for name in needed), default=-1)
    for statement in loss.let[: last + 1]:
        called = [node for node in statement.typed.nodes if node.op in LOSS_BATCH]
        if called:
            span = statement.source.span_of(called[0].start, called[0].end)
            message = (
                f"which samples count is not known here: the mask reads `{names[last]}`, which comes later"
            )
            help: str | None = f"put `{statement.target}` behind `{names[last]}`"
            if statement.target in needed:
                message, help = (
                    f"the mask reads `{statement.target}`, which is a statistic of the samples that count",
                    None,
                )
            sink.add(rules.WRONG_MASK.at(span, message, help=help))


def values_of_mask(loss: CheckedLoss, mask: Statement) -> set[str]:
    """The values that a mask reads, and those that they read."""
    let = {statement.target: statement for statement in loss.let}
    found: set[str] = set()
    open_names = [name for name in mask.reads if name in let]
    while open_names:
        name = open_names.pop()
        if name not in found:
            found.add(name)
            open_names += [one for one in let[name].reads if one in let]
    return found
