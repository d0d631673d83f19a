"""The done flags of a step: each set's own, joined with those of the root, which end everything."""

from __future__ import annotations

from specgen.check.model import CheckedEnv, Key, dotted
from specgen.expr import Expr
from specgen.expr.tree import Call, Logic, Name
from specgen.plan.model import Line
from specgen.plan.writer import Writer


def joined_flags(env: CheckedEnv) -> frozenset[str]:
    """The flags of groups that hold where `step` says so, and also wherever the root's does.

    Not among them are those that must hold where the root's does, as the root's is `all` of them.
    """
    by_target = {statement.target: statement for statement in env.step}
    return frozenset(
        name
        for prefix in env.done
        for flag in ("terminated", "truncated")
        if prefix
        and (name := dotted((*prefix, flag))) in by_target
        and flag in by_target
        and not _implies(by_target[flag].expr, name)
    )


def _implies(expr: Expr, name: str) -> bool:
    """Whether an expression holds only where all of the flag `name` does, by its form."""
    match expr:
        case Name(path=path):
            return path == name
        case Call(function=Name(path="all"), args=(Name(path=path),), keywords=()):
            return path == name
        case Logic(op="and", operands=operands):
            return any(_implies(operand, name) for operand in operands)
        case _:
            return False


def flag_lines(env: CheckedEnv, prefix: Key, writer: Writer, used: dict[str, None]) -> list[str]:
    """Add the lines that store the flags of one done set; the root's must have been added before.

    Args:
        env: the environment.
        prefix: the done set.
        writer: has the assigned flags in its scope, and takes the lines.
        used: takes the names of record fields that the lines read.

    Returns:
        The arguments of the record.
    """
    names = {flag: "_".join((*prefix, flag)) for flag in ("done", "terminated", "truncated")}
    origin = ".".join(("envs", env.name, "step"))
    assigned = {statement.target for statement in env.step}
    joined = joined_flags(env)
    fixed: dict[str, str] = {}
    for flag in ("terminated", "truncated"):
        key = dotted((*prefix, flag))
        binding = writer.scope[key] if key in assigned else None
        above = _above(flag, len(env.done_dims[prefix])) if prefix and flag in assigned else None
        if binding is None or binding.static is False:
            if above is None:
                fixed[flag] = "False"
            else:
                writer.lines.append(Line(f"{names[flag]} = {_spread(above, flag, env.done_dims[prefix])}"))
        elif binding.type.python:
            fixed[flag] = binding.text if binding.static is None else str(bool(binding.static))
            if above is not None:
                fixed[flag] += f" | {above}"
        else:
            text = binding.text if binding.type.col else f"{binding.text}.unsqueeze(-1)"
            if binding.type.level == "const":
                used.setdefault(dotted((*prefix, "done")))
                text = f"{text}.expand_as({names['done']}).clone()"
            if above is not None and key in joined:
                text = f"{text} | {above}"
            if text != names[flag]:
                writer.lines.append(Line(f"{names[flag]} = {text}", f"{origin}.{key}"))
    computed = [flag for flag in ("terminated", "truncated") if flag not in fixed]
    like = names[computed[0]] if computed else names["done"]
    if not computed:
        used.setdefault(dotted((*prefix, "done")))
    for flag, value in fixed.items():
        number, bar, above = value.partition(" | ")
        text = f"torch.zeros_like({like})" if number == "False" else f"torch.full_like({like}, {number})"
        writer.lines.append(Line(f"{names[flag]} = {text}{bar}{above}"))
    done = f"{names['terminated']} | {names['truncated']}"
    return [f"{names['done']}={done}", *(f"{names[f]}={names[f]}" for f in ("terminated", "truncated"))]


def _above(flag: str, rank: int) -> str:
    """The root's flag, as it meets flags of `rank` dimensions."""
    if rank < 2:
        return f"{flag}.unsqueeze(-1)" if rank else flag
    return f"{flag}[..., {', '.join(['None'] * rank)}]"


def _spread(above: str, flag: str, dims: tuple[int, ...]) -> str:
    """The root's flag for each of `dims`, in memory of its own."""
    if not dims:
        return f"{flag}.clone()"
    return f"{above}.expand(*{flag}.shape[:-1], {', '.join(map(str, dims))}, 1).clone()"
