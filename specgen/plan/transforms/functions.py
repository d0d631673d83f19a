"""The pure functions of a transform: one for each phase, and for what exists only with an option."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from specgen.check.conditions import Condition
from specgen.check.programs.transform import PhaseProgram, output_of, phase_programs
from specgen.check.programs.transform_around import around_programs
from specgen.check.transforms.entries import Role
from specgen.check.transforms.inverse import bound_names, classes_name
from specgen.check.transforms.model import CalledNetwork, CheckedTransform, Phase
from specgen.check.transforms.names import NTH
from specgen.check.transforms.types import rank_symbol
from specgen.code import Code, named, using
from specgen.expr.builtins.batch import NEW_ROWS
from specgen.expr.dtypes import is_abstract
from specgen.plan.functions import data_name, plan_function
from specgen.plan.model import FunctionPlan
from specgen.plan.per_env import kept_annotation
from specgen.plan.short_texts import shape_text
from specgen.program.program import Input
from specgen.program.torch_blocks import PYTHON_TYPES
from specgen.values import dataclass, replace


@dataclass(frozen=True)
class PhaseFunction:
    """A pure function of a phase, and how the class calls it.

    Attributes:
        reads: the names it takes, in order: parameters, roles, outputs, `next.` names.
        writes: the targets it returns, in order.
        when: what must hold of the parameters and keys; ``None`` for what always exists.
    """

    plan: FunctionPlan
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    when: Condition | None = None

    @property
    def name(self) -> str:
        """Its Python name."""
        return self.plan.name

    @property
    def given(self) -> frozenset[str]:
        """The parameters and roles that are known to be there where it is called."""
        return frozenset() if self.when is None else self.when.given


def phase_functions(transform: CheckedTransform, phase: Phase) -> list[PhaseFunction]:
    """The functions of a phase: what always exists first, then one for each condition on parameters."""
    return [_function(transform, phase, one) for one in phase_programs(transform, phase)]


def around_functions(transform: CheckedTransform, phase: Phase) -> list[PhaseFunction]:
    """The functions of a part of `around`; none where it is not given."""
    return [_as_number(one, _function(transform, phase, one)) for one in around_programs(transform, phase)]


def _as_number(one: PhaseProgram, function: PhaseFunction) -> PhaseFunction:
    """A function that gives one number for all rows says so."""
    if one.program.outputs[0].symbol.type.level == "batch":
        return function
    returns = PYTHON_TYPES[one.program.outputs[0].symbol.type.dtype]
    return replace(function, plan=replace(function.plan, returns=named(returns)))


def _function(transform: CheckedTransform, phase: Phase, one: PhaseProgram) -> PhaseFunction:
    planned = plan_function(
        one.program,
        _summary(phase, one.writes),
        argument_types(transform, phase, one.when),
        lambda given: _input_doc(transform, phase, given),
    )
    reads = tuple(data_name(given) for given in planned.args if given is not None)
    return PhaseFunction(planned.plan, reads, one.writes, one.when)


def read_by_all(functions: Sequence[PhaseFunction], missing: Collection[str]) -> frozenset[str]:
    """What all functions of a map read, of keys that are there in every record.

    Args:
        functions: the functions.
        missing: the roles and outputs that not every record has a key of.
    """
    asked = {name for one in functions for name in asked_for(one, missing, functions)}
    return frozenset.intersection(*(read_of(one, functions) for one in functions)) - asked


def read_of(function: PhaseFunction, others: Sequence[PhaseFunction]) -> frozenset[str]:
    """What a function reads; in the place of what `others`, of the same moment, compute there is what these read."""
    found: set[str] = set()
    for name in function.reads:
        writer = next((one for one in others if name in one.writes), None)
        found |= {name} if writer is None else read_of(writer, others)
    return frozenset(found)


def asked_for(
    function: PhaseFunction, missing: Collection[str], others: Sequence[PhaseFunction]
) -> list[str]:
    """What a function reads that not every record has a key of, where it is called only if there is one.

    Args:
        function: the function.
        missing: the roles and outputs that not every record has a key of.
        others: functions of the same moment: in the place of what they compute there is what they ask for.
    """
    if function.when is None or not function.when.of_keys:
        return []
    found: list[str] = []
    for name in function.reads:
        writer = next((one for one in others if name in one.writes), None)
        if writer is not None:
            found += asked_for(writer, missing, others)
        elif name.removeprefix("next.") in missing:
            found.append(name)
    return found


def ranked(transform: CheckedTransform, name: str) -> Role | None:
    """The role whose number of dimensions an argument is."""
    return next((role for role in transform.roles if rank_symbol(role).name == name), None)


def argument_types(transform: CheckedTransform, phase: str, when: Condition | None) -> dict[str, Code]:
    """The types of arguments that are several tensors, or that may be missing."""
    each = phase == "inverse"  # computed for one key after another
    several = [role.name for role in transform.roles if role.form == "all" and not (each and role.inverse)]
    given = frozenset[str]() if when is None else when.given
    missing = [param for param in transform.params if param.optional and param.name not in given]
    tensor = using("Tensor", "Tensor")
    absent = {param.name: tensor if param.kind == "tensor" else kept_annotation(param) for param in missing}
    keyless = [role.name for role in transform.roles if role.may_be_missing and role.name not in given]
    absent |= {f"{prefix}{name}": tensor for name in keyless for prefix in ("", "next_", "acc_")}
    optional = {name: using(f"{text} | None", *text.uses) for name, text in absent.items()}
    networks = {network.name: network_annotation(network) for network in transform.networks}
    return (
        optional
        | networks
        | {NEW_ROWS: using("NewRows", "NewRows")}
        | {f"{prefix}{name}": using("list[Tensor]", "Tensor") for name in several for prefix in ("", "next_")}
    )


def network_annotation(network: CalledNetwork) -> Code:
    """The type of a network as a function takes it."""
    taken = ", ".join("Tensor" for _ in network.reads)
    return using(f"Callable[[{taken}], Tensor]", "Callable", "Tensor")


def _summary(phase: Phase, targets: Sequence[str]) -> str:
    what = " and ".join(f"`{target.removeprefix('next.')}`" for target in targets)
    return {
        "reset": f"{what} at the start of an episode.",
        "step": f"{what} after a step.",
        "map": f"{what} at any moment.",
        "inverse": f"{what}, as the environment takes it.",
        "outer": f"{what}, of what the environment takes.",
        "until": "Where a row stops after a repetition.",
        "fold": f"{what} of the repetitions so far.",
        "collect": f"{what} of a repetition.",
        "action": f"{what} of a repetition, as the environment takes it.",
        "skip": "Where a row does not step.",
        "reset_steps": "How many steps a row takes after a reset.",
    }[phase]


def network_doc(transform: CheckedTransform, name: str) -> str:
    """What a network is, and what it reads and gives."""
    network = next(one for one in transform.networks if one.name == name)
    given = f"{network.dtype} {shape_text('*rows', network.dims)}"
    what = f"from {' and '.join(f'`{read}`' for read in network.reads)} to {given}"
    return f"{network.doc}, {what}" if network.doc else f"a network {what}"


def _input_doc(transform: CheckedTransform, phase: Phase, given: Input) -> str:
    symbol = given.symbol
    if symbol.name == NTH and symbol.path.endswith(f".in.{NTH}"):
        counted = "key" if phase == "inverse" else "repetition"
        return f"the number of the {counted}, from 0."
    if symbol.name == NEW_ROWS:
        return "the rows that are being reset."
    if symbol.name in transform.sizes and given.kind == "param":
        role, axis = transform.sizes[symbol.name]
        return f"the size of `{role.name}` along axis {axis}."
    if (role_ := ranked(transform, symbol.name)) is not None:
        return f"how many dimensions `{role_.name}` has, without the batch's."
    if (fact := _fact_doc(transform, symbol.name)) is not None and given.kind == "param":
        return fact
    if given.kind == "param":
        return f"{transform.param(symbol.name).doc or 'constructor keyword'}."
    name = data_name(given)
    if given.kind == "network":
        return f"{network_doc(transform, name)}."
    if given.kind == "buffer":
        return "what was learned."
    output = output_of(transform, name)
    type_ = symbol.type
    dtype = (
        type_.dtype
        if not is_abstract(type_.dtype)
        else {"float": "floats", "number": "numbers"}.get(type_.dtype, "any dtype")
    )
    dims = f"[{', '.join(['*batch', *map(str, type_.dims)])}]"
    shape_only = output.inverse is False if output is not None else phase == "inverse"
    if shape_only and phase in ("reset", "inverse"):
        moment = ", read for its shape and dtype only"
    elif name.startswith("acc."):
        moment = ", of the repetitions before"
    elif phase in ("until", "fold", "collect"):
        moment = ", of this repetition" if name.startswith("next.") else ", before the step"
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


def _fact_doc(transform: CheckedTransform, name: str) -> str | None:
    """What an argument says of a spec; None for any other argument."""
    for role in transform.backward:
        for place, argument in zip(("lower", "upper"), bound_names(role), strict=False):
            if argument[1] == name:
                return f"the {place} bounds of `{role.name}`."
    for output in transform.written(inverse=True):
        if (found := classes_name(output)) is not None and found[1] == name:
            return f"how many classes each choice of `{output.name}` has."
    return None
