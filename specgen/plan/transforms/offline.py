"""The recursion of a transform over recorded data: its functions, and how the class calls them."""

from __future__ import annotations

from specgen.check.programs.transform import PhaseProgram
from specgen.check.programs.transform_offline import recursion_programs
from specgen.check.transforms.model import CheckedRecursion, CheckedTransform
from specgen.check.transforms.types import output_type, role_types
from specgen.expr import Type
from specgen.expr.dtypes import is_abstract
from specgen.expr.sizes import Dim, Rest
from specgen.literals import literal
from specgen.plan.functions import data_name, plan_function
from specgen.plan.model import CallPlan
from specgen.plan.per_env import param_of_rows
from specgen.plan.transforms.functions import PhaseFunction, argument_types, ranked
from specgen.plan.transforms.model import RecursionPlan
from specgen.plan.transforms.phases import PhaseBlock, Value
from specgen.plan.transforms.text import exists, if_there, keyless, variable
from specgen.program.program import Input


def recursion_functions(transform: CheckedTransform) -> list[PhaseFunction]:
    """The functions of a recursion, in the order of their calls; none without one."""
    if transform.recursion is None or transform.python is not None:
        return []
    return [_function(transform, one) for one in recursion_programs(transform)]


def plan_recursion(transform: CheckedTransform, functions: list[PhaseFunction]) -> RecursionPlan | None:
    """How the class runs its recursion, which consists of `functions`."""
    recursion = transform.recursion
    if recursion is None:
        return None
    at = None if recursion.at == "next" else recursion.at
    if transform.python is not None:
        return RecursionPlan(at, True, False, ())
    at_hand: set[str] = set()
    scans = [one for one in functions if not _opens(one)]
    return RecursionPlan(
        at,
        recursion.backward,
        any(_opens(one) for one in functions),
        tuple(_block(transform, recursion, one, functions, at_hand) for one in scans),
    )


def _block(
    transform: CheckedTransform,
    recursion: CheckedRecursion,
    scan: PhaseFunction,
    functions: list[PhaseFunction],
    at_hand: set[str],
) -> PhaseBlock:
    """The call of a recursion, behind that of what comes before its first moment; `at_hand` has been read."""
    roles = {f"{prefix}{role.name}": role.name for prefix in ("", "next.") for role in transform.roles}
    params = {param.name: param for param in transform.params}
    missing = keyless(transform) - scan.given
    opens = next((one for one in functions if one.when == scan.when and _opens(one)), None)
    read_first = () if opens is None else opens.reads
    there = [name for name in scan.reads if name in roles and roles[name] not in missing]
    like = next((name for name in there if _as_accumulated(transform, roles[name])), there[0])
    wanted = [name for name in (*read_first, *scan.reads) if name in roles]
    sized = {roles[name]: name for name in reversed(wanted)}
    for name in (*read_first, *scan.reads):
        if name in transform.sizes and (role := transform.sizes[name][0].name) not in sized:
            sized[role] = f"next.{role}"
            wanted.append(sized[role])
    fetched: list[tuple[str, Value]] = []
    for name in dict.fromkeys(wanted):
        if name in at_hand:
            continue
        moment = "following" if name.startswith("next.") else "now"
        text = if_there(roles[name], f"recorded.{moment}(key.{roles[name]})", missing, "None")
        fetched.append((variable(name), text))
        if scan.when is None and roles[name] not in missing:
            at_hand.add(name)

    def argument(name: str, index: str = "") -> str:
        if name in params and params[name].per_env:
            return param_of_rows(params[name], "recorded.rows", variable(like))
        if name in params:
            return f"self.{name}"
        if name in transform.sizes:
            role, axis = transform.sizes[name]
            return if_there(role.name, f"{variable(sized[role.name])}.shape[{axis}]", missing, "0")
        if (counted := ranked(transform, name)) is not None:
            return if_there(counted.name, f"self._rank(key.{counted.name})", missing, "0")
        if name == "acc":
            dims = _accumulated(transform)
            known = "" if _as_accumulated(transform, roles[like]) or None in dims else f", {len(dims)}"
            return f"recorded.restarts(key.{roles[like]}, {variable(like)}{known})"
        if name not in roles:
            return _opened(name)
        given = f"{variable(name)}{index}"
        return f"None if {variable(name)} is None else {given}" if index and roles[name] in missing else given

    last = "[-1]" if recursion.backward else "[0]"
    if opens is not None:
        call = CallPlan(opens.name, tuple(argument(name, last) for name in opens.reads))
        fetched.append((", ".join(map(_opened, opens.writes)), call))
    return PhaseBlock(
        exists(scan.when, scan.writes),
        tuple(fetched),
        tuple(map(variable, scan.writes)),
        CallPlan(scan.name, tuple(map(argument, scan.reads))),
        tuple(f"made[{literal(name)}] = {variable(name)}" for name in scan.writes),
    )


def _accumulated(transform: CheckedTransform) -> tuple[Dim | None, ...]:
    """The dimensions of what is accumulated; None for those that nobody knows."""
    types = role_types(transform.roles)
    recursion = transform.recursion
    assert recursion is not None
    read = {name for statement in recursion.step for name in statement.reads}
    output = next((one for one in transform.outputs if f"acc.{one.name}" in read), transform.outputs[0])
    return tuple(None if isinstance(size, Rest) else size for size in output_type(output, types).dims)


def _as_accumulated(transform: CheckedTransform, role: str) -> bool:
    """Whether a role has as many dimensions as what is accumulated."""
    dims = role_types(transform.roles)[role].dims
    return tuple(None if isinstance(size, Rest) else size for size in dims) == _accumulated(transform)


def _opens(function: PhaseFunction) -> bool:
    """Whether a function computes what comes before the first moment."""
    return function.writes[0].startswith("acc.")


def _opened(name: str) -> str:
    return f"open_{name.removeprefix('acc.')}"


def _function(transform: CheckedTransform, one: PhaseProgram) -> PhaseFunction:
    assert transform.recursion is not None
    backward = transform.recursion.backward
    what = " and ".join(f"`{target.removeprefix('acc.')}`" for target in one.writes)
    opens = one.writes[0].startswith("acc.")
    first, last = ("last", "first") if backward else ("first", "last")
    summary = (
        f"{what} behind the last moment, where the data end without `done`."
        if opens
        else f"{what} of all moments, computed from the {first} to the {last}."
    )

    def describe(given: Input) -> str:
        symbol = given.symbol
        if (counted := ranked(transform, symbol.name)) is not None:
            return f"how many dimensions `{counted.name}` has, without the batch's."
        if given.kind == "param" and symbol.name in transform.sizes:
            role, axis = transform.sizes[symbol.name]
            return f"the size of `{role.name}` along axis {axis}."
        if given.kind == "param":
            return f"{transform.param(symbol.name).doc or 'constructor keyword'}."
        if symbol.key == ("acc",):
            return f"bool [time, *batch, ...], where an episode {'ends' if backward else 'begins'}."
        if symbol.key is not None and symbol.key[0] == "acc":
            return f"{_kind(symbol.type)}, behind the last moment."
        place = "under `next`" if symbol.time == "next" else "at the root"
        return f"{_kind(symbol.type, '' if opens else 'time, ')}, {place}."

    planned = plan_function(one.program, summary, argument_types(transform, "offline", one.when), describe)
    args = tuple(data_name(given) for given in planned.args if given is not None)
    return PhaseFunction(planned.plan, args, one.writes, one.when)


def _kind(type_: Type, time: str = "") -> str:
    abstract = {"float": "floats", "number": "numbers"}.get(type_.dtype, "any dtype")
    dtype = abstract if is_abstract(type_.dtype) else type_.dtype
    return f"{dtype} [{time}{', '.join(['*batch', *map(str, type_.dims)])}]"
