"""What a transform reads and writes: its roles and outputs, each for one key or several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from specgen.check.conditions import Condition
from specgen.expr import Interval, SpecType, Symbol, Type
from specgen.expr.sizes import ANY_DIMS, Dims, Rest
from specgen.values import dataclass

_ANYTHING = SpecType("pattern", "any", ANY_DIMS)

RoleForm = Literal["each", "key", "all", "flag"]

Image = Literal["same", "structural", "monotone", "interval"]
"""How the values of an output follow from those of what it is computed of: they are the same, some of the same
elements, those of a function that rises or falls in each, or whatever its interval says."""


@dataclass(frozen=True)
class Role:
    """What a transform reads, for each of several keys.

    Attributes:
        name: its name in expressions.
        default: keys, and groups of the environment's keys (`env.reward`), that it stands for by default;
            `env.done` is the `done` of every root-most done set.
        pattern: the dtype pattern: `float`, `number`, `any` or a dtype.
        dtypes: the dtypes that the pattern admits.
        dims: its feature dimensions; `...` for those that nobody knows.
        inverse: whether it is what the environment is given.
        form: whether it is one key after another, one key, several together, or a done flag.
        paired: the role that it goes along with.
        beside: the role beside whose key its own stands.
        keyword: the constructor keyword of its keys; none for `in_keys`, and for what users don't choose.
        but: the role whose keys it leaves out.
        varargs: whether users pass its keys one after another.
        sorted: when its keys are put into the order of their names; None for never.
        optional: whether the transform can do without its keys.
        recorded: whether its keys are those of recorded data; an environment has none.
        acted: whether it is an action as the policy wrote it, which a step reads.
        spec: its pattern as a whole.
        dtype: the enum parameter that says which dtype its keys have.
    """

    name: str
    default: tuple[str, ...]
    pattern: str
    dtypes: tuple[str, ...]
    dims: Dims = ANY_DIMS
    inverse: bool = False
    doc: str = ""
    form: RoleForm = "each"
    paired: str | None = None
    beside: str | None = None
    keyword: str | None = None
    but: str | None = None
    varargs: bool = False
    sorted: Condition | None = None
    optional: bool = False
    recorded: bool = False
    acted: bool = False
    spec: SpecType = _ANYTHING
    dtype: str | None = None

    @property
    def shaped_as(self) -> str | None:
        """The other role whose dimensions it has (`[...x]`)."""
        return next((size.of for size in self.dims if isinstance(size, Rest) and size.of), None)

    @property
    def required(self) -> bool:
        """Whether there are no keys that it stands for without its user's word."""
        return not self.default and not self.optional and not self.varargs and not self.recorded

    @property
    def may_be_missing(self) -> bool:
        """Whether a repetition may be without its key."""
        return self.optional and (self.form == "key" or self.paired is not None)

    @property
    def structural(self) -> bool:
        """Whether it follows the environment's done sets, so that users don't choose its keys."""
        return any(entry == "env.done" for entry in self.default)

    @property
    def listed(self) -> bool:
        """Whether users choose its keys with `in_keys`, or a keyword of that kind."""
        chosen = self.form == "all" or (self.form == "each" and self.keyword is None)
        return chosen and self.but is None and not self.structural and not self.varargs

    @property
    def several_given(self) -> bool:
        """Whether it is several keys that the environment is given, computed of one that the policy writes."""
        return self.form == "all" and self.inverse

    @property
    def list_argument(self) -> str:
        """The argument of the constructor with which users choose its keys, where it is listed."""
        return self.keyword or ("in_keys_inv" if self.inverse else "in_keys")


@dataclass(frozen=True)
class Output:
    """What a transform writes, one for each key of a role, or one.

    Attributes:
        name: its name in expressions.
        each: the role that it follows; ``None`` for one key.
        key: the last part of its key, with `{}` for that of the role's key; `{}` alone is the same key. Without a
            role it is the whole key.
        like: the role or output whose dtype it has; ``None`` when `dtype` says it.
        dtype: its dtype, when it does not follow `like`.
        dims: its feature dimensions where they are not those of its role.
        interval: its declared values; ``None`` when nothing is declared.
        keyword: the constructor keyword that replaces `key`; ``None`` when `out_keys` does.
        whole: whether that keyword is a whole key, not only the last part of one.
        when: what must hold of the parameters for it to exist.
        carry: whether the next step reads it.
        flag: whether it is a done flag, or-ed with what it was.
        inverse: whether it is what the policy writes (the outer side of an inverse role).
        inferred: its type, for whatever keys its roles get, where nothing declares one.
        image: how its values follow from those of its roles, where nothing declares them.
        values: the values that its expression can have whatever its roles are.
        source: the role that it is, where it is nothing but that.
        reward: whether it is a reward under whatever key.
        hidden: whether it is never shown.
        policy: whether the policy writes it under `next`.
        kind: its type, where it is a choice among classes.
    """

    name: str
    each: str | None
    key: str = "{}"
    like: str | None = None
    dtype: str | None = None
    dims: Dims | None = None
    interval: tuple[float, float] | None = None
    keyword: str | None = None
    when: Condition | None = None
    carry: bool = False
    flag: bool = False
    inverse: bool = False
    inferred: Type | None = None
    image: Image | None = None
    values: Interval | None = None
    source: str | None = None
    reward: bool = False
    hidden: bool = False
    policy: bool = False
    kind: SpecType | None = None
    whole: bool = False
    doc: str = ""

    @property
    def same(self) -> bool:
        """Whether it replaces its input by default."""
        return self.each is not None and self.key == "{}"

    @property
    def left_out(self) -> bool:
        """Whether it is there only where users give its key."""
        return self.when is not None and any(atom.name == self.name for atom in self.when.of_keys)

    def exists(self, values: Mapping[str, Any]) -> bool:
        """Whether it exists, for some parameters and what the roles of a repetition stand for."""
        return self.when is None or self.when.decide(values)

    @property
    def declared(self) -> bool:
        """Whether the declaration says its type."""
        return self.like is not None or self.dtype is not None


def chosen_by_out_keys(output: Output, roles: Iterable[Role]) -> bool:
    """Whether users choose the keys of an output with `out_keys`; where it needs an optional key they can't count on it."""
    role = next((role for role in roles if role.name == output.each), None)
    if role is None or role.form != "each" or role.structural or output.keyword is not None:
        return False
    return not (output.flag or output.hidden or (output.when is not None and output.when.of_keys))


def role_of(symbol: Symbol | None) -> str:
    """The role or output whose value a symbol is, as it is declared; empty for what is no entry."""
    if symbol is None:
        return ""
    return symbol.path.rpartition(".in.")[2].removeprefix("next.").removeprefix("acc.")


def by_condition(outputs: Iterable[Output]) -> list[tuple[Condition | None, list[Output]]]:
    """Outputs by the condition under which they exist: those that always do first."""
    groups: dict[Condition | None, list[Output]] = {}
    for output in outputs:
        groups.setdefault(output.when, []).append(output)
    return sorted(groups.items(), key=lambda item: (item[0] is not None, str(item[0] or "")))


@dataclass(frozen=True)
class Drop:
    """A role whose keys are not shown any more, under a condition on parameters."""

    role: str
    when: Condition | None = None
