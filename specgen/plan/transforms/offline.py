"""The recursion of a transform over recorded data: its functions, and how the class calls them."""

from __future__ import annotations

from specgen.check.programs.transform import PhaseProgram
from specgen.check.programs.transform_offline import recursion_programs
from specgen.check.transforms.model import CheckedTransform
from specgen.expr import Type
from specgen.expr.dtypes import is_abstract
from specgen.plan.functions import data_name, plan_function
from specgen.plan.model import CallPlan
from specgen.plan.per_env import param_of_rows
from specgen.plan.transforms.functions import PhaseFunction, ranked
from specgen.plan.transforms.model import RecursionPlan
from specgen.plan.transforms.text import variable
from specgen.program.program import Input


def recursion_functions(transform: CheckedTransform) -> list[PhaseFunction]:
    """The functions of a recursion, in the order of their calls; none without one."""
    if transform.recursion is None:
        return []
    return [_function(transform, one) for one in recursion_programs(transform)]


def plan_recursion(transform: CheckedTransform, functions: list[PhaseFunction]) -> RecursionPlan | None:
    """How the class runs its recursion, which consists of `functions`."""
    recursion = transform.recursion
    if recursion is None:
        return None
    *opens, scan = functions
    roles = {f"{prefix}{role.name}": role.name for prefix in ("", "next.") for role in transform.roles}
    params = {param.name: param for param in transform.params}
    fetched: list[tuple[str, str]] = []
    for name in dict.fromkeys(name for function in functions for name in function.reads if name in roles):
        moment = "following" if name.startswith("next.") else "now"
        fetched.append((variable(name), f"recorded.{moment}(key.{roles[name]})"))
    like = next(name for name in scan.reads if name in roles)

    def argument(name: str, index: str = "") -> str:
        if name in params and params[name].per_env:
            return param_of_rows(params[name], "recorded.rows", variable(like))
        if name in params:
            return f"self.{name}"
        if (counted := ranked(transform, name)) is not None:
            return f"self._rank(key.{counted.name})"
        if name == "acc":
            return f"recorded.restarts(key.{roles[like]}, {variable(like)})"
        return f"{variable(name)}{index}" if name in roles else _opened(name)

    last = "[-1]" if recursion.backward else "[0]"
    return RecursionPlan(
        None if recursion.at == "next" else recursion.at,
        recursion.backward,
        bool(opens),
        tuple(fetched),
        tuple(
            (
                tuple(_opened(name) if function in opens else variable(name) for name in function.writes),
                CallPlan(
                    function.name,
                    tuple(argument(name, last if function in opens else "") for name in function.reads),
                ),
            )
            for function in functions
        ),
        tuple(variable(name) for name in scan.writes),
    )


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
        if given.kind == "param":
            return f"{transform.param(symbol.name).doc or 'constructor keyword'}."
        if symbol.key == ("acc",):
            return f"bool [time, *batch, ...], where an episode {'ends' if backward else 'begins'}."
        if symbol.key is not None and symbol.key[0] == "acc":
            return f"{_kind(symbol.type)}, behind the last moment."
        place = "under `next`" if symbol.time == "next" else "at the root"
        return f"{_kind(symbol.type, '' if opens else 'time, ')}, {place}."

    planned = plan_function(one.program, summary, {}, describe)
    args = tuple(data_name(given) for given in planned.args if given is not None)
    return PhaseFunction(planned.plan, args, one.writes)


def _kind(type_: Type, time: str = "") -> str:
    abstract = {"float": "floats", "number": "numbers"}.get(type_.dtype, "any dtype")
    dtype = abstract if is_abstract(type_.dtype) else type_.dtype
    return f"{dtype} [{time}{', '.join(['*batch', *map(str, type_.dims)])}]"
