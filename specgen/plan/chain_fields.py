"""The records of a chain: the environment's fields, and what its transforms carry."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from specgen.check.chain_model import ChainKey, CheckedChain, Instance
from specgen.check.chain_types import shape_of
from specgen.check.model import Constant, Key, snake
from specgen.expr import ANYTHING, Type, full
from specgen.plan.chain_flow import END, START, Place, Versions, Write
from specgen.plan.docs import stored
from specgen.plan.interface import Call, EnvInterface, Extra, Output, RecordField
from specgen.plan.spec_text import spec_code
from specgen.plan.writer import shape_text

PRIVATE = "_carry"
"""The group of carries that a later transform rewrites; the tensordict keeps them below this key."""


@dataclass(frozen=True)
class ChainField:
    """A field of a chain's Root record, and which version of its key it holds.

    Attributes:
        field: the field.
        root: the place before which it is that key's value at the root.
        next: the place before which it is that key's value after a step.
        extra: its spec, when it is neither state nor a done flag.
        raw: whether it is what Gymnasium returned, before the transforms.
        added: whether it is a done flag of a transform's own: false until that transform raises it.
        rewritten: the key of an output that a later transform rewrites.
    """

    field: RecordField
    root: Place
    next: Place
    extra: Extra | None = None
    raw: bool = False
    added: bool = False
    rewritten: Key | None = None

    @property
    def key(self) -> str:
        """The dotted key in the language, also of a private carry."""
        return self.field.dotted


def chain_fields(chain: CheckedChain, env: EnvInterface, versions: Versions) -> tuple[ChainField, ...]:
    """The fields of the Root record, in order."""
    return (*_env_fields(chain, env, versions), *_flags(chain, env), *_carried(chain, versions))


def _env_fields(chain: CheckedChain, env: EnvInterface, versions: Versions) -> Iterator[ChainField]:
    for field in env.root:
        if field.flag:
            yield ChainField(field, END, END)
        elif field.dotted in env.extra:
            changed = bool(versions.writes("root", field.dotted))
            raw = (
                replace(field, name=unused_name(chain, f"raw_{field.name}"), visible=False)
                if changed
                else field
            )
            yield ChainField(raw, START, START, env.extra[field.dotted], raw=True)
        elif versions.writes("root", field.dotted):
            # the dynamics go on from the environment's own value, whatever a transform shows in its place
            key = (*field.key[:-1], PRIVATE, "e0", field.key[-1])
            name = unused_name(chain, f"raw_{field.name}")
            raw = replace(field, name=name, key=key, doc="as the environment has it")
            spec = next(entry.spec for entry in env.env.state if entry.dotted == field.dotted)
            yield ChainField(raw, START, START, Extra(spec_code(spec), carried=True))
        else:
            yield ChainField(field, START, START)


def _flags(chain: CheckedChain, env: EnvInterface) -> Iterator[ChainField]:
    """The done flags that transforms add beside those of the environment."""
    known = {field.dotted for field in env.root}
    for entry in chain.entries.values():
        if entry.group == "done" and entry.dotted not in known:
            field = RecordField(
                entry.name, entry.dotted, entry.key, entry.type, full("bool"), entry.doc, flag=True
            )
            yield ChainField(field, END, END, added=True)


def _carried(chain: CheckedChain, versions: Versions) -> Iterator[ChainField]:
    for instance in chain.instances:
        for row in instance.rows:
            reset = {s.target for s in instance.statements("reset", row)}
            for output in instance.transform.outputs:
                entry = row.outputs.get(output.name)
                if entry is not None and output.name in reset:
                    yield _field(chain, instance, entry, versions, carried=output.carry)


def _field(
    chain: CheckedChain, instance: Instance, entry: ChainKey, versions: Versions, *, carried: bool
) -> ChainField:
    after: Place = (instance.position + 0.5, 0)
    rewritten = _later(versions.writes("root", entry.dotted), instance) or _later(
        versions.writes("next", entry.dotted), instance
    )
    name, key = entry.name, entry.key
    if rewritten:
        name, key = (
            unused_name(chain, f"carry_{instance.position}_{name}"),
            (*key[:-1], PRIVATE, f"t{instance.position}", key[-1]),
        )
    field = RecordField(name, entry.dotted, key, entry.type, entry.spec.interval, entry.doc)
    place = after if rewritten else END
    extra = Extra(spec_code(entry.spec, col=entry.type.col), carried or bool(rewritten))
    return ChainField(field, place, place, extra, rewritten=entry.key if rewritten else None)


def _later(writes: list[Write], instance: Instance) -> bool:
    return any(write.place[0] > instance.position for write in writes)


def hidden_if_unread(f: ChainField, args: Collection[str]) -> ChainField:
    """A carry that another transform rewrites, without an entry of its own if no step reads it.

    Args:
        f: a field.
        args: the arguments of the chain's step function.
    """
    if f.rewritten is None or f"root.{f.field.name}" in args:
        return f
    return replace(f, field=replace(f.field, key=f.rewritten, visible=False))


def unused_name(chain: CheckedChain, wanted: str) -> str:
    """A Python name for a value that has no key of its own: no key of the chain is called so."""
    taken = {entry.name for entry in (*chain.entries.values(), *chain.actions)}
    taken |= {entry.name for entry in chain.env.value.entries}
    while wanted in taken:
        wanted += "_"
    return wanted


def chain_constants(chain: CheckedChain) -> Iterator[Constant]:
    """The parameters of transforms that are tensors."""
    for instance in chain.instances:
        for param in instance.transform.params:
            value = instance.params[param.name]
            if param.kind == "tensor" and value is not None:
                doc = f"`{param.name}` of {instance.transform.name}"
                yield Constant(
                    constant_name(instance, param.name), Type("float32", shape_of(value), "const"), value, doc
                )


def constant_name(instance: Instance, param: str) -> str:
    """The field of the chain's constants that holds a parameter."""
    return f"{snake(instance.transform.name)}_{instance.position}_{param}"


def reward_field(entry: ChainKey, name: str) -> RecordField:
    """A reward in the Next record; under another name than its own it is what the environment gave."""
    return RecordField(
        name, entry.dotted, entry.key, entry.type, ANYTHING, entry.doc, visible=name == entry.name
    )


def output_of(entry: ChainKey) -> Output:
    """An entry that is derived from the records."""
    return Output(entry.name, entry.dotted, entry.key, entry.type, entry.spec, entry.doc)


def of_env(call: Call | None) -> Call | None:
    """A function of the environment as a chain calls it: the environment's constants go by another name there."""
    return call and replace(call, args=tuple("env_consts" if arg == "consts" else arg for arg in call.args))


def dtype_and_shape(entry: ChainKey) -> str:
    """The documentation of an entry that has no other: `float32 [*batch, 1].`"""
    return f"{entry.type.dtype} {shape_text('*batch', stored(entry.type))}."
