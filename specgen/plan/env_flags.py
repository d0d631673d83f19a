"""The done flags: none at a reset; of a step, each set's own, joined with those of the root, which end everything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from specgen.check.done_sets import joined_flags
from specgen.check.model import DONE_FLAGS, ENDING_FLAGS, CheckedEnv, Key, dotted
from specgen.expr.printer import full_like_text
from specgen.plan.model import Line
from specgen.plan.writer import Writer


def reset_flags(env: CheckedEnv) -> tuple[list[Line], list[str]]:
    """The done flags at a reset: no episode is over.

    Returns:
        The lines that make them, and the arguments of the record.
    """
    lines: list[Line] = []
    values: list[str] = []
    for prefix in env.done:
        done, *others = ("_".join((*prefix, flag)) for flag in DONE_FLAGS)
        like = "not_done"
        if prefix:
            shape = ", ".join(map(str, (*env.done_dims[prefix], 1)))
            text = f"torch.zeros((*not_done.shape[:-1], {shape}), dtype=torch.bool, device=not_done.device)"
            lines.append(Line(f"{done} = {text}"))
            like = done
        values += [f"{done}={like}", *(f"{name}={like}.clone()" for name in others)]
    return lines, values


def with_batch(lines: list[Line], taken: Iterable[str]) -> list[Line]:
    """The lines of a reset with a name for the batch shape, where several read it and the name is free."""
    shape = "not_done.shape[:-1]"
    if sum(line.text.count(shape) for line in lines) < 2 or "batch" in taken:
        return lines
    return [
        Line(f"batch = {shape}"),
        *(replace(line, text=line.text.replace(shape, "batch")) for line in lines),
    ]


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
    done, *names = ("_".join((*prefix, flag)) for flag in DONE_FLAGS)
    values = [_flag_value(env, prefix, flag, writer, used) for flag in ENDING_FLAGS]
    computed = [name for name, value in zip(names, values, strict=True) if value is None]
    raised = [name for name, value in zip(names, values, strict=True) if value != "False"]
    like = computed[0] if computed else done
    if not computed:
        used.setdefault(dotted((*prefix, "done")))
    texts = []
    for name, value in zip(names, values, strict=True):
        if value not in (None, "False"):
            writer.lines.append(Line(f"{name} = {full_like_text(like, value)}"))
        texts.append(full_like_text(like, value) if value == "False" else name)
    over = " | ".join(names) if len(raised) == 2 else f"{raised[0]}.clone()" if raised else texts[0]
    return [f"{done}={over}", *(f"{name}={text}" for name, text in zip(names, texts, strict=True))]


def _flag_value(env: CheckedEnv, prefix: Key, flag: str, writer: Writer, used: dict[str, None]) -> str | None:
    """The number that a flag is in every row; None if it differs, and the lines have been added that store it."""
    key, name = dotted((*prefix, flag)), "_".join((*prefix, flag))
    statement = {statement.target: statement for statement in env.step}.get(key)
    binding = writer.scope[key] if statement is not None else None
    root = writer.scope.get(flag) if prefix else None
    above = None
    if root is not None and root.static is not False:
        above = _above(flag, len(env.done_dims[prefix]))
    if binding is None or binding.static is False:
        if above is None:
            return "False"
        writer.lines.append(Line(f"{name} = {_spread(above, flag, env.done_dims[prefix])}"))
        return None
    if binding.type.python:
        number = binding.text if binding.static is None else "True"
        if above is None or binding.static is not None:
            return number
        used.setdefault(dotted((*prefix, "done")))
        like = "_".join((*prefix, "done"))
        writer.lines.append(Line(f"{name} = {full_like_text(like, number)} | {above}"))
        return None
    text = binding.text if binding.type.col else f"{binding.text}.unsqueeze(-1)"
    if binding.type.level == "const":
        used.setdefault(dotted((*prefix, "done")))
        text = f"{text}.expand_as({'_'.join((*prefix, 'done'))}).clone()"
    if above is not None and key in joined_flags(env):
        text = f"{text} | {above}"
    if text != name:
        writer.lines.append(Line(f"{name} = {text}", f"envs.{env.name}.step.{key}"))
    return None


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
