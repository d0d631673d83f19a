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
from specgen.plan.transform_functions import PhaseFunction, network_annotation, network_doc
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
    reads = tuple(identifier(name) for name in function.reads if name in roles)
    # What an update reads of a moment stands together, in the order of `reads`.
    args = dict.fromkeys(
        "*values" if name in roles else _argument(transform, name) for name in function.reads
    )
    return LearnsPlan(
        tuple(_declared(buffer) for buffer in transform.buffers),
        transform.learns,
        reads,
        CallPlan(function.name, tuple(args)),
        len(function.writes) == 1,
    )


def initial_params(transform: CheckedTransform) -> frozenset[str]:
    """The parameters that only say what buffers begin with."""
    statements = [statement for phase in (*PHASES, "update") for statement in transform.phase(phase)]
    read = {name for statement in statements for name in statement.reads}
    given = {buffer.init for buffer in transform.buffers if isinstance(buffer.init, str)}
    return frozenset(given - read)


def _argument(transform: CheckedTransform, name: str) -> str:
    if any(buffer.name == name for buffer in transform.buffers):
        return f"held[{literal(name)}]"
    if any(param.name == name for param in transform.params):
        return f"self.{name}"
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
