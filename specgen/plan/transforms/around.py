"""The methods with which the class of a transform steps the environment before it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from specgen.check.conditions import ALWAYS
from specgen.check.transforms.model import Around, CheckedTransform, Phase, sizes_of
from specgen.check.transforms.names import NTH
from specgen.check.transforms.types import joins_only
from specgen.code import Code, named, using
from specgen.literals import literal
from specgen.plan.model import Argument, CallPlan, FunctionPlan, Text
from specgen.plan.per_env import param_of_rows
from specgen.plan.transforms.draws import phase_draws
from specgen.plan.transforms.functions import PhaseFunction, around_functions, ranked
from specgen.plan.transforms.phases import PhaseBlock
from specgen.plan.transforms.text import exists, if_there, keyless, rank_text, variable
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
_NUMBERS = {NTH: "int", "tolerant": "bool"}
_METHODS: dict[Phase, tuple[str, tuple[str, ...], Text, str]] = {
    "until": ("_until", ("tensordict", "next_tensordict", NTH), _TENSORS, ""),
    "fold": ("_fold", ("tensordict", "next_tensordict", "acc", "folded", NTH), "None", "folded"),
    "collect": ("_collect", ("tensordict", "next_tensordict", "collected", NTH), "None", "collected"),
    "action": ("_act", ("tensordict", "root", NTH, "tolerant"), "None", "root"),
    "skip": ("_skips", ("tensordict",), _TENSORS, ""),
    "reset_steps": ("_counts", ("tensordict_reset",), _COUNTS, ""),
}
"""The method of each part: its name, its arguments, what it returns, and the tensordict that it writes into."""


@dataclass(frozen=True)
class MethodPlan:
    """A method that calls pure functions for each record of keys.

    Attributes:
        name: its name.
        args: its arguments.
        returns: its annotation.
        rows: the property that gives the records; empty where it reads no key.
        blocks: the calls, in order; what one without results returns is yielded.
        needed: the keys without which a tolerant call passes a record over, as arguments; empty where none is tolerant.
    """

    name: str
    args: tuple[Argument, ...]
    returns: Text
    rows: str
    blocks: tuple[PhaseBlock, ...]
    needed: str = ""

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
    functions = {phase: made for phase in _METHODS if (made := around_functions(transform, phase))}
    return AroundPlan(
        _BASES[around.kind],
        tuple((name, list(fields)) for name, fields in _groups(transform, around) if fields),
        _count(transform, around),
        literal(dict(around.stacked)) if around.stacked else "",
        tuple(_method(transform, phase, made) for phase, made in functions.items()),
        tuple(function.plan for made in functions.values() for function in made),
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


def _method(transform: CheckedTransform, phase: Phase, functions: list[PhaseFunction]) -> MethodPlan:
    name, args, returns, target = _METHODS[phase]
    if transform.around is not None and transform.around.kind == "reset_steps" and phase == "action":
        args, returns = ("root", NTH, "inner"), _TENSORDICT
    at_hand: set[str] = set()
    blocks = tuple(_block(transform, phase, function, args, target, at_hand) for function in functions)
    reads_keys = bool(target) or any(block.fetched or block.when for block in blocks)
    return MethodPlan(
        name,
        tuple(Argument(arg, _NUMBERS.get(arg, _TENSORDICT)) for arg in args),
        returns,
        ("keys_inv" if phase == "action" else "keys") if reads_keys else "",
        blocks,
        "*self._fields(self._takes, [key])" if "tolerant" in args else "",
    )


def _block(
    transform: CheckedTransform,
    phase: Phase,
    function: PhaseFunction,
    args: tuple[str, ...],
    target: str,
    at_hand: set[str],
) -> PhaseBlock:
    """The call of a function; what it returns is written into `target`, or yielded. `at_hand` has been read."""
    params = {param.name: param for param in transform.params}
    networks = {network.name for network in transform.networks}
    missing = keyless(transform) - function.given
    fetched: list[tuple[str, str]] = []
    passed: list[Text] = []
    within = function.when or ALWAYS
    drawn = phase_draws(transform, phase, [function], lambda size: f"self.{size}", within)
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
            passed.append(_size(transform, phase, read, function.reads, missing))
        elif read in networks:
            passed.append(f"self._networks[{literal(read)}]")
        elif (counted := ranked(transform, read)) is not None:
            passed.append(if_there(counted.name, rank_text(transform, counted), missing, "0"))
        else:
            role = read.rpartition(".")[2]
            text = if_there(role, _fetched(transform, phase, read, args), missing, "None")
            passed.append(variable(read))
            if read in at_hand:
                continue
            fetched.append((variable(read), text))
            if function.when is None and role not in missing:
                at_hand.add(read)
    writes = function.writes if target else ()
    return PhaseBlock(
        exists(function.when, writes),
        tuple(fetched),
        tuple(map(variable, writes)),
        CallPlan(function.name, tuple(passed)),
        tuple(f"self._write({target}, key.{write}, {variable(write)})" for write in writes),
    )


def _size(
    transform: CheckedTransform, phase: Phase, name: str, reads: tuple[str, ...], missing: Collection[str]
) -> Text:
    """A named size, of the tensor of its role where that is at hand; 0 where that is `missing`."""
    own = sizes_of(role for role in transform.roles if role.inverse is (phase == "action"))
    role, axis = own.get(name) or transform.sizes[name]
    found = next((read for read in reads if read.rpartition(".")[2] == role.name), None)
    there = variable(found) if found else f"key.{role.name}"
    if found:
        size = using(f"{there}.shape[{axis}]")
    elif not role.inverse:
        size = using(f"self._spec({there}).shape[{axis}]")
    else:
        size = using(f"self._spec({there}, INPUTS).shape[{axis}]", "INPUTS")
    return using(f"0 if {there} is None else {size}", *size.uses) if role.name in missing else size


def _fetched(transform: CheckedTransform, phase: Phase, read: str, args: tuple[str, ...]) -> str:
    """How a method gets a value of the data."""
    moment, _, name = read.rpartition(".")
    role = next((one for one in transform.roles if one.name == name), None)
    if moment == "next":
        source, get = "next_tensordict", "_require"
    elif moment == "acc":
        source, get = "acc", "_require"
    elif phase in ("action", "reset_steps"):
        source, get = args[0], "_require"
    else:
        source, get = "tensordict", "_recall_input"
    if role is None or role.form != "all" or role.inverse:
        return f"self.{get}({source}, key.{name})"
    if joins_only(transform, role):
        return f"self._vectors({source}, key.{name}{', recalled=True' if get == '_recall_input' else ''})"
    return f"[self.{get}({source}, each) for each in key.{name}]"
