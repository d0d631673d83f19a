"""Printed programs, run: the text of a torch function, and the function itself."""

from __future__ import annotations

import ast
import builtins
import math
from collections import namedtuple
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from specgen_runtime import functional
from specgen_runtime.objectives import distance_loss
from torch import Tensor

from specgen.code import Code
from specgen.emit.format import format_python
from specgen.program.printed import PrintedFunction
from specgen.program.program import Call, Program, Region
from specgen.program.torch_text import print_function
from specgen.program.verify import verify


def text_of(program: Program, **annotations: str) -> str:
    """A program as the text of a formatted function; `annotations` are types of arguments that are no tensors."""
    printed = print_function(verify(program), {name: Code(text) for name, text in annotations.items()})
    assert_uses_are_told(printed)
    args = [f"{argument.name}: {argument.annotation}" for argument in printed.args]
    if printed.keyword_only:
        args += ["*", *(f"{one.name}: {one.annotation}" for one in printed.keyword_only)]
    lines = [f"def {printed.name}({', '.join(args)}) -> {printed.returns}:"]
    last = None
    for line in printed.lines:
        if line.origin is not None and line.origin != last:
            lines.append(f"    # {line.origin}")
            last = line.origin
        lines += [f"    {part}" for part in line.text.split("\n")]
    return format_python({"printed.py": "\n".join(lines) + "\n"})["printed.py"].strip()


def assert_uses_are_told(printed: PrintedFunction) -> None:
    """The body of a printed function reads what it says of its module, and nothing else."""
    body = ast.parse("\n".join(line.text for line in printed.lines))
    names = [node for node in ast.walk(body) if isinstance(node, ast.Name)]
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    own |= {argument.name for argument in (*printed.args, *printed.keyword_only)} | set(dir(builtins))
    assert {node.id for node in names} - own == printed.uses - own, printed.name


def namespace(*programs: Program, **names: Any) -> dict[str, Any]:
    """The functions of printed programs, in order, and the names that their texts read."""
    found: dict[str, Any] = {
        "torch": torch,
        "math": math,
        "partial": partial,
        "Tensor": Tensor,
        "distance_loss": distance_loss,
        **{name: getattr(functional, name) for name in functional.__all__},
        **names,
    }
    for program in programs:
        if program.record is not None:
            fields = [output.name for output in program.outputs]
            found.setdefault(program.record, namedtuple(program.record, fields))
        text = text_of(program, **records(program))
        exec(compile(f"from __future__ import annotations\n{text}", program.name, "exec"), found)
    return found


def called(program: Program) -> list[Program]:
    """The programs that a program calls, each behind those that it calls itself, and last the program."""
    found: dict[str, Program] = {}
    pending = list(program.body)
    for statement in pending:
        if isinstance(statement, Region):
            pending += statement.body
        elif isinstance(statement, Call) and statement.callee.program is not None:
            found |= {one.name: one for one in called(statement.callee.program)}
    return [*found.values(), program]


def records(program: Program) -> Mapping[str, str]:
    """An annotation for each record that a program is passed."""
    return {one.group: "object" for one in program.inputs if one.group}
