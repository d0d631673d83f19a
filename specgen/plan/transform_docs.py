"""The docstring of a generated transform: its contract."""

from __future__ import annotations

from specgen.check.model import Parameter
from specgen.check.transform_model import CheckedTransform, Output, Role
from specgen.plan.docs import summary
from specgen.plan.short_texts import bound_text

_GROUPS = {
    "env.observation": "every observation",
    "env.reward": "every reward",
    "env.done": "the done flag of every root-most done set",
    "env.action": "every action",
    "env.state": "every state entry",
}


def transform_doc(transform: CheckedTransform) -> tuple[str, ...]:
    """What the transform does, and what it reads and writes."""
    lines = [_what(transform)]
    for role in transform.roles:
        lines += ["", *_role(transform, role)]
    return tuple(lines)


def transform_init_doc(transform: CheckedTransform) -> tuple[str, ...]:
    """What the transform does in a sentence, the arguments of its constructor, and what it refuses."""
    lines = summary(_what(transform))
    if transform.signature:
        lines += ["", "Args:", *(f"    {name}: {_argument(transform, name)}" for name in transform.signature)]
    said = [
        f"`{p.name}` is not {' and '.join(f'{s} {b:g}' for s, b in p.range)}"
        for p in transform.params
        if p.range
    ]
    if keywords := [f"`{output.keyword}`" for output in transform.outputs if output.keyword]:
        said.append(f"{' or '.join(keywords)} is no name")
    if said:
        lines += ["", "Raises:", f"    ValueError: if {', or '.join(said)}."]
    return tuple(lines)


def _what(transform: CheckedTransform) -> str:
    return transform.doc or f"The transform `{transform.name}`."


def _role(transform: CheckedTransform, role: Role) -> list[str]:
    what = f"`{role.name}`, {_kind(role)}" + (f": {role.doc}" if role.doc else "")
    if role.inverse:
        outputs = [f"    `{o.name}`, {_output(o)}" for o in transform.outputs_of(role)]
        return [
            "Gives the environment, for each of `in_keys_inv`:",
            f"    {what}",
            "",
            "Reads, in its place:",
            *outputs,
        ]
    each = _default(role) if role.structural else "each of `in_keys`"
    outputs = [f"    `{o.name}`, {_output(o)}" for o in transform.outputs_of(role)]
    if role in transform.folded:
        outputs.insert(0, f"    `{role.name}`, combined over the repetitions of a step")
    written = ["", "Writes, for each of them:", *outputs] if outputs else []
    return [f"Reads, for {each}:", f"    {what}", *written]


def _kind(role: Role) -> str:
    dtypes = {"float": "floats", "number": "numbers", "any": "any dtype"}.get(role.pattern, role.pattern)
    return f"{dtypes} {_shape(role)}"


def _shape(role: Role) -> str:
    return f"[{', '.join(['*batch', *map(str, role.dims)])}]"


def _output(output: Output) -> str:
    dtype = output.dtype or "of the same dtype"
    domain = f" in [{', '.join(map(bound_text, output.interval))}]" if output.interval is not None else ""
    condition = f"; only with `{output.when}`" if output.when else ""
    carried = "; carried from step to step" if output.carry else ""
    doc = f": {output.doc}" if output.doc else ""
    return f"{dtype}{domain}{carried}{condition}{doc}"


def _default(role: Role) -> str:
    if not role.default:
        return "none: they have to be given"
    return " and ".join(_GROUPS.get(entry, f"`{entry}`") for entry in role.default)


def _argument(transform: CheckedTransform, name: str) -> str:
    inverse = name.endswith("_inv")
    role = next((role for role in transform.roles if role.inverse == inverse), None)
    if name.startswith("in_keys") and role is not None:
        if role.required:
            return "the keys that it works on."
        fitting = f", of those with {' or '.join(role.dtypes)}" if _selects(role) else ""
        return f"the keys that it works on (default: {_default(role)}{fitting})."
    if name.startswith("out_keys"):
        output = next(o for o in transform.outputs if o.inverse == inverse and o.keyword is None)
        default = (
            f"`in_keys{'_inv' if inverse else ''}`"
            if output.same
            else f"`{output.key}`, after the input's key"
        )
        return f"the keys of `{output.name}`, one for each input (default: {default})."
    if name == "done_key" and transform.recursion is not None:
        return (
            "the flag that ends an episode; a plain name is looked up at the level of each key and above it."
        )
    for output in transform.outputs:
        if output.keyword == name:
            return f"the name of `{output.name}`."
    return _param(transform.param(name))


def _selects(role: Role) -> bool:
    return any(entry.startswith("env.") for entry in role.default)


def _param(param: Parameter) -> str:
    bounds = " and ".join(f"{sign} {bound:g}" for sign, bound in param.range)
    text = param.doc or param.kind
    return f"{text}; {bounds}." if bounds else f"{text}."
