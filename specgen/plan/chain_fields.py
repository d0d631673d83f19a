"""The records of a chain: the environment's fields, and what its transforms carry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from specgen.check.chain_model import ChainKey, CheckedChain, Instance
from specgen.check.chain_types import shape_of
from specgen.check.model import Constant, dotted, snake
from specgen.expr import Type
from specgen.plan.chain_flow import END, START, Place, Versions, Write
from specgen.plan.interface import FLAGS, EnvInterface, Extra, RecordField
from specgen.plan.spec_text import spec_code

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
    """

    field: RecordField
    root: Place
    next: Place
    extra: Extra | None = None
    raw: bool = False

    @property
    def key(self) -> str:
        """The dotted key in the language, also of a private carry."""
        return self.field.dotted


def chain_fields(chain: CheckedChain, env: EnvInterface, versions: Versions) -> tuple[ChainField, ...]:
    """The fields of the Root record, in order."""
    return (*_env_fields(env, versions), *_carried(chain, versions))


def _env_fields(env: EnvInterface, versions: Versions) -> Iterator[ChainField]:
    flags = {dotted((*prefix, flag)) for prefix in env.env.done for flag in FLAGS}
    for field in env.root:
        if field.dotted in flags:
            yield ChainField(field, END, END)
        elif field.dotted in env.extra:
            changed = bool(versions.writes("root", field.dotted))
            raw = replace(field, name=f"raw_{field.name}", visible=False) if changed else field
            yield ChainField(raw, START, START, env.extra[field.dotted], raw=True)
        elif versions.writes("root", field.dotted):
            # the dynamics go on from the environment's own value, whatever a transform shows in its place
            key = (*field.key[:-1], PRIVATE, "e0", field.key[-1])
            raw = replace(field, name=f"raw_{field.name}", key=key, doc="as the environment has it")
            spec = next(entry.spec for entry in env.env.state if entry.dotted == field.dotted)
            yield ChainField(raw, START, START, Extra(spec_code(spec), carried=True))
        else:
            yield ChainField(field, START, START)


def _carried(chain: CheckedChain, versions: Versions) -> Iterator[ChainField]:
    for instance in chain.instances:
        for row in instance.rows:
            reset = {s.target for s in instance.statements("reset", row)}
            for output in instance.transform.outputs:
                entry = row.outputs.get(output.name)
                if entry is not None and output.name in reset:
                    yield _field(instance, entry, versions, carried=output.carry)


def _field(instance: Instance, entry: ChainKey, versions: Versions, *, carried: bool) -> ChainField:
    after: Place = (instance.position + 0.5, 0)
    rewritten = _later(versions.writes("root", entry.dotted), instance) or _later(
        versions.writes("next", entry.dotted), instance
    )
    name, key = entry.name, entry.key
    if rewritten:
        name, key = (
            f"carry_{instance.position}_{name}",
            (*key[:-1], PRIVATE, f"t{instance.position}", key[-1]),
        )
    field = RecordField(name, entry.dotted, key, entry.type, entry.spec.interval, entry.doc)
    place = after if rewritten else END
    return ChainField(
        field, place, place, Extra(spec_code(entry.spec, col=entry.type.col), carried or bool(rewritten))
    )


def _later(writes: list[Write], instance: Instance) -> bool:
    return any(write.place[0] > instance.position for write in writes)


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
