"""Recursions of transforms over recorded data: what they read, and whether they are complete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from specgen.check.model import identifier
from specgen.check.names import Names
from specgen.check.statements import Section, SectionResult, Target, check_section
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.model import PHASES, CheckedRecursion
from specgen.check.transforms.types import output_type, role_types
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import transform_networks as network_rules
from specgen.diagnostics.rules import transforms_offline as rules
from specgen.expr import Binding, Function, SpecType, Symbol, Type, full
from specgen.expr.symbols import Time
from specgen.expr.tree import names_read
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform
from specgen.schema.transform_offline import Recursion
from specgen.values import dataclass, replace

_UNDRAWN = "a recursion over recorded data draws nothing"
_OF_ROWS = "it differs between environments, and `start` is one value for all: begin with a number, and read it under `step`"

_OF_KEYS = (
    "it differs between keys, and `start` is one value for all: begin with a number, and read it under `step`"
)


@dataclass
class OverTime:
    """The sections of a recursion, and what its expressions are given, by path; empty without one."""

    sections: dict[str, SectionResult] = field(default_factory=dict)
    symbols: dict[str, Symbol] = field(default_factory=dict)


def check_recursion(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    names: Names,
    roles: Iterable[Role],
    outputs: Iterable[Output],
    fixed: Mapping[str, Binding],
    sizes: Mapping[str, Binding],
    per_env: frozenset[str],
    sink: Sink,
    functions: Mapping[str, Function],
) -> tuple[CheckedRecursion | None, OverTime]:
    """Check `offline` of the transform at `path`.

    Args:
        file: where it stands.
        path: the transform.
        transform: the transform.
        names: the namespace of the declaration.
        roles: its roles.
        outputs: its outputs.
        fixed: the parameters.
        sizes: the sizes of the roles that have names; `start`, which is one value for all keys, reads none.
        per_env: those of which each row has its own.
        sink: takes every mistake.
        functions: the functions of files that it may call.

    Returns:
        The recursion, or None; and its sections.
    """
    declared = transform.offline
    if not isinstance(declared, Recursion):
        return None, OverTime()
    if transform.python is not None:
        return CheckedRecursion(False, declared.at, (), (), (), tuple(declared.reads)), OverTime()
    if declared.reads:
        message = "`reads` says something of a Python class, and there is none"
        help = "name it: `python: package.module:Class`; `step` reads what it names"
        sink.add(network_rules.PYTHON_PHASES.at(file.key_span(*path, "offline", "reads"), message, help=help))
    types = role_types(roles)
    types |= {output.name: output_type(output, types) for output in outputs}
    checker = _Checker(
        file, (*path, "offline"), declared, names, list(roles), list(outputs), types, per_env, sink, functions
    )
    if beside := [phase for phase in (*PHASES, "carry") if getattr(transform, phase)]:
        sink.add(
            rules.RECURSION.at(
                file.key_span(*path, beside[0]),
                f"{' and '.join(f'`{phase}`' for phase in beside)} beside a recursion over recorded data",
                help="declare another transform for environments",
            )
        )
    return checker.run(fixed, sizes)


@dataclass
class _Checker:
    file: SchemaFile
    path: tuple[str, ...]
    declared: Recursion
    names: Names
    roles: list[Role]
    outputs: list[Output]
    types: Mapping[str, Type]
    per_env: frozenset[str]
    sink: Sink
    functions: Mapping[str, Function]
    symbols: dict[str, Symbol] = field(default_factory=dict)

    def run(
        self, fixed: Mapping[str, Binding], sizes: Mapping[str, Binding]
    ) -> tuple[CheckedRecursion, OverTime]:
        before = self.sink.errors
        self._outputs_assigned()
        step = self._section("step", {**fixed, **sizes, **self._given("step"), **self._past()})
        start = self._section(
            "start",
            {name: one for name, one in fixed.items() if name not in self.per_env},
            dict.fromkeys(self.per_env, _OF_ROWS) | dict.fromkeys(sizes, _OF_KEYS),
        )
        open_ = SectionResult()
        if not isinstance(self.declared.open, str):
            open_ = self._section("open", {**fixed, **sizes, **self._given("open")})
            self._open_ends(self.declared.open)
        if self.sink.errors == before:
            self._starts(step)
        checked = CheckedRecursion(
            self.declared.direction == "backward",
            self.declared.at,
            start.statements,
            step.statements,
            open_.statements,
        )
        sections = {"offline.step": step, "offline.start": start, "offline.open": open_}
        return checked, OverTime(sections, self.symbols)

    def _report(self, span: Span, message: str, help: str) -> None:
        self.sink.add(rules.RECURSION.at(span, message, help=help))

    def _outputs_assigned(self) -> None:
        for output in self.outputs:
            if output.name not in self.declared.step:
                self._report(
                    self.file.key_span(*self.path),
                    f"nothing under `step` assigns `{output.name}`",
                    f"add `{output.name}: …`; `acc.{output.name}` is its value at the moment done before",
                )

    def _open_ends(self, declared: Mapping[str, str]) -> None:
        span = self.file.key_span(*self.path, "open")
        if self.declared.direction == "forward":
            message = "`open` in a recursion that goes forward: it begins where the data begin"
            self._report(span, message, "leave `open` out, or write `direction: backward`")
        if missing := [name for name in self.declared.start if name not in declared]:
            listed = ", ".join(f"`{name}`" for name in missing)
            self._report(
                span, f"`open` has no value for {listed}", "give it one; `open: error` refuses such data"
            )

    def _starts(self, step: SectionResult) -> None:
        """Report what is accumulated without a start, and starts of what is not."""
        accumulated: set[str] = set()
        for statement in step.statements:
            for name in names_read(statement.expr):
                output = name.path.removeprefix("acc.")
                if output == name.path:
                    continue
                accumulated.add(output)
                if output not in self.declared.start:
                    self._report(
                        statement.source.span_of(name.start, name.end),
                        f"`{name.path}` has no value at the first moment",
                        f"give it one: `start: {{{output}: …}}`",
                    )
        for output in self.declared.start:
            if output not in accumulated:
                self._report(
                    self.file.key_span(*self.path, "start", output),
                    f"`{output}` has a start, but nothing reads `acc.{output}`",
                    f"read `acc.{output}` under `step`: the value at the moment done before",
                )

    def _given(self, section: str) -> dict[str, Binding]:
        """Each role at the root, and under `next`."""
        made = {}
        for prefix in ("", "next."):
            for role in self.roles:
                given = self._binding(section, f"{prefix}{role.name}", role.name, "role")
                made[f"{prefix}{role.name}"] = replace(given, optional=role.may_be_missing)
        return made

    def _past(self) -> dict[str, Binding]:
        """Each output at the moment done before."""
        names = [output.name for output in self.outputs]
        return {f"acc.{name}": self._binding("step", f"acc.{name}", name, "output") for name in names}

    def _binding(self, section: str, name: str, like: str, what: str) -> Binding:
        place = f"offline.{section}.in.{name}"
        time: Time = "next" if name.startswith("next.") else "now"
        type_ = self.types[like]
        path = ".".join((*self.path[:-1], place))
        symbol = Symbol(path, identifier(name), type_, full(type_.dtype), time)
        self.symbols[place] = symbol
        return Binding(type_, symbol.interval, what=what, symbol=symbol)

    def _section(
        self, section: str, scope: Mapping[str, Binding], absent: Mapping[str, str] | None = None
    ) -> SectionResult:
        targets = {
            output.name: Target(output.name, _spec(self.types[output.name], output))
            for output in self.outputs
        }
        wrong = {f"next.{name}": f"`at` says where `{name}` is written: assign it bare" for name in targets}
        wrong |= {role.name: f"`{role.name}` is read; assign an output" for role in self.roles}
        wrong |= {
            f"acc.{name}": f"`acc.{name}` is the value of the moment before: assign `{name}`"
            for name in targets
        }
        return check_section(
            Section(
                self.file,
                (*self.path, section),
                scope,
                self.functions,
                self.names,
                "an output, as `out` declares it",
                undrawn=_UNDRAWN,
                absent=absent or {},
            ),
            targets,
            wrong,
            self.sink,
        )


def _spec(type_: Type, output: Output) -> SpecType:
    if output.interval is None:
        return SpecType("pattern", type_.dtype, type_.dims)
    return SpecType("bounded", type_.dtype, type_.dims, *output.interval)
