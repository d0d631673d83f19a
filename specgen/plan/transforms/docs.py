"""The docstring of a generated transform: its contract."""

from __future__ import annotations

from specgen.check.model import Parameter
from specgen.check.transforms.entries import Output, Role, chosen_by_out_keys
from specgen.check.transforms.model import CheckedTransform
from specgen.plan.docs import hanging, items_doc, summary, wrapped
from specgen.plan.short_texts import bound_text
from specgen.plan.transforms.functions import network_doc

_GROUPS = {
    "env.observation": "every observation",
    "env.reward": "every reward",
    "env.done": "the done flag of every root-most done set",
    "env.action": "every action",
    "env.state": "every state entry",
}


def transform_doc(transform: CheckedTransform) -> tuple[str, ...]:
    """What the transform does, and what it reads and writes."""
    lines = wrapped(_what(transform))
    for inverse in (False, True):
        roles = transform.backward if inverse else transform.forward
        outputs = transform.written(inverse=inverse)
        if roles or outputs:
            lines += ["", *_direction(transform, roles, outputs, inverse)]
    for action, mask in transform.masks.items():
        lines += ["", *wrapped(f"Random actions keep to `{mask}`, which says what of `{action}` is allowed.")]
    return tuple(lines)


def transform_init_doc(transform: CheckedTransform) -> tuple[str, ...]:
    """What the transform does in a sentence, the arguments of its constructor, and what it refuses."""
    lines = summary(_what(transform))
    if transform.signature:
        lines += [
            "",
            "Args:",
            *items_doc(f"{name}: {_argument(transform, name)}" for name in transform.signature),
        ]
    said = [f"`{p.name}` is not {_range(p)}" for p in transform.params if p.range or p.at_least]
    said += [f"`{p.name}` is given without `{p.with_}`" for p in transform.params if p.with_]
    said += [f"`{p.name}` is none of {', '.join(p.choices)}" for p in transform.params if p.choices]
    leaves = [output.keyword for output in transform.outputs if output.keyword and not output.whole]
    leaves += [
        role.keyword for role in transform.roles if role.form == "key" and role.keyword and role.beside
    ]
    if keywords := [f"`{keyword}`" for keyword in dict.fromkeys(leaves)]:
        said.append(f"{' or '.join(keywords)} is no name")
    raises = hanging(f"ValueError: if {', or '.join(said)}.") if said else []
    raises += ["    TypeError: if a network is no module."] if transform.networks else []
    if raises:
        lines += ["", "Raises:", *raises]
    return tuple(lines)


def _what(transform: CheckedTransform) -> str:
    return transform.doc or f"The transform `{transform.name}`."


def _direction(
    transform: CheckedTransform, roles: tuple[Role, ...], outputs: tuple[Output, ...], inverse: bool
) -> list[str]:
    driver = transform.driver(inverse=inverse)
    what = items_doc(f"`{role.name}`, {_role(role)}" for role in roles)
    folded = () if inverse else transform.folded
    writes = items_doc(f"`{role.name}`, combined over the repetitions of a step" for role in folded)
    followed = {one.target: f"like `{one.source.text}`" for one in transform.outer}
    writes += items_doc(
        f"`{output.name}`, {_output(output, followed.get(output.name))}"
        for output in outputs
        if not output.hidden
    )
    if inverse:
        several = any(role.several_given for role in roles)
        return [
            "Gives the environment:" if several else "Gives the environment, for each of `in_keys_inv`:",
            *what,
            "",
            "Reads, in its place:",
            *writes,
        ]
    if driver is None:
        parts = [["Reads:", *what] if what else [], ["Writes:", *writes] if writes else []]
    else:
        each = _default(driver) if driver.structural else "each of `in_keys`"
        each += ", in recorded data" if driver.recorded else ""
        written = ["Writes, for each of them:", *writes] if writes else []
        parts = [[f"Reads, for {each}:", *what], written]
    for does, drops in (
        ("Drops", transform.drops),
        ("Leaves out on the way to the environment, or into a replay buffer:", transform.drops_inverse),
    ):
        if dropped := [f"`{drop.role}`" + (f", if {drop.when}" if drop.when else "") for drop in drops]:
            parts.append([f"{does} {', '.join(dropped)}."])
    lines: list[str] = []
    for part in filter(None, parts):
        lines += ["", *part] if lines else part
    return lines


def _role(role: Role) -> str:
    if role.form == "flag":
        doc = f": {role.doc}" if role.doc else ""
        return f"the `{role.default[0]}` flag of the root-most done set above `{role.beside}`, for each of its elements{doc}"
    lead = "several together, " if role.form == "all" else ""
    lead = "if it is there, " if role.optional and role.form == "key" else lead
    return lead + _kind(role) + (f": {role.doc}" if role.doc else "")


def _kind(role: Role) -> str:
    dtypes = {"float": "floats", "number": "numbers", "any": "any dtype"}.get(role.pattern, role.pattern)
    return f"{dtypes} {_shape(role)}"


def _shape(role: Role) -> str:
    return f"[{', '.join(['*batch', *map(str, role.dims)])}]"


def _output(output: Output, followed: str | None) -> str:
    dtype = output.dtype or "of the same dtype"
    if output.inferred is not None:
        dtype = followed or "of the type that is computed"
    if output.kind is not None:
        counts = ", ".join(map(str, output.kind.nvec or (output.kind.n,)))
        dtype = f"{output.kind.kind}({counts}) [{', '.join(['*batch', *map(str, output.kind.shape)])}]"
    elif output.dims is not None:
        dtype = f"{dtype} [{', '.join(['*batch', *map(str, output.dims)])}]"
    domain = f" in [{', '.join(map(bound_text, output.interval))}]" if output.interval is not None else ""
    condition = f"; only with `{output.when}`" if output.when else ""
    condition = f"; only with `{output.keyword}`" if output.left_out else condition
    carried = "; carried from step to step" if output.carry else ""
    doc = f": {output.doc}" if output.doc else ""
    return f"{dtype}{domain}{carried}{condition}{doc}"


def _default(role: Role) -> str:
    if role.recorded:
        return "none; they are of recorded data"
    if not role.default:
        return "none" if role.several_given else "none: they have to be given"
    return " and ".join(_GROUPS.get(entry, f"`{entry}`") for entry in role.default)


def _argument(transform: CheckedTransform, name: str) -> str:
    if (given := next((one for one in transform.roles if one.several_given), None)) is not None:
        joined = transform.written(inverse=True)[0]
        if name == given.list_argument:
            return f"the keys of `{given.name}`, several together (default: {_default(given)})."
        if name == joined.keyword:
            only = f"; only where `{given.list_argument}` is given" if given.required else ""
            return f"the key of `{joined.name}` (default: `{joined.key}`){only}."
    inverse = name.endswith("_inv")
    listed = [role for role in transform.roles if role.inverse == inverse and role.listed]
    role = listed[0] if listed else None
    several = len({one.default for one in listed}) > 1
    if name in ("in_keys", "in_keys_inv") and several:
        names = " and as ".join(f"`{one.name}`" for one in listed)
        defaults = "; ".join(f"{_default(one)} for `{one.name}`" for one in listed)
        return f"the keys that it works on, each as {names} (default: {defaults})."
    if name in ("in_keys", "in_keys_inv") and role is not None:
        if transform.needs_keys(role):
            alone = transform.may_have_inverse_keys_only(role)
            others = [one.list_argument for one in transform.roles if one.listed and one.inverse]
            beside = f" (default: none, where `{others[0]}` is given)" if alone else ""
            return f"the keys that it works on{beside}."
        if role.required:
            return "the keys that it works on (default: none)."
        dtypes = " or ".join(role.dtypes) if role.dtype is None else f"`{role.dtype}`"
        fitting = f", of those with {dtypes}" if _selects(role) else ""
        return f"the keys that it works on (default: {_default(role)}{fitting})."
    if name in ("out_keys", "out_keys_inv"):
        written = transform.written(inverse=inverse)
        free = [one for one in written if chosen_by_out_keys(one, transform.roles)]
        output = free[0]
        if several:
            default = f"that of `{output.each}`" if output.same else f"`{output.key}`, after that key"
            return f"the keys of `{output.name}`, one for each key of `{output.each}` (default: {default})."
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
    if name == transform.reset_keyword:
        return "the masks that begin anew what is carried; they follow from its keys, and are compared with these."
    if name == transform.done_keyword:
        return "the flag that ends the episodes of recorded data (default: the `done` of the root-most done set above a key)."
    if name == transform.inverse_keyword:
        return "whether recorded data are transformed by `inv`, on the way into a replay buffer, and left alone by `forward`; in no environment."
    for role in transform.roles:
        if role.keyword == name:
            keys = "the key" if role.form == "key" else "the keys"
            if role.optional:
                names = " and ".join(f"`{entry}`" for entry in role.default) or "none"
                there = f"{names}, where the environment has {'it' if len(role.default) == 1 else 'them'}"
                named = f" (default: {there if role.default else names})"
                beside = f", beside `{role.beside}`" if role.beside else ""
                return f"{keys} of `{role.name}`{beside}{named}."
            beside = f", beside `{role.beside}`" if role.beside else ""
            return f"{keys} of `{role.name}`{beside}."
    for output in transform.outputs:
        if output.keyword == name:
            default = f" (default: that of `{output.each}`)" if output.same and output.keyword else ""
            default = " (default: none, and there is none)" if output.left_out else default
            return f"the {'key' if output.whole else 'name'} of `{output.name}`{default}."
    if any(network.name == name for network in transform.networks):
        return f"{network_doc(transform, name)}{_frozen(transform, name)}."
    return _param(transform.param(name))


def _frozen(transform: CheckedTransform, name: str) -> str:
    frozen = any(network.frozen for network in transform.networks if network.name == name)
    return "; it stays as it is" if frozen else ""


def _selects(role: Role) -> bool:
    return any(entry.startswith("env.") for entry in role.default)


def _param(param: Parameter) -> str:
    text = param.doc or param.kind
    text += "; one for all, or one for each environment" if param.per_env else ""
    return f"{text}; {_range(param)}." if param.range or param.at_least else f"{text}."


def _range(param: Parameter) -> str:
    limits = [f"{sign} {bound:g}" for sign, bound in param.range]
    limits += [f">= `{param.at_least}`"] if param.at_least is not None else []
    bounds = " and ".join(limits)
    return f"{bounds} unless `{param.unless}`" if param.unless else bounds
