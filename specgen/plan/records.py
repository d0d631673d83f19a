"""The Root and Next records of an environment or chain: what a step reads, and what it computes."""

from __future__ import annotations

from specgen.plan.data import annotation
from specgen.plan.interface import FLAG_DOCS, RecordField
from specgen.plan.model import AliasPlan, Field, RecordPlan


def step_records(
    name: str,
    root: tuple[RecordField, ...],
    after: tuple[RecordField, ...],
    root_doc: str,
    next_doc: str,
) -> tuple[RecordPlan, RecordPlan | AliasPlan]:
    """The Root and the Next record; the second is another name of the first where it has the same fields.

    Args:
        name: of the environment or chain.
        root: the fields of Root.
        after: the fields of Next: those, and rewards that the step computes.
        root_doc: what Root is, in a line.
        next_doc: what Next is, without a full stop.
    """
    first = RecordPlan(f"{name}Root", (root_doc,), tuple(_field(field, field.doc) for field in root))
    if root == after:
        return first, AliasPlan(f"{name}Next", first.name, (f"{next_doc}: the same fields.",))
    known = {field.name for field in root}
    fields = tuple(_field(field, "" if field.name in known else field.doc) for field in after)
    return first, RecordPlan(f"{name}Next", (f"{next_doc}: the fields of `{first.name}`, and more.",), fields)


def _field(field: RecordField, doc: str) -> Field:
    return Field(field.name, annotation(field.type), doc="" if doc == FLAG_DOCS.get(field.key[-1]) else doc)
