"""What a chain's class says of its transforms that learn: they are made once, for the keys at their positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from specgen.check.chains.model import CheckedChain, Instance, role_entries
from specgen.check.model import Entry, Parameter
from specgen.check.transforms.entries import Role
from specgen.code import Code, using, value_code
from specgen.expr.symbols import Key
from specgen.literals import literal
from specgen.plan.envs.model import LearnerPlan
from specgen.plan.model import CallPlan, Field, RecordPlan
from specgen.plan.spec_text import key_text, nested


def learned_record(chain: CheckedChain) -> RecordPlan | None:
    """The statistics of a chain's transforms, as its functions take them; None where none learns."""
    fields = tuple(
        Field(
            instance.field,
            using("LearnedStatistics", "LearnedStatistics"),
            doc=f"what {instance.transform.name} has learned",
        )
        for instance in _learning(chain)
    )
    if not fields:
        return None
    return RecordPlan(
        f"{chain.name}Learned", (f"What the transforms of `{chain.name}` have learned.",), fields
    )


def plan_learners(chain: CheckedChain) -> tuple[LearnerPlan, ...]:
    """How the class makes its transforms that learn."""
    return tuple(
        LearnerPlan(
            instance.field,
            instance.position,
            CallPlan(instance.transform.name, tuple(_arguments(instance))),
            _entries(_in_order(instance)),
            _columns(instance),
            tuple(sorted(instance.networks.items())),
            tuple((name, one.name) for name, one in instance.params.items() if isinstance(one, Parameter)),
        )
        for instance in _learning(chain)
    )


def _learning(chain: CheckedChain) -> Iterator[Instance]:
    return (instance for instance in chain.instances if instance.learns)


def _arguments(instance: Instance) -> Iterator[Code]:
    """The keys at this position, the networks, and the parameters that are not as by default."""
    transform = instance.transform
    for role in transform.forward:
        if role.varargs:
            yield using(f"*{_keys(_taken(instance, role))}")
    yield from (Code(f"{one.name}={instance.networks[one.name]}") for one in transform.networks)
    for param in transform.params:
        value = instance.params[param.name]
        if isinstance(value, Parameter):
            yield using(f"{param.name}=self.params.{value.name}")
        elif param.required or value != param.default:
            code = value_code(value)
            yield using(f"{param.name}={code}", *code.uses)
    listed = [role for role in transform.forward if role.listed]
    # Several of them have defaults of their own where nobody says `in_keys`.
    if len(listed) == 1 or (listed and "in_keys" in instance.arguments):
        lead = transform.driver(inverse=False)
        yield using(f"in_keys={_keys(_taken(instance, lead if lead in listed else listed[0]))}")
    for role in transform.forward:
        entries = _taken(instance, role)
        if role.listed:
            continue
        if not entries and role.may_be_missing:
            continue
        if role.keyword is not None and role.form == "each":
            yield using(f"{role.keyword}={_keys(entries)}")
        elif role.keyword is not None:
            key = entries[0].key
            yield using(f"{role.keyword}={key_text(key[-1:] if role.beside else key)}")


def _taken(instance: Instance, role: Role) -> list[Entry]:
    """What a role stands for, in all repetitions."""
    return [entry for row in instance.rows for entry in role_entries(row, role)]


def _in_order(instance: Instance) -> list[Entry]:
    """What it works on, in the order of its specs: that of the keys of a group."""
    taken = {entry.dotted: entry for row in instance.rows for entry in row.inputs.values()}
    return [taken[key] for key in instance.entries if key in taken]


def _entries(entries: Iterable[Entry]) -> Code:
    """One row of each entry, as nested dicts."""
    rows = {}
    for entry in entries:
        rows[entry.key] = f"torch.zeros({literal(tuple(entry.stored_shape))}, dtype=torch.{entry.type.dtype})"
    return using(_dict(nested(list(rows.items()))), "torch")


def _dict(tree: dict[str, Any]) -> str:
    texts = (
        f"{literal(name)}: {_dict(value) if isinstance(value, dict) else value}"
        for name, value in tree.items()
    )
    return f"{{{', '.join(texts)}}}"


def _columns(instance: Instance) -> list[str | Key]:
    """The entries that tell repetitions apart and are stored with a trailing 1, which expressions don't see."""
    role = instance.transform.first_there
    entries = [] if role is None else _taken(instance, role)
    return [entry.key[0] if len(entry.key) == 1 else entry.key for entry in entries if entry.type.col]


def _keys(entries: Iterable[Entry]) -> str:
    return f"[{', '.join(key_text(entry.key) for entry in entries)}]"
