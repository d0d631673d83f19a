"""What the class of a transform says of what it learns."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from specgen.check.model import identifier
from specgen.check.programs.transform_update import buffer_types_program, update_program
from specgen.check.transforms.model import PHASES, CheckedBuffer, CheckedTransform
from specgen.check.transforms.types import joins_only
from specgen.code import Code, named, using
from specgen.expr import Typed
from specgen.expr.builtins.batch import NEW_ROWS
from specgen.expr.dtypes import is_abstract
from specgen.expr.sizes import Rest
from specgen.imported import ROW_VALUES
from specgen.literals import literal
from specgen.plan.functions import data_name, plan_function
from specgen.plan.model import Argument, CallPlan, FunctionPlan, Line
from specgen.plan.per_env import param_of_rows
from specgen.plan.transforms.columns import counts_axes
from specgen.plan.transforms.functions import PhaseFunction, network_annotation, network_doc, ranked
from specgen.plan.transforms.model import LearnsPlan
from specgen.program.hoist import hoist
from specgen.program.numpy_text import print_update
from specgen.program.program import Assign, Input, InputKind, Program
from specgen.values import dataclass, replace


@dataclass(frozen=True)
class UpdateFunctions:
    """The functions of what is learned.

    Attributes:
        update: computes the new values.
        constants: computes what it takes first: what parameters and the number of rows alone decide; None for nothing.
        types: computes values of the types that buffers have which are like expressions; None where none is.
        row: computes the new values of one environment by NumPy, of what `update` reads; None where that needs torch.
    """

    update: PhaseFunction
    constants: PhaseFunction | None
    types: PhaseFunction | None
    row: FunctionPlan | None

    @property
    def plans(self) -> list[FunctionPlan]:
        """All of them as they are printed."""
        made = [one.plan for one in (self.types, self.constants, self.update) if one is not None]
        return made if self.row is None else [*made, self.row]


def update_functions(transform: CheckedTransform) -> UpdateFunctions | None:
    """The functions of what is learned; None for a transform that learns nothing."""
    made = update_program(transform)
    if made is None:
        return None
    once, program = _without_constants(made.program)
    listed = " and ".join(f"`{buffer.name}`" for buffer in transform.buffers)
    update = _function(transform, program, f"{listed} with what the rows that are new tell.", made.writes)
    types, row = _types(transform), _row(transform, program, update)
    if once is None:
        return UpdateFunctions(update, None, types, row)
    names = tuple(output.name for output in once.outputs)
    decided = " and ".join(f"`{name}`" for name in names)
    summary = f"{decided}: what parameters and the number of rows alone decide."
    return UpdateFunctions(update, _function(transform, once, summary, names), types, row)


def _types(transform: CheckedTransform) -> PhaseFunction | None:
    program = buffer_types_program(transform)
    if program is None:
        return None
    names = tuple(output.name for output in program.outputs)
    summary = f"Values of the dtypes and shapes of {' and '.join(f'`{name}`' for name in names)}."
    return _function(transform, program, summary, names)


def _row(transform: CheckedTransform, program: Program, update: PhaseFunction) -> FunctionPlan | None:
    """The update of one environment by NumPy; None where another repetition or a reset has a part in it."""
    alone = transform.learns == "always" and all(buffer.each is not None for buffer in transform.buffers)
    if not alone or any(_counted(transform, name) is not None for name in update.reads):
        return None
    if any(role.form != "each" for role in transform.learns_from):
        return None
    printed = print_update(program, ROW_VALUES)
    if printed is None:
        return None
    result = ", ".join(printed.entries)
    given = {data_name(one): printed.args[one.symbol] for one in program.inputs if one.symbol in printed.args}
    lines = [Line(text, origin) for text, origin in printed.lines]
    return FunctionPlan(
        f"{program.name}_row",
        tuple(Argument(given[name], named("Any")) for name in update.reads if name in given),
        using("tuple[Any, ...]", "Any"),
        (f"What `{program.name}` gives, of the one row there is, by NumPy: its numbers and arrays.",),
        (*lines, Line(f"return {result if len(printed.entries) > 1 else f'({result},)'}")),
        uses=printed.uses,
    )


def _without_constants(program: Program) -> tuple[Program | None, Program]:
    """What the number of rows and parameters alone decide, as a program for an update that is given it."""
    if any(one.kind == "param" and not one.symbol.type.python for one in program.inputs):
        return None, program
    fixed = tuple(
        replace(one, kind="const") if one.symbol.key == (NEW_ROWS,) else one for one in program.inputs
    )
    kinds: tuple[InputKind, ...] = ("param", "const")
    once, (rest,) = hoist(f"{program.name}_constants", "", [replace(program, inputs=fixed)], kinds)
    named = {statement.target for statement in program.body if isinstance(statement, Assign)}
    if once is None or all(one.kind != "const" for one in once.inputs):
        return None, program
    if not any(output.symbol in named for output in once.outputs):  # parts of expressions, which nobody named
        return None, program
    inputs = tuple(replace(one, group="") for one in rest.inputs)
    return replace(once, record=None), replace(rest, inputs=inputs)


def _function(
    transform: CheckedTransform, program: Program, summary: str, writes: tuple[str, ...]
) -> PhaseFunction:
    roles = {role.name: role for role in transform.roles}
    docs = {buffer.name: buffer.doc or "what was learned so far" for buffer in transform.buffers}
    params = {param.name: param.doc or "constructor keyword" for param in transform.params}

    def describe(given: Input) -> str:
        name = data_name(given)
        if (found := _counted(transform, name)) is not None:
            size = name in transform.sizes
            what = "how many elements along one of them" if size else "how many dimensions"
            return f"{what} `{found[0]}` has, without the batch's."
        if given.kind == "param":
            return f"{params[name]}."
        if given.kind == "network":
            return f"{network_doc(transform, name)}."
        if given.kind == "buffer":
            return f"{docs[name]}."
        if name == NEW_ROWS:
            return "the rows that count."
        if name not in roles:
            return "what the number of rows decides."
        pattern = roles[name].pattern
        dtype = {"float": "floats", "number": "numbers"}.get(pattern, "any dtype")
        several = "several " if roles[name].form == "all" else ""
        return f"{several}{dtype if is_abstract(pattern) else pattern} [*batch, ...]."

    annotations = {network.name: network_annotation(network) for network in transform.networks}
    annotations[NEW_ROWS] = using("NewRows", "NewRows")
    annotations |= {
        role.name: using("list[Tensor]", "Tensor") for role in transform.forward if role.form == "all"
    }
    planned = plan_function(program, summary, annotations, describe)
    reads = tuple(data_name(given) for given in planned.args if given is not None)
    return PhaseFunction(planned.plan, reads, writes)


def plan_learning(transform: CheckedTransform, functions: UpdateFunctions | None) -> LearnsPlan | None:
    """What the class says of its buffers, which `functions` update."""
    if functions is None:
        return None
    function, constants, types = functions.update, functions.constants, functions.types
    roles = [role.name for role in transform.forward]
    reads = [role.name for role in transform.learns_from]

    def argument(name: str, function: PhaseFunction = function) -> str:
        if (found := _counted(transform, name)) is not None:
            several = "[0]" if transform.role(found[0]).form == "all" else ""
            return f"values[{reads.index(found[0])}]{several}.{found[1]}"
        if name in roles:
            whole = reads == [name for name in function.reads if name in roles]
            return "*values" if whole else f"values[{reads.index(name)}]"
        return _argument(transform, name)

    # What an update reads of a moment stands together, in the order of `reads`.
    # What is known of their number comes first, and may be called like a buffer.
    given = () if constants is None else (_once(constants),)
    args = dict.fromkeys(map(argument, function.reads[0 if constants is None else len(constants.writes) :]))
    return LearnsPlan(
        tuple(_declared(buffer, learned_params(transform)) for buffer in transform.buffers),
        transform.learns,
        tuple(map(identifier, reads)),
        CallPlan(function.name, (*given, *args)),
        len(function.writes) == 1,
        tuple(
            role.name for role in transform.learns_from if role.form == "all" and joins_only(transform, role)
        ),
        None
        if types is None
        else CallPlan(types.name, tuple(dict.fromkeys(argument(name, types) for name in types.reads))),
        () if types is None else types.writes,
        "Any" if any(role.form == "all" for role in transform.learns_from) else "Tensor",
        tuple(learned_params(transform).items()),
        None
        if functions.row is None
        else CallPlan(functions.row.name, (*given, *(arg for arg in args if arg != "new_rows"))),
    )


def _once(constants: PhaseFunction) -> str:
    """The arguments that an update takes first, computed when there is another number of rows."""
    params = [f"self.{name}" for name in constants.reads if name != NEW_ROWS]
    star = "*" if len(constants.writes) > 1 else ""
    return f"{star}new_rows.once({', '.join([constants.name, *params])})"


def _counted(transform: CheckedTransform, name: str) -> tuple[str, str] | None:
    """The role whose rank or size an argument is, and how its value tells that; None for any other argument."""
    if (role := ranked(transform, name)) is not None:
        return role.name, "ndim - len(new_rows.size)"
    if name in transform.sizes:
        role, axis = transform.sizes[name]
        return role.name, f"shape[{axis}]"
    return None


def met_params(transform: CheckedTransform, *, inverse: bool) -> str:
    """The parameters that are tensors, each with the one role that it meets element by element.

    Such a role has any dimensions, or the two meet within a function of axes. It is the text of a class attribute. What
    buffers begin with is not in it: that is checked by itself.
    """
    roles = transform.backward if inverse else transform.forward
    single = {
        f"{prefix}{identifier(role.name)}": role.name
        for role in roles
        if role.form != "all"
        for prefix in ("", "next_")
    }
    free = {role.name for role in roles if len(role.dims) == 1 and isinstance(role.dims[0], Rest)}
    known = {*initial_params(transform), *learned_params(transform)}
    names = {param.name for param in transform.params}
    meets: dict[str, str] = {}
    for param in transform.params:
        if param.kind != "tensor" or param.name in known:
            continue
        found: set[str] = set()
        within: set[str] = set()
        for one in transform.inverse if inverse else (*transform.map, *transform.step):
            if param.name in one.reads and not any(map(counts_axes, one.typed.nodes)):
                read = {one.target} if inverse else {name.removeprefix("next.") for name in one.reads}
                found |= read & {role.name for role in roles}
            elif param.name in one.reads and not inverse:
                within |= _met_within(one.typed, param.name, names, single)
        if len(found) == 1 and found <= free:
            meets[param.name] = found.pop()
        elif not found and len(within) == 1:
            meets[param.name] = within.pop()
    return literal(meets) if meets else ""


def _met_within(typed: Typed, param: str, params: Collection[str], roles: Mapping[str, str]) -> set[str]:
    """The roles that a parameter meets, and nothing else beside them, in a part of an expression that is element by element."""
    names: set[str] = set()
    below: list[Typed] = []

    def collect(node: Typed) -> None:
        if counts_axes(node):
            below.append(node)
            return
        if node.symbol is not None:
            names.add(roles.get(node.symbol.name, node.symbol.name))
        for arg in node.args:
            collect(arg)

    collect(typed)
    others = names - {*params}
    met = others & {*roles.values()} if param in names and not below and len(others) == 1 else set[str]()
    return met.union(*(_met_within(arg, param, params, roles) for node in below for arg in node.args))


def initial_params(transform: CheckedTransform) -> frozenset[str]:
    """The parameters that only say what buffers begin with, and are not learned."""
    statements = [statement for phase in (*PHASES, "update") for statement in transform.phase(phase)]
    read = {name for statement in statements for name in statement.reads}
    given = {buffer.init for buffer in transform.buffers if isinstance(buffer.init, str)}
    return frozenset(given - read - learned_params(transform).keys())


def learned_params(transform: CheckedTransform) -> dict[str, str]:
    """The tensors that are learned where they are not given, each with the buffer."""
    tensors = {param.name for param in transform.params if param.kind == "tensor"}
    return {str(one.init): one.name for one in transform.buffers if one.optional and one.init in tensors}


def _argument(transform: CheckedTransform, name: str) -> str:
    if any(buffer.name == name for buffer in transform.buffers):
        return f"held[{literal(name)}]"
    param = next((param for param in transform.params if param.name == name), None)
    if param is not None:
        return param_of_rows(param, "new_rows.size") if param.per_env else f"self.{name}"
    if any(network.name == name for network in transform.networks):
        return f"self._networks[{literal(name)}]"
    return name


def _declared(buffer: CheckedBuffer, learned: Mapping[str, str]) -> CallPlan:
    init = literal(buffer.init)
    if isinstance(buffer.init, str):  # as it was given: asked by its name it is what was learned
        init = f"self._buffers[{init}]" if buffer.init in learned else f"self.{buffer.init}"
    return CallPlan(
        "BufferSpec",
        (
            literal(buffer.name),
            literal(buffer.each),
            Code("None") if buffer.dtype is None else using(f"torch.{buffer.dtype}", "torch"),
            literal(buffer.shaped),
            init,
            *([literal(True)] if buffer.optional else []),
            *([Code("like=True")] if buffer.like is not None else []),
        ),
    )
