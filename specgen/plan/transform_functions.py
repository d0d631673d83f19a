"""The pure functions of a transform: one for each phase, and for what exists only with an option."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specgen.check.model import Statement, identifier, snake
from specgen.check.transform_model import CheckedTransform, Output, Phase
from specgen.check.transforms import output_type, role_type
from specgen.diagnostics import Sink
from specgen.expr import Binding, Type, Typed, full, infer, to_torch
from specgen.expr.dtypes import is_abstract
from specgen.expr.printer import full_like_text
from specgen.plan.flow import closure
from specgen.plan.model import Argument, FunctionPlan, Line
from specgen.plan.writer import TORCH_DTYPES

_SCALARS = {"int": "int", "float": "float", "bool": "bool"}


@dataclass(frozen=True)
class PhaseFunction:
    """A pure function of a phase, and how the class calls it.

    Attributes:
        reads: the names it takes, in order: parameters, roles, outputs, `next.` names.
        writes: the targets it returns, in order.
        when: the optional parameter that must be given; ``None`` for what always exists.
    """

    plan: FunctionPlan
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    when: str | None = None

    @property
    def name(self) -> str:
        """Its Python name."""
        return self.plan.name


def phase_functions(transform: CheckedTransform, phase: Phase) -> list[PhaseFunction]:
    """The functions of a phase: what always exists first, then one for each optional parameter."""
    targets = [s.target for s in transform.phase(phase) if _output(transform, s.target) or phase == "inverse"]
    targets = [t for t in targets if phase != "inverse" or any(role.name == t for role in transform.backward)]
    groups: dict[str | None, list[str]] = {}
    for target in targets:
        output = _output(transform, target)
        groups.setdefault(output.when if output is not None else None, []).append(target)
    every = {target for group in groups.values() for target in group}
    order = sorted(groups, key=lambda when: (when is not None, when or ""))
    return [_function(transform, phase, when, groups[when], every) for when in order]


def _function(
    transform: CheckedTransform, phase: Phase, when: str | None, targets: Sequence[str], every: set[str]
) -> PhaseFunction:
    statements = {s.target: s for s in transform.phase(phase)}
    # What another function of this phase computes comes in as an argument.
    outside = every - set(targets)
    needed = closure({name: s for name, s in statements.items() if name not in outside}, targets)
    writer = _Writer(transform, phase, when)
    for name, statement in statements.items():
        if name in needed:
            writer.assign(statement, name in targets)
    names = [identifier(target) for target in targets]
    lines = list(writer.lines)
    if len(targets) == 1:
        last = lines.pop()
        lines.append(Line(f"return {last.text.split(' = ', 1)[1]}", last.origin))
    else:
        lines.append(Line(f"return {', '.join(names)}"))
    reads = _ordered(transform, writer.reads)
    suffix = "" if when is None else "_" + "_".join(target.removeprefix("next.") for target in targets)
    plan = FunctionPlan(
        f"{snake(transform.name)}_{phase}{suffix}",
        tuple(Argument(identifier(name), _annotation(transform, name)) for name in reads),
        "Tensor" if len(targets) == 1 else f"tuple[{', '.join('Tensor' for _ in targets)}]",
        _doc(transform, phase, targets, reads),
        tuple(lines),
    )
    return PhaseFunction(plan, reads, tuple(targets), when)


class _Writer:
    """Prints statements for whatever dtype and shape the keys will have."""

    def __init__(self, transform: CheckedTransform, phase: Phase, when: str | None) -> None:
        self.transform = transform
        self.phase = phase
        self.lines: list[Line] = []
        self.reads: set[str] = set()
        self.scope: dict[str, Binding] = {}
        roles = {role.name: role for role in transform.roles}
        for param in transform.params:
            dtype = {"int": "int64", "float": "float32", "bool": "bool", "tensor": "float"}[param.kind]
            type_ = Type(dtype, None, "const") if param.kind == "tensor" else Type(dtype, (), "ctor")
            self._bind(param.name, type_)
        for role in transform.roles:
            self._bind(role.name, role_type(role))
            self._bind(f"next.{role.name}", role_type(role))
        for output in transform.outputs:
            self._bind(output.name, output_type(output, roles))
            self._bind(f"next.{output.name}", output_type(output, roles))
        self.types = {name: binding.type for name, binding in self.scope.items()}
        self.defined: set[str] = set()

    def _bind(self, name: str, type_: Type) -> None:
        self.scope[name] = Binding(identifier(name), type_, full(type_.dtype))

    def assign(self, statement: Statement, target: bool) -> None:
        sink = Sink()
        typed = infer(statement.expr, self.scope, statement.source, sink)
        if typed is None:
            raise AssertionError(
                f"checked statement {statement.path} no longer types: {list(map(str, sink.items))}"
            )
        self.reads |= {name for name in statement.reads if name in self.scope and name not in self.defined}
        name = identifier(statement.target)
        if not target and typed.static is not None:
            self.scope[statement.target] = Binding(name, typed.type, typed.interval, static=typed.static)
        else:
            text = self._stored(statement, typed) if target else to_torch(typed)
            self.lines.append(Line(f"{name} = {text}", statement.path))
            kind = self.types[statement.target] if target else typed.type
            self.scope[statement.target] = Binding(name, kind, typed.interval)
        self.defined.add(statement.target)

    def _stored(self, statement: Statement, typed: Typed) -> str:
        """The text of an output, in its dtype and of the shape of the entry that it follows."""
        wanted = self.types[statement.target].dtype
        if typed.type.level == "batch":
            return to_torch(typed, cast=wanted)
        like = self._template(statement)
        text = to_torch(typed)
        if typed.type.level == "const":
            return f"{text}.expand_as({like})"
        return full_like_text(like, text, "" if is_abstract(wanted) else TORCH_DTYPES[wanted])

    def _template(self, statement: Statement) -> str:
        """A tensor of the shape of an output whose expression reads none; it becomes an argument."""
        output = _output(self.transform, statement.target)
        name = statement.target if output is None else output.each
        if output is not None and self.phase == "reset":
            name = output.name
        elif self.phase == "step":
            name = f"next.{name}"
        self.reads.add(name)
        return identifier(name)


def _output(transform: CheckedTransform, target: str) -> Output | None:
    name = target.removeprefix("next.")
    return next((output for output in transform.outputs if output.name == name), None)


def _ordered(transform: CheckedTransform, names: Iterable[str]) -> tuple[str, ...]:
    """Parameters, then values before the step, then values after it; each in the order declared."""
    declared = [*(p.name for p in transform.params), *(r.name for r in transform.roles)]
    declared += [output.name for output in transform.outputs]
    order = declared + [f"next.{name}" for name in declared]
    return tuple(sorted(names, key=order.index))


def _annotation(transform: CheckedTransform, name: str) -> str:
    param = next((param for param in transform.params if param.name == name), None)
    return "Tensor" if param is None or param.kind == "tensor" else _SCALARS[param.kind]


def _doc(
    transform: CheckedTransform, phase: Phase, targets: Sequence[str], reads: Iterable[str]
) -> tuple[str, ...]:
    what = " and ".join(f"`{target.removeprefix('next.')}`" for target in targets)
    head = {
        "reset": f"{what} at the start of an episode.",
        "step": f"{what} after a step.",
        "map": f"{what} at any moment.",
        "inverse": f"{what}, as the environment takes it.",
    }[phase]
    return (
        head,
        "",
        "Args:",
        *(f"    {identifier(name)}: {_read_doc(transform, phase, name)}" for name in reads),
    )


def _read_doc(transform: CheckedTransform, phase: Phase, name: str) -> str:
    bare = name.removeprefix("next.")
    param = next((param for param in transform.params if param.name == bare), None)
    if param is not None:
        return f"{param.doc or 'constructor keyword'}."
    output = _output(transform, bare)
    roles = {role.name: role for role in transform.roles}
    type_ = output_type(output, roles) if output is not None else role_type(roles[bare])
    dtype = (
        type_.dtype
        if not is_abstract(type_.dtype)
        else {"float": "floats", "number": "numbers"}.get(type_.dtype, "any dtype")
    )
    dims = "[*batch, ...]" if type_.dims is None else f"[{', '.join(['*batch', *map(str, type_.dims)])}]"
    if output is not None and phase == "reset":
        moment = ", read for its shape and dtype only"
    elif phase == "step":
        so_far = output is not None and output.flag
        moment = (
            (", so far" if so_far else ", after the step")
            if name.startswith("next.")
            else ", before the step"
        )
    else:
        moment = ""
    return f"{dtype} {dims}{moment}."
