"""The typed tensordict of an environment: which keys a type checker knows, and what they hold."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.code import Code, named, using
from specgen.expr import Type
from specgen.expr.symbols import Key
from specgen.literals import literal
from specgen.plan.interface import EnvInterface
from specgen.plan.items import Item
from specgen.plan.spec_groups import spec_types
from specgen.plan.typed_keys import data_class

JAXTYPING = {
    "bool": "Bool",
    "uint8": "UInt8",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "float32": "Float32",
    "float64": "Float64",
}
"""What jaxtyping calls the dtypes."""


def annotation(type: Type, batch: str = "*batch") -> Code:
    """`Float32[Tensor, "*batch 3"]`; `batch` is the name of the batch dimensions, if there are any.

    What holds Python objects is a list of them when it is indexed, and what stores them when it is got: anything.
    """
    if type.dtype == "object":
        return named("Any")
    dims = [*(type.dims or ()), *([1] if type.col else [])]
    shape = " ".join([*([batch] if batch else []), *map(str, dims)])
    kind = JAXTYPING[type.dtype]
    return using(f"{kind}[Tensor, {literal(shape)}]", kind, "Tensor")


def data_plan(interface: EnvInterface) -> list[Item]:
    """The data class of an environment, that of its `"next"` part, and the types of its specs."""
    env = interface.env
    carried = {f.key: annotation(f.type) for f in interface.root if f.visible}
    observed = {o.key: annotation(o.type) for o in interface.observations}
    rewards = {o.key: annotation(o.type) for o in interface.rewards}
    actions = {e.key: annotation(e.type) for e in env.action}
    root = {**observed, **carried, **actions}
    after = {**observed, **carried, **rewards}
    name = f"{interface.name}Data"
    next_name = f"{interface.name}NextData"
    whole = {**root, **{("next", *key): text for key, text in after.items()}}
    return [
        data_class(next_name, f'The `"next"` part of `{name}`.', after, _groups(after)),
        data_class(
            name,
            f"The tensordicts of `{interface.name}`, with their keys.",
            whole,
            {**_groups(whole), ("next",): named(next_name)},
        ),
        spec_types(interface),
    ]


def _groups(keys: Iterable[Key]) -> dict[Key, Code]:
    """The groups that nested keys stand in."""
    return {key[:end]: named("TensorDict") for key in keys for end in range(1, len(key))}
