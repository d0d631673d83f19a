"""A checked loss as one pure function of named tensors and a thin class around it."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.check.loss_builtins import LOSS_BUILTINS
from specgen.check.loss_model import CheckedLoss, LossParam
from specgen.check.model import Checked, Key, Statement, identifier, snake
from specgen.diagnostics import Sink
from specgen.expr import Binding, Type, Typed, full, infer, to_torch
from specgen.plan.docs import hanging
from specgen.plan.loss_class import loss_class
from specgen.plan.loss_parts import LossParts, params_scope, stored_text
from specgen.plan.model import Argument, Field, FunctionPlan, Item, Line, RecordPlan, TypingPlan
from specgen.plan.typed_keys import data_class


def plan_loss(checked: Checked[CheckedLoss]) -> list[Item]:
    """Plan a loss: the record of its terms, its pure function, its class, and the type of what it returns."""
    loss = checked.value
    parts = _parts(loss)
    return [_terms_record(loss), _function(loss, parts), loss_class(loss, parts), _output(loss)]


def _parts(loss: CheckedLoss) -> LossParts:
    """What the pure function takes."""
    pure = (*loss.let, *loss.terms, *loss.metrics, *loss.writes)
    reads = {name for statement in pure for name in statement.reads}
    called = {name for statement in pure for name in statement.calls}
    return LossParts(
        function=snake(loss.name),
        values=tuple(made for made in loss.forward if made.name in reads),
        roles=tuple(role for role in loss.roles if role.name in reads),
        params=tuple(param for param in loss.params if param.name in reads),
        estimates="value_estimate" in called,
    )


def _terms_record(loss: CheckedLoss) -> RecordPlan:
    fields = [
        Field(statement.name, "Tensor", doc="[*batch], before the reduction") for statement in loss.terms
    ]
    for statement in loss.metrics:
        type = loss.types[statement.target]
        fields.append(
            Field(statement.name, _PYTHON[type.dtype] if type.python else "Tensor", doc="to be logged")
        )
    docs = {role.name: role.doc for role in loss.roles}
    for statement in loss.writes:
        fields.append(Field(statement.name, "Tensor", doc=_joined("[*batch, 1]", docs[statement.target])))
    return RecordPlan(
        f"{loss.name}Terms", ("What the loss is made of, one value per sample.",), tuple(fields)
    )


def _joined(what: str, doc: str) -> str:
    return f"{what}; {doc}" if doc else what


def _function(loss: CheckedLoss, parts: LossParts) -> FunctionPlan:
    writer = _Writer(loss, parts)
    for statement in loss.let:
        writer.assign(statement)
    for statement in loss.terms:
        writer.store(statement, Type(loss.types[statement.target].dtype))
    writer.detached(loss.metrics, loss.writes)
    results = ", ".join(f"{s.name}={s.name}" for s in (*loss.terms, *loss.metrics, *loss.writes))
    writer.lines.append(Line(f"return {loss.name}Terms({results})"))
    args = [Argument(made.name, "Tensor") for made in parts.values]
    args += [Argument(identifier(role.name), "Tensor") for role in parts.roles]
    if parts.estimates:
        args.append(Argument("value_estimate", "Callable[[Tensor], Tensor]"))
    keywords = tuple(Argument(param.name, param.annotation) for param in parts.params)
    return FunctionPlan(
        parts.function, tuple(args), f"{loss.name}Terms", _doc(loss, parts), tuple(writer.lines), keywords
    )


def _doc(loss: CheckedLoss, parts: LossParts) -> tuple[str, ...]:
    lines = [f"The terms of `{loss.name}`, one value per sample.", "", "Args:"]
    for made in parts.values:
        lines += hanging(f"{made.name}: {_tensor(made.type)}, from `{made.network}`.")
    for role in parts.roles:
        if role.type is not None:
            lines += hanging(f"{role.name}: {_joined(_tensor(role.type), role.doc)}.")
    if parts.estimates:
        lines += hanging(
            "value_estimate: from the value of the next state, [*batch], to the target, [*batch]."
        )
    lines += [line for param in parts.params for line in hanging(f"{param.name}: {_param(param)}")]
    return tuple(lines)


def _tensor(type: Type) -> str:
    dims = [*map(str, type.dims or ()), *(["1"] if type.col else [])]
    return f"{type.dtype} [{', '.join(['*batch', *dims])}]"


def _param(param: LossParam) -> str:
    return param.doc or (f"one of {', '.join(param.choices)}." if param.choices else f"{param.annotation}.")


def _output(loss: CheckedLoss) -> TypingPlan:
    keys: dict[Key, str] = {(s.name,): 'Float[Tensor, "*batch"]' for s in (*loss.terms, *loss.metrics)}
    return data_class(f"{loss.name}Output", f"What `{loss.name}` returns.", keys)


_PYTHON = {"bool": "bool", "int64": "int", "float32": "float", "float64": "float"}


class _Writer:
    """Prints the statements of the pure function."""

    def __init__(self, loss: CheckedLoss, parts: LossParts) -> None:
        self.loss = loss
        self.lines: list[Line] = []
        self.scope = params_scope(loss)
        for made in parts.values:
            self.scope[made.name] = Binding(made.name, made.type, full(made.type.dtype))
        for role in parts.roles:
            if role.type is not None:
                self.scope[role.name] = Binding(identifier(role.name), role.type, role.interval)

    def typed(self, statement: Statement) -> Typed:
        """The statement in this scope; the checker has proved that it is right."""
        sink = Sink()
        typed = infer(statement.expr, self.scope, statement.source, sink, functions=LOSS_BUILTINS)
        if typed is None:
            raise AssertionError(
                f"checked statement {statement.path} no longer types: {list(map(str, sink.items))}"
            )
        return typed

    def assign(self, statement: Statement) -> None:
        """`name = expression`, or nothing where the value is known at build and printed where it is read."""
        typed = self.typed(statement)
        name = identifier(statement.target)
        self.scope[statement.target] = Binding(name, typed.type, typed.interval, static=typed.static)
        if typed.static is None:
            self.lines.append(Line(f"{name} = {to_torch(typed, col=typed.type.col)}", statement.path))

    def store(self, statement: Statement, type: Type) -> None:
        """`name = expression`, as a tensor of this type."""
        typed = self.typed(statement)
        self.scope[statement.target] = Binding(statement.name, type, typed.interval)
        self.lines.append(Line(f"{statement.name} = {stored_text(typed, type)}", statement.path))

    def detached(self, metrics: Sequence[Statement], writes: Sequence[Statement]) -> None:
        """Metrics and what is written back, without gradients."""
        texts = [(s, to_torch(self.typed(s))) for s in metrics]
        self._no_grad(texts)
        texts = []
        for statement in writes:
            typed = self.typed(statement)
            texts.append((statement, stored_text(typed, Type(typed.type.dtype, (), col=True))))
        self._no_grad(texts)

    def _no_grad(self, texts: Sequence[tuple[Statement, str]]) -> None:
        if texts:
            body = "".join(f"\n    {statement.name} = {text}" for statement, text in texts)
            self.lines.append(Line(f"with torch.no_grad():{body}", texts[0][0].path.rpartition(".")[0]))
