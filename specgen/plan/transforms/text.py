"""Finished strings for the class of a transform."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from specgen.check.conditions import Condition
from specgen.check.model import identifier
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.model import CheckedTransform
from specgen.check.transforms.types import joins_only
from specgen.code import Code, needs_math, using
from specgen.expr.sizes import Dim, Rest, Sym
from specgen.literals import literal
from specgen.plan.model import Argument, CallPlan, Text
from specgen.plan.short_texts import TORCH_DTYPES
from specgen.plan.spec_text import number_text
from specgen.source.outline import METHODS_SUFFIX

METHOD_VARIABLES = frozenset(
    {
        "collected",
        "each",
        "env",
        "folded",
        "held",
        "inner",
        "key",
        "keys",
        "made",
        "next_tensordict",
        "outer_tensordict",
        "recorded",
        "root",
        "seen",
        "specs",
        "tensordict",
        "tensordict_reset",
        "tolerant",
    }
)
"""Variables of the generated methods, where roles and outputs are variables too."""

KEY_LISTS = ("in_keys", "out_keys", "in_keys_inv", "out_keys_inv")
"""The arguments of the constructor that the base class takes."""


def variable(name: str) -> str:
    """What the generated methods call a role, an output or a draw: no variable of their own is called so."""
    made = identifier(name)
    return f"{made}_" if made.rstrip("_") in METHOD_VARIABLES else made


def argument_texts(transform: CheckedTransform, arguments: tuple[Argument, ...]) -> Iterator[str]:
    """The arguments as the signature writes them: keys that users pass one after another come first."""
    several = next((role for role in transform.roles if role.varargs), None)
    if several is not None:
        yield f"*{several.name}: NestedKey"
    for argument in arguments:
        yield argument.text


def base_keys(transform: CheckedTransform) -> Iterator[tuple[str, str]]:
    """The keys that the base class takes, each with the expression that it is given."""
    several = next((role for role in transform.roles if role.varargs), None)
    if several is not None:
        yield ("in_keys_inv" if several.inverse else "in_keys"), f"list({several.name})"
    given = [role.list_argument for role in transform.roles if role.several_given]
    for name in transform.signature:
        if name in given:
            yield "in_keys_inv", name
        elif name in KEY_LISTS or (name == "done_key" and transform.recursion is not None):
            yield name, name


def named_reset_keys(keyword: str | None) -> Code | None:
    """The masks that users name by a keyword, in their normal form."""
    if keyword is None:
        return None
    return using(f"None if {keyword} is None else normal_keys({keyword})", "normal_keys")


def named_done_key(keyword: str | None) -> Code | None:
    """The flag that users name by a keyword, in its normal form."""
    if keyword is None:
        return None
    return using(f"None if {keyword} is None else normal_key({keyword})", "normal_key")


def methods_name(transform: str) -> str:
    """What the module of a transform calls the class whose methods it has besides its own."""
    return f"{transform}{METHODS_SUFFIX}"


def has_own_dims(output: Output) -> bool:
    """Whether the declaration says all dimensions of an output."""
    return output.dims is not None and not any(isinstance(size, Rest) for size in output.dims)


def rank_text(transform: CheckedTransform, role: Role) -> str:
    """How many dimensions a role has; several keys are of one rank, single numbers among them vectors of one."""
    if role.form != "all" or role.inverse:
        return f"self.{'_inner_rank' if role.inverse else '_rank'}(key.{role.name})"
    rank = f"self._rank(key.{role.name}[0])"
    return f"max({rank}, 1)" if joins_only(transform, role) else rank


def dims_text(dims: Iterable[Dim | Rest], size: Callable[[str], str]) -> str:
    """Dimensions as a tuple; `size` is the text of a size that has a name."""
    texts = [one.text(size) if isinstance(one, Sym) else str(one) for one in dims]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def spec_like(
    output: Output, like: str | None, role: Role | None = None, size: Callable[[str], str] = str
) -> CallPlan:
    """The spec of an output, made from that of the input `like` where the declaration does not say its dimensions.

    Args:
        output: the output.
        like: the text of the input's spec.
        role: the role that the output follows.
        size: the text of a size that has a name.
    """
    if output.flag and like is not None:
        return CallPlan("flag_like", (like,))  # stored as the flags beside it
    dtype = (dtype_code(output.dtype),) if output.dtype else ()
    given: Text = like or f"self._row_spec(key.{output.name})"
    own = [one for one in output.dims or () if not isinstance(one, Rest)]
    if has_own_dims(output):
        dims = f", {dims_text(own, size)}" if own else ""
        given = f"self._row_spec(key.{output.name}{dims})"
    elif output.dims is not None and like is not None:
        instead = 0 if role is None else sum(not isinstance(one, Rest) for one in role.dims)
        given = using(f"shaped_like({like}, {dims_text(own, size)}, {instead})", "shaped_like")
    if output.dtype == "bool":
        return CallPlan("flag_like", (given,))
    if output.interval is not None:
        return CallPlan("bounded_like", (given, *map(_number, output.interval), *dtype))
    return CallPlan("unbounded_like", (given, *dtype))


def shape_source(output: Output) -> str | None:
    """The role that tells the shape of an output, or its dtype."""
    if output.flag:
        return output.each
    if output.dims is not None and not any(isinstance(size, Rest) for size in output.dims):
        return None
    return output.each if output.like is None or output.each is not None else output.like


def dtype_code(dtype: str) -> Code:
    """A dtype of torch."""
    return using(TORCH_DTYPES[dtype], "torch")


def with_declared_specs(transform: CheckedTransform) -> list[Output]:
    """The outputs whose specs the declaration says; where something is learned when it is asked for, all."""
    later = transform.learns == "when_called"
    written = [output for output in transform.written(inverse=False) if output.declared]
    return [one for one in written if one.image is None or one.dtype == "bool" or later]


def follows_code(outputs: Iterable[Output]) -> Code | None:
    """The class attribute that tells how specs follow from what is computed; None where all are declared."""
    found = [o for o in outputs if o.image is not None and not (o.declared and o.dtype == "bool")]
    lines = [f"{literal(output.name)}: {_follows(output)}" for output in found]
    return using(f"{{{', '.join(lines)}}}", "Follows") if lines else None


def _follows(output: Output) -> str:
    assert output.image is not None
    args = [literal(output.image)]
    values = output.values
    if output.image == "same" and output.source is not None and not output.dtype:
        args.append(f"source={literal(output.source)}")
    elif values is not None:
        args += [f"low={_number(values.low)}"] if math.isfinite(values.low) else []
        args += [f"high={_number(values.high)}"] if math.isfinite(values.high) else []
    return f"Follows({', '.join(args)})"


def _number(value: float) -> Code:
    number = int(value) if math.isfinite(value) and value == int(value) else value
    return using(number_text(number), *(["math"] if needs_math(number) else []))


def key_literal(entry: str) -> str:
    """A key, or a group of keys, as the generated class writes it."""
    if entry.startswith("env.") or "." not in entry:
        return literal(entry)
    return literal(tuple(entry.split(".")))


def policy_states(outputs: Iterable[Output]) -> Iterator[tuple[str | None, str]]:
    """Lines of a step that leave what the policy wrote, each with the condition of its output."""
    for output in outputs:
        if output.policy:
            yield _when(output), f"self._leave_to_policy(tensordict, next_tensordict, key.{output.name})"


def unassigned_flags(
    outputs: Iterable[Output], target: str, assigned: set[str]
) -> Iterator[tuple[str | None, str]]:
    """Lines that write the done flags that no statement assigns, each with the condition of its output."""
    for output in outputs:
        if output.flag and output.name not in assigned:
            value = f"self._flag({target}, key.{output.name})"
            yield _when(output), f"self._write({target}, key.{output.name}, {value})"


def keyless(transform: CheckedTransform) -> frozenset[str]:
    """The roles and outputs whose key may be missing in a record."""
    roles = [role.name for role in transform.roles if role.may_be_missing]
    outputs = [one.name for one in transform.outputs if one.when is not None and one.when.of_keys]
    return frozenset((*roles, *outputs))


def if_there(name: str, text: str, missing: Collection[str], otherwise: str) -> str:
    """`text`, or what stands instead of it in a record without the key `name`, which is among `missing`."""
    return f"{otherwise} if key.{name} is None else {text}" if name in missing else text


def exists(when: Condition | None, outputs: Iterable[str]) -> str | None:
    """When outputs of one condition exist, in a loop over the records of keys; None for always."""
    if when is None:
        return None
    fields = [f"key.{name} is not None" for name in outputs] if when.of_keys else []
    return " and ".join(dict.fromkeys([*(atom.python for atom in when.atoms), *fields]))


def unless_lacking(when: str | None, source: str, names: Sequence[str]) -> str | None:
    """`when`, and that the entries with these keys are there, where some may be missing; None for always."""
    if not names:
        return when
    there = f"not (tolerant and self._lacks({source}, {', '.join(f'key.{name}' for name in names)}))"
    return there if when is None else f"{when} and {there}"


def _when(output: Output) -> str | None:
    return exists(output.when, [output.name])
