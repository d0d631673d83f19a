"""The random numbers of a transform: how its class draws what its pure functions are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from specgen.check.conditions import ALWAYS, Condition
from specgen.check.model import Statement
from specgen.check.transforms.entries import role_of
from specgen.check.transforms.model import PHASES, CheckedTransform, Phase
from specgen.code import Code, using
from specgen.expr import DrawSite, Symbol, Typed
from specgen.expr.builtins.table import TABLE
from specgen.expr.dtypes import is_abstract
from specgen.plan.model import Text
from specgen.plan.transforms.functions import PhaseFunction
from specgen.plan.transforms.text import dims_text, dtype_code, variable
from specgen.precedence import AND
from specgen.program.torch_text import print_expression
from specgen.values import dataclass


@dataclass(frozen=True)
class TransformDraw:
    """A draw, as the class of a transform makes it.

    Attributes:
        name: what the pure functions call it.
        text: the call that draws.
        like: what tells its shape, in the language; None where numbers do.
    """

    name: str
    text: Code
    like: str | None


def phase_draws(
    transform: CheckedTransform,
    phase: Phase,
    functions: Iterable[PhaseFunction],
    size: Callable[[str], str],
    within: Condition = ALWAYS,
) -> Iterator[TransformDraw]:
    """The draws of a phase, in the order written; those that only optional outputs read are drawn with these only.

    Args:
        transform: the transform.
        phase: which of its phases.
        functions: those of the phase.
        size: the text of a size that has a name.
        within: what is known to hold where they are drawn.
    """
    statements = transform.phase(phase)
    for statement in statements:
        for site, choices in _sites(statement.typed, ()):
            readers = [function for function in functions if site.name in function.reads]
            if not readers:
                continue
            conditions = [_condition(choice, transform, statements, size) for choice in choices]
            whens = [function.when for function in readers]
            if None not in whens:
                either = " or ".join(when.python for when in whens if when is not None)
                conditions.append(Code(f"({either})" if conditions and len(whens) > 1 else either))
            known = {atom.python for atom in within.atoms} | {within.python}
            conditions = [one for one in dict.fromkeys(conditions) if str(one) not in known]
            like = _given(site.like, phase) if phase in PHASES else None
            yield TransformDraw(site.name, _text(site, like, conditions, size), like)


def draw_lines(draws: Iterable[TransformDraw], fetch: Callable[[str], Text]) -> Iterator[tuple[str, Text]]:
    """What is read for the shapes of draws, and the draws: names with expressions. `fetch` reads an entry."""
    at_hand: set[str] = set()
    for draw in draws:
        if draw.like is not None and draw.like not in at_hand:
            at_hand.add(draw.like)
            yield variable(draw.like), fetch(draw.like)
        yield draw.name, draw.text


def _text(site: DrawSite, like: str | None, conditions: Sequence[Code], size: Callable[[str], str]) -> Code:
    shape = variable(like) if like else dims_text(site.dims, size)
    dtype = Code(f"{shape}.dtype") if is_abstract(site.dtype) else dtype_code(site.dtype)
    ends = [str(site.low), str(site.high)] if site.kind == "randint" else []
    when = " and ".join(map(str, conditions))
    args = [*ends, shape, str(dtype), *([f"when={when}"] if when else [])]
    uses = dtype.uses.union(*(condition.uses for condition in conditions))
    return using(f"self._{site.kind}({', '.join(args)})", *uses)


def _given(like: Symbol | None, phase: Phase) -> str | None:
    """What `like` is called in the language, where it is an entry."""
    _, found, name = ("", "", "") if like is None else like.path.partition(f".{phase}.in.")
    return name if found else None


def _sites(typed: Typed, choices: tuple[Typed, ...]) -> Iterator[tuple[DrawSite, tuple[Typed, ...]]]:
    """The draws of an expression, each with the choices of Python that must fall on it."""
    if typed.op == "where" and typed.args[0].type.python:
        condition, then, otherwise = typed.args
        asked = condition.args if condition.op == "and" else (condition,)
        yield from _sites(then, (*choices, *asked))
        turned = Typed("not", condition.type, condition.interval, (condition,), builtin=TABLE["not"])
        yield from _sites(otherwise, (*choices, turned))
        return
    for part in typed.parts:
        yield from _sites(part, choices)
    if typed.site is not None:
        yield typed.site, choices


def _condition(
    choice: Typed, transform: CheckedTransform, statements: Iterable[Statement], size: Callable[[str], str]
) -> Code:
    """The text of a condition on parameters; local values stand for what they are."""
    local = {statement.symbol: statement.typed for statement in statements}
    roles = {role.name for role in transform.roles}
    params = {f"transforms.{transform.name}.params.{param.name}" for param in transform.params}

    def name(symbol: Symbol) -> str:
        if symbol in local:
            return f"({_condition(local[symbol], transform, statements, size)})"
        if role_of(symbol) in roles:
            return f"key.{role_of(symbol)}"
        return f"self.{symbol.name}" if symbol.path in params else size(symbol.name)

    made = print_expression(choice, name)
    return using(made.at(AND), *made.uses)  # they are joined by `and`
