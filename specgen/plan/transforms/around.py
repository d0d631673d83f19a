"""The methods with which the class of a transform steps the environment before it."""

from __future__ import annotations

from dataclasses import field

from specgen.check.transforms.model import Around, CheckedTransform, Phase
from specgen.check.transforms.names import NTH
from specgen.check.transforms.types import joins_only
from specgen.code import Code, named, using
from specgen.literals import literal
from specgen.plan.model import Argument, CallPlan, FunctionPlan, Text
from specgen.plan.per_env import param_of_rows
from specgen.plan.transforms.draws import phase_draws
from specgen.plan.transforms.functions import PhaseFunction, around_function, ranked
from specgen.plan.transforms.text import rank_text, variable
from specgen.program.torch_text import print_expression
from specgen.values import dataclass

_BASES = {
    "repeat": named("RepeatTransform"),
    "skip": named("SkipTransform"),
    "reset_steps": named("ResetStepsTransform"),
}
_TENSORDICT = named("TensorDictBase")
_TENSORS = using("Iterator[Tensor]", "Iterator", "Tensor")
_COUNTS = using("Iterator[Tensor | int]", "Iterator", "Tensor")
_METHODS: dict[Phase, tuple[str, tuple[str, ...], Text, str]] = {
    "until": ("_until", ("tensordict", "next_tensordict", NTH), _TENSORS, ""),
    "fold": ("_fold", ("tensordict", "next_tensordict", "folded", NTH), "None", "folded"),
    "collect": ("_collect", ("tensordict", "next_tensordict", "collected", NTH), "None", "collected"),
    "action": ("_act", ("tensordict", "root", NTH), "None", "root"),
    "skip": ("_skips", ("tensordict",), _TENSORS, ""),
    "reset_steps": ("_counts", ("tensordict_reset",), _COUNTS, ""),
}
"""The method of each part: its name, its arguments, what it returns, and the tensordict that it writes into."""


@dataclass(frozen=True)
class MethodPlan:
    """A method that calls a pure function for each record of keys.

    Attributes:
        name: its name.
        args: its arguments.
        returns: its annotation.
        rows: the property that gives the records; empty where it reads no key.
        fetched: what is read first: names with expressions.
        results: the names of what the function returns; empty where it is yielded.
        call: the call.
        stores: the expressions that write the results.
    """

    name: str
    args: tuple[Argument, ...]
    returns: Text
    rows: str
    fetched: tuple[tuple[str, str], ...]
    results: tuple[str, ...]
    call: CallPlan
    stores: tuple[str, ...]

    @property
    def signature(self) -> str:
        """Everything between the parentheses."""
        return ", ".join(["self", *(argument.text for argument in self.args)])


@dataclass(frozen=True)
class AroundPlan:
    """What the class of a transform has besides, where it steps the environment before it.

    Attributes:
        base: the class that it stands on.
        groups: the attributes that name fields of a record.
        count: the method that says how many steps there are, with its expression.
        stacked: outputs that collect each of several keys as it is, with the field of these; as text.
        methods: the others.
        functions: the pure functions that they call.
    """

    base: Code
    groups: tuple[tuple[str, list[str]], ...]
    count: tuple[str, Code] | None
    stacked: str
    methods: tuple[MethodPlan, ...]
    functions: tuple[FunctionPlan, ...] = field(default=())


def plan_around(transform: CheckedTransform) -> AroundPlan | None:
    """Plan what a transform has of `around`; None where it has none."""
    around = transform.around
    if around is None:
        return None
    functions = {phase: made for phase in _METHODS if (made := around_function(transform, phase)) is not None}
    return AroundPlan(
        _BASES[around.kind],
        tuple((name, list(fields)) for name, fields in _groups(transform, around) if fields),
        _count(transform, around),
        literal(dict(around.stacked)) if around.stacked else "",
        tuple(_method(transform, phase, function) for phase, function in functions.items()),
        tuple(function.plan for function in functions.values()),
    )


def _groups(transform: CheckedTransform, around: Around) -> list[tuple[str, tuple[str, ...]]]:
    return [
        ("_folds", tuple(role.name for role in transform.folded)),
        ("_sums", around.sums),
        ("_extremes", around.extremes),
        ("_collects", tuple(output.name for output in transform.collected)),
        ("_taken", () if around.taken is None else (around.taken,)),
    ]


def _count(transform: CheckedTransform, around: Around) -> tuple[str, Code] | None:
    if around.count is None:
        return None
    params = {f"transforms.{transform.name}.params.{param.name}" for param in transform.params}
    text = print_expression(
        around.count.typed,
        lambda symbol: f"self.{symbol.name}" if symbol.path in params else symbol.name,
    )
    return ("_repetitions" if around.kind == "repeat" else "_at_most"), text


def _method(transform: CheckedTransform, phase: Phase, function: PhaseFunction) -> MethodPlan:
    name, args, returns, target = _METHODS[phase]
    if transform.around is not None and transform.around.kind == "reset_steps" and phase == "action":
        args, returns = ("root", NTH, "inner"), _TENSORDICT
    params = {param.name: param for param in transform.params}
    networks = {network.name for network in transform.networks}
    fetched: list[tuple[str, str]] = []
    passed: list[Text] = []
    drawn = phase_draws(transform, phase, [function], lambda size: f"self.{size}")
    draws = {draw.name: draw.text for draw in drawn}
    for read in function.reads:
        if read in draws:
            passed.append(draws[read])
        elif read == NTH:
            passed.append(NTH)
        elif (param := params.get(read)) is not None:
            size = f"{args[0]}.batch_size"
            passed.append(param_of_rows(param, size) if param.per_env else f"self.{read}")
        elif read in transform.sizes:
            passed.append(_size(transform, read, function.reads))
        elif read in networks:
            passed.append(f"self._networks[{literal(read)}]")
        elif (counted := ranked(transform, read)) is not None:
            passed.append(rank_text(transform, counted))
        else:
            fetched.append((variable(read), _fetched(transform, phase, read, args)))
            passed.append(variable(read))
    yields = not target
    return MethodPlan(
        name,
        tuple(Argument(arg, "int" if arg == NTH else _TENSORDICT) for arg in args),
        returns,
        ("keys_inv" if phase == "action" else "keys") if fetched or target else "",
        tuple(fetched),
        () if yields else tuple(map(variable, function.writes)),
        CallPlan(function.name, tuple(passed)),
        ()
        if yields
        else tuple(f"self._write({target}, key.{write}, {variable(write)})" for write in function.writes),
    )


def _size(transform: CheckedTransform, name: str, reads: tuple[str, ...]) -> Text:
    """A named size, of the tensor of its role where that is at hand."""
    role, axis = transform.sizes[name]
    found = next((read for read in reads if read.rpartition(".")[2] == role.name), None)
    if found is not None:
        return f"{variable(found)}.shape[{axis}]"
    if not role.inverse:
        return f"self._spec(key.{role.name}).shape[{axis}]"
    return using(f"self._spec(key.{role.name}, INPUTS).shape[{axis}]", "INPUTS")


def _fetched(transform: CheckedTransform, phase: Phase, read: str, args: tuple[str, ...]) -> str:
    """How a method gets a value of the data."""
    moment, _, name = read.rpartition(".")
    role = next((one for one in transform.roles if one.name == name), None)
    if moment == "next":
        source, get = "next_tensordict", "_require"
    elif moment == "acc":
        source, get = "folded", "_require"
    elif phase in ("action", "reset_steps"):
        source, get = args[0], "_require"
    else:
        source, get = "tensordict", "_recall_input"
    if role is None or role.form != "all" or role.inverse:
        return f"self.{get}({source}, key.{name})"
    if joins_only(transform, role):
        return f"self._vectors({source}, key.{name}{', recalled=True' if get == '_recall_input' else ''})"
    return f"[self.{get}({source}, each) for each in key.{name}]"
