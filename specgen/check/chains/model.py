"""What a checked chain is: an environment, and transforms bound to its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from specgen.check.language_models.transforms import ModelInstance
from specgen.check.model import Checked, CheckedEnv, Constant, Entry, Parameter, Statement, snake
from specgen.check.transforms.entries import Role
from specgen.check.transforms.model import CheckedTransform, Phase
from specgen.expr import Binding, Symbol
from specgen.values import dataclass, replace


@dataclass(frozen=True)
class Row:
    """One repetition of a transform: which key each of its names stands for.

    Attributes:
        inputs: the roles, with the entries as they arrive at this position.
        outputs: the outputs, with the entries as they leave it.
        bound: the statements of each phase, typed for these entries.
        symbols: what each phase is given, by its path below the row: `step.in.next.reward`.
        sizes: what the named sizes of its patterns are for these entries.
        facts: what expressions of the inverse ask of the specs: `low(u)`, `classes(v)`.
        tables: those of them that are tables of the chain, by the path of the symbol that stands for each.
    """

    inputs: Mapping[str, Entry]
    outputs: Mapping[str, Entry]
    bound: Mapping[Phase, tuple[Statement, ...]] = field(default_factory=dict, compare=False)
    symbols: Mapping[str, Symbol] = field(default_factory=dict, compare=False)
    sizes: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, Binding] = field(default_factory=dict, compare=False)
    tables: Mapping[str, Constant] = field(default_factory=dict, compare=False)

    def entry(self, name: str) -> Entry | None:
        """The entry behind a name of the transform."""
        return self.outputs.get(name) or self.inputs.get(name)


def role_entries(row: Row, role: Role) -> list[Entry]:
    """What a role stands for in a repetition: one entry, several that are read together, or none."""
    if role.may_be_missing and role.name not in row.inputs:
        return []
    if role.form != "all":
        return [row.inputs[role.name]]
    return [entry for name, entry in row.inputs.items() if name.partition(".")[0] == role.name]


@dataclass(frozen=True)
class Instance:
    """A transform at its position, with its arguments and its keys.

    Attributes:
        path: its declaration path, `chains.C.transforms[1]`.
        position: its index in the chain.
        entries: every entry as it arrives there, by dotted key.
        params: the value of every parameter; ``None`` where an optional one is not given, and the parameter of the
            chain where that is one.
        rows: its repetitions on what the environment returns.
        inverse_rows: its repetitions on what the environment is given.
        dropped: the keys that nobody sees behind it, as the language writes them.
        networks: the chain's keyword of each network that it calls.
        arguments: what the chain gives it, by keyword.
    """

    path: str
    position: int
    transform: CheckedTransform
    entries: Mapping[str, Entry]
    params: Mapping[str, Any]
    rows: tuple[Row, ...]
    inverse_rows: tuple[Row, ...] = ()
    dropped: tuple[str, ...] = ()
    networks: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def field(self) -> str:
        """What is called after it in the chain's records: its statistics, its object; constants go on from there."""
        return f"{snake(self.transform.name)}_{self.position}"

    def described(self, chain: str) -> str:
        """What messages call it: its name, and where in the chain of that name it stands."""
        return f"`{self.transform.name}`, transforms[{self.position}] of `{chain}`"

    @property
    def derives_done(self) -> bool:
        """Whether a flag that it raises ends the episode."""
        derive = self.transform.derive_done
        return bool(self.params[derive]) if isinstance(derive, str) else derive

    @property
    def given(self) -> Mapping[str, str]:
        """The parameters that say what buffers are, where none is left to be learned: constants of the chain."""
        transform = self.transform
        found = {one.name: one.init for one in transform.buffers if isinstance(one.init, str)}
        known = all(self.params[name] is not None for name in found.values())
        whole = transform.learns == "when_called" and len(found) == len(transform.buffers)
        return found if known and whole else {}

    @property
    def learns(self) -> bool:
        """Whether it has buffers that data decide."""
        return bool(self.transform.buffers) and not self.given

    def statements(self, phase: Phase, row: Row) -> tuple[Statement, ...]:
        """The statements of a phase that apply to a row: those of outputs that exist, and locals that they read."""
        if phase in row.bound:
            return row.bound[phase]
        outputs = {output.name for output in self.transform.outputs}
        declared = outputs | {role.name for role in self.transform.roles}
        missing = {role.name for role in self.transform.roles if role.may_be_missing}  # none is folded then
        absent = (outputs - set(row.outputs)) | (missing - set(row.inputs))
        kept: list[Statement] = []
        read: set[str] = set()
        for statement in reversed(self.transform.phase(phase)):
            target = statement.target
            bare = target.removeprefix("next.")
            local = bare not in declared and target != phase
            if bare not in absent and (not local or target in read):
                kept.append(statement)
                read |= statement.reads
        return tuple(
            one for statement in reversed(kept) for one in self._for_each_part(statement, phase, row)
        )

    def _for_each_part(self, statement: Statement, phase: Phase, row: Row) -> tuple[Statement, ...]:
        """A statement; what an inverse assigns to a role of several keys once for each of them, as `parts.0`, `parts.1`."""
        role = next((one for one in self.transform.roles if one.name == statement.target), None)
        if phase != "inverse" or role is None or not role.several_given:
            return (statement,)
        parts = [name for name in row.inputs if name.partition(".")[0] == role.name]
        return tuple(replace(statement, target=name) for name in parts)


@dataclass(frozen=True)
class CheckedChain:
    """An environment and its transforms, known to fit.

    Attributes:
        entries: every entry as the chain's user sees it.
        actions: the actions as the policy writes them.
        masks: those of them that have a mask, each with the key of that.
        model_instances: the transforms that run language models, each with its position among all.
        params: its parameters, which arguments of transforms are.
    """

    name: str
    module: str
    doc: str
    env: Checked[CheckedEnv]
    instances: tuple[Instance, ...]
    entries: Mapping[str, Entry]
    actions: tuple[Entry, ...]
    masks: Mapping[str, str] = field(default_factory=dict)
    model_instances: tuple[ModelInstance, ...] = ()
    params: tuple[Parameter, ...] = ()
