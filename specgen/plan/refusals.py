"""What a constructor refuses of its arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from specgen.check.model import Parameter
from specgen.code import using, value_code
from specgen.literals import formatted, listed, literal
from specgen.plan.model import RefusalPlan


def refusals(param: Parameter, *, kept: bool = False, missing: Collection[str] = ()) -> Iterator[RefusalPlan]:
    """What must not hold of a parameter.

    Args:
        param: the parameter.
        kept: whether its words are compared as the object keeps them.
        missing: the parameters beside it that may be None.
    """
    name = param.name
    if param.kind == "enum":
        but = ", or a function" if param.or_function else ""
        said = formatted(f"{name} must be one of {listed(param.choices)}{but}, got ", f"{name}!r")
        value = f"self.{name}" if kept else name
        other = f"not callable({value}) and " if param.or_function else ""
        yield RefusalPlan(f"{other}{value} not in {literal(param.choices)}", said)
    tensor = param.kind == "tensor" or param.per_env
    value = f"self.{name}" if tensor else name
    for sign, bound in param.range:
        limit = value_code(bound)
        holds = f"{value} {sign} {limit}"
        several = param.kind in ("ints", "int_or_ints")
        if several:
            holds = f"all(one {sign} {limit} for one in as_ints({name}, {literal(name)}))"
        if tensor:
            holds = f"bool(({holds}).all())"
        free = f"not {param.unless} and " if param.unless else ""
        but = f" unless {param.unless}" if param.unless else ""
        yield RefusalPlan(
            using(f"{free}not {holds}", *limit.uses, *(["as_ints"] if several else [])),
            formatted(f"{name} must be {sign} {limit}{but}, got ", name),
        )
    if param.with_ is not None:
        yield RefusalPlan(
            f"{param.with_} is None",
            literal(f"{name} is given together with {param.with_}, which is missing"),
        )
    if param.at_least is not None:
        said = formatted(f"{name} must be >= {param.at_least}, got ", name, param.at_least)
        both = f"{param.at_least} is not None and " if param.at_least in missing else ""
        yield RefusalPlan(f"{both}not {name} >= {param.at_least}", said)
