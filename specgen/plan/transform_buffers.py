"""What the class of a transform says of what it learns."""

from __future__ import annotations

from specgen.check.model import identifier
from specgen.check.programs.transform_update import update_program
from specgen.check.transform_model import PHASES, CheckedBuffer, CheckedTransform
from specgen.code import Code, using
from specgen.expr.builtins.batch import NEW_ROWS
from specgen.expr.dtypes import is_abstract
from specgen.literals import literal
from specgen.plan.functions import data_name, plan_function
from specgen.plan.model import CallPlan
from specgen.plan.per_env import param_of_rows
from specgen.plan.transform_functions import PhaseFunction, network_annotation, network_doc, ranked
from specgen.plan.transform_model import LearnsPlan
from specgen.program.program import Input


def update_function(transform: CheckedTransform) -> PhaseFunction | None:
    """The function of what is learned; None for a transform that learns nothing."""
    program = update_program(transform)
    if program is None:
        return None
    roles = {role.name: role for role in transform.roles}
    docs = {buffer.name: buffer.doc or "what was learned so far" for buffer in transform.buffers}

    def describe(given: Input) -> str:
        name = data_name(given)
        if (found := _counted(transform, name)) is not None:
            what = "how many dimensions" if "ndim" in found[1] else "how many elements along one of them"
            return f"{what} `{found[0]}` has, without the batch's."
        if given.kind == "param":
            return f"{transform.param(name).doc or 'constructor keyword'}."
        if given.kind == "network":
            return f"{network_doc(transform, name)}."
        if given.kind == "buffer":
            return f"{docs[name]}."
        if name == NEW_ROWS:
            return "the rows that count."
        pattern = roles[name].pattern
        dtype = {"float": "floats", "number": "numbers"}.get(pattern, "any dtype")
        return f"{dtype if is_abstract(pattern) else pattern} [*batch, ...]."

    listed = " and ".join(f"`{buffer.name}`" for buffer in transform.buffers)
    summary = f"{listed} with what the rows that are new tell."
    annotations = {network.name: network_annotation(network) for network in transform.networks}
    annotations[NEW_ROWS] = using("NewRows", "NewRows")
    planned = plan_function(program.program, summary, annotations, describe)
    reads = tuple(data_name(given) for given in planned.args if given is not None)
    return PhaseFunction(planned.plan, reads, program.writes)


def plan_learning(transform: CheckedTransform, function: PhaseFunction | None) -> LearnsPlan | None:
    """What the class says of its buffers, which `function` updates."""
    if function is None:
        return None
    roles = [role.name for role in transform.forward]
    reads = [name for name in function.reads if name in roles]
    counted = {name: _counted(transform, name) for name in function.reads}
    reads += [found[0] for found in counted.values() if found is not None and found[0] not in reads]
    reads = list(dict.fromkeys(reads))

    def argument(name: str) -> str:
        if (found := counted[name]) is not None:
            return f"values[{reads.index(found[0])}].{found[1]}"
        if name in roles:
            return f"values[{reads.index(name)}]" if any(counted.values()) else "*values"
        return _argument(transform, name)

    # What an update reads of a moment stands together, in the order of `reads`.
    args = dict.fromkeys(map(argument, function.reads))
    return LearnsPlan(
        tuple(_declared(buffer) for buffer in transform.buffers),
        transform.learns,
        tuple(map(identifier, reads)),
        CallPlan(function.name, tuple(args)),
        len(function.writes) == 1,
    )


def _counted(transform: CheckedTransform, name: str) -> tuple[str, str] | None:
    """The role whose rank or size an argument is, and how its value tells that; None for any other argument."""
    if (role := ranked(transform, name)) is not None:
        return role.name, "ndim - len(new_rows.size)"
    if name in transform.sizes:
        role, axis = transform.sizes[name]
        return role.name, f"shape[{axis}]"
    return None


def initial_params(transform: CheckedTransform) -> frozenset[str]:
    """The parameters that only say what buffers begin with."""
    statements = [statement for phase in (*PHASES, "update") for statement in transform.phase(phase)]
    read = {name for statement in statements for name in statement.reads}
    given = {buffer.init for buffer in transform.buffers if isinstance(buffer.init, str)}
    return frozenset(given - read)


def _argument(transform: CheckedTransform, name: str) -> str:
    if any(buffer.name == name for buffer in transform.buffers):
        return f"held[{literal(name)}]"
    param = next((param for param in transform.params if param.name == name), None)
    if param is not None:
        return param_of_rows(param, "new_rows.size") if param.per_env else f"self.{name}"
    if any(network.name == name for network in transform.networks):
        return f"self._networks[{literal(name)}]"
    return name


def _declared(buffer: CheckedBuffer) -> CallPlan:
    init = f"self.{buffer.init}" if isinstance(buffer.init, str) else literal(buffer.init)
    return CallPlan(
        "BufferSpec",
        (
            literal(buffer.name),
            literal(buffer.each),
            Code("None") if buffer.dtype is None else using(f"torch.{buffer.dtype}", "torch"),
            literal(buffer.shaped),
            init,
            *([literal(True)] if buffer.optional else []),
        ),
    )
