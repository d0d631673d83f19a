"""Transforms: roles, types and data flow, checked for every key that they may get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from specgen.check.lints.transforms import lint_transform
from specgen.check.model import Checked, Parameter, Statement, identifier
from specgen.check.names import Names
from specgen.check.params import OF_TRANSFORMS, check_params
from specgen.check.statements import Section, SectionResult, Target, check_section
from specgen.check.transform_around import AroundChecker, around_sections, recalled_by_around
from specgen.check.transform_flow import check_flow, monotone_in, value_reads
from specgen.check.transform_keys import check_keys
from specgen.check.transform_model import CheckedTransform, Output, Role
from specgen.check.transform_offline import check_recursion
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.diagnostics.rules import transforms as transform_rules
from specgen.expr import Binding, Interval, SpecType, Symbol, Type, full
from specgen.expr.symbols import Time
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform

__all__ = ["CheckedTransform", "check_transform"]

_RESERVED = ("buffers", "update", "moves", "drops", "masks", "python")

_UNDRAWN = "transforms can't draw yet: draw in the environment, into a state key"


def check_transform(file: SchemaFile, name: str, module: str, sink: Sink) -> Checked[CheckedTransform] | None:
    """Check a transform.

    Args:
        file: where it is declared.
        name: its name under `transforms:`.
        module: the generated module that it goes to, dotted.
        sink: takes every mistake.

    Returns:
        The checked transform, or ``None`` when there were errors.
    """
    mine = Sink()
    checked = _Checker(file, name, module, file.module.transforms[name], mine).run()
    sink.extend(mine.items)
    return None if mine.has_errors or checked is None else Checked(checked)


@dataclass
class _Checker:
    file: SchemaFile
    name: str
    module: str
    transform: Transform
    sink: Sink

    def run(self) -> CheckedTransform | None:
        self.path = ("transforms", self.name)
        self.names = Names(self.sink)
        self._refuse_unavailable()
        params, fixed = check_params(
            self.file, self.path, self.transform.params, OF_TRANSFORMS, self.names, self.sink
        )
        roles, outputs = check_keys(self.file, self.path, self.transform, params, self.names, self.sink)
        by_name = {role.name: role for role in roles}
        given = [binding.symbol for binding in fixed.values() if binding.symbol is not None]
        self.symbols = {symbol.path.removeprefix(f"transforms.{self.name}."): symbol for symbol in given}
        self._carries(outputs)
        if self.sink.has_errors:
            return None
        types = {role.name: role_type(role) for role in roles}
        types |= {output.name: output_type(output, by_name) for output in outputs}
        recursion, over_time = check_recursion(
            self.file, self.path, self.transform, self.names, roles, outputs, types, fixed, self.sink
        )
        self.symbols |= over_time.symbols
        sections = {
            phase: self._section(phase, roles, outputs, types, fixed)
            for phase in ("reset", "step", "map", "inverse")
        }
        around = AroundChecker(
            self.file,
            self.path,
            self.transform,
            roles,
            outputs,
            types,
            fixed,
            self.names,
            self.symbols,
            self.sink,
        ).run()
        sections |= over_time.sections
        self._optional_params(params, outputs, sections)
        self._derive_done(params)
        if self.transform.around is None and not over_time.sections:
            check_flow(self.file, self.path, roles, outputs, sections, self.sink)
        signature = self._signature(params, roles, outputs)
        if not self.sink.has_errors:
            every = {**sections, **around_sections(around)}
            lint_transform(self.file, self.path, self.transform, roles, outputs, every, self.sink)
        return CheckedTransform(
            name=self.name,
            module=self.module,
            doc=" ".join(self.transform.doc.split()),
            params=params,
            roles=roles,
            outputs=tuple(_with_monotone(output, sections["map"]) for output in outputs),
            reset=sections["reset"].statements,
            step=sections["step"].statements,
            map=sections["map"].statements,
            inverse=sections["inverse"].statements,
            derive_done=self.transform.derive_done,
            signature=signature,
            recalls=(
                *(
                    name
                    for name in types
                    if any(name in value_reads(s.expr) for s in sections["step"].statements)
                ),
                *recalled_by_around(around, (role.name for role in roles if not role.inverse)),
            ),
            symbols=self.symbols,
            around=around,
            recursion=recursion,
            refuses_offline=self.transform.offline is False,
        )

    def _refuse_unavailable(self) -> None:
        for field in _RESERVED:
            if getattr(self.transform, field):
                self.sink.add(
                    rules.NOT_AVAILABLE.at(
                        self.file.key_span(*self.path, field),
                        f"`{field}` of a transform is not available yet",
                    )
                )

    # ----------------------------------------------------------------- phases

    def _carries(self, outputs: Iterable[Output]) -> None:
        known = [output.name for output in outputs]
        for index, name in enumerate(self.transform.carry):
            if name not in known and name not in self.transform.out:
                self.sink.add(
                    rules.UNKNOWN_DECLARATION.at(
                        self.file.span(*self.path, "carry", index),
                        f"no output `{name}` to carry",
                        help=suggestion(name, known),
                    )
                )

    def _section(
        self,
        phase: str,
        roles: Iterable[Role],
        outputs: Iterable[Output],
        types: Mapping[str, Type],
        fixed: Mapping[str, Binding],
    ) -> SectionResult:
        inverse = phase == "inverse"
        scope = dict(fixed)

        def give(name: str, type_: Type, interval: Interval, what: str) -> None:
            place = f"{phase}.in.{name}"
            time: Time = "next" if name.startswith("next.") else "now"
            made = Symbol(f"transforms.{self.name}.{place}", identifier(name), type_, interval, time)
            self.symbols[place] = made
            scope[name] = Binding(type_, interval, what=what, symbol=made)

        targets: dict[str, Target] = {}
        for role in roles:
            if inverse and role.inverse:
                targets[role.name] = Target(role.name, _spec(types[role.name]))
            elif not inverse and not role.inverse:
                type_ = types[role.name]
                give(role.name, type_, full(type_.dtype), "role")
                if phase == "step":
                    give(f"next.{role.name}", type_, full(type_.dtype), "role")
        for output in outputs:
            type_ = types[output.name]
            interval = _spec(type_, output.interval).interval
            if inverse and output.inverse:
                give(output.name, type_, full(type_.dtype), "role")
            elif not inverse and not output.inverse:
                target = f"next.{output.name}" if phase == "step" else output.name
                targets[target] = Target(target, _spec(type_, output.interval))
                if phase != "map":
                    give(output.name, type_, interval, "output")
                if phase == "step" and output.flag:
                    give(target, type_, interval, "flag")
        expected = {
            "reset": "an output, as `out` declares it",
            "step": "`next.` and an output, as `out` declares it",
            "map": "an output, as `out` declares it",
            "inverse": "an inverse role",
        }[phase]
        return check_section(
            Section(self.file, (*self.path, phase), scope, {}, self.names, expected, undrawn=_UNDRAWN),
            targets,
            self._wrong_targets(phase, roles, outputs),
            self.sink,
        )

    def _wrong_targets(self, phase: str, roles: Iterable[Role], outputs: Iterable[Output]) -> dict[str, str]:
        wrong = {"next.done": "`done` follows from `terminated` and `truncated`", "done": "`done` is derived"}
        for role in roles:
            if not (phase == "inverse" and role.inverse):
                wrong[role.name] = f"`{role.name}` is read; assign an output"
            wrong[f"next.{role.name}"] = f"`{role.name}` is read; assign an output"
        for output in outputs:
            if phase == "step":
                wrong[output.name] = (
                    f"`{output.name}` is the value before the step; write `next.{output.name}`"
                )
            else:
                wrong[f"next.{output.name}"] = f"outside `step` an output is written bare: `{output.name}`"
            if phase == "inverse":
                wrong[output.name] = "`inverse` assigns what the environment is given"
        return wrong

    def _optional_params(
        self,
        params: Iterable[Parameter],
        outputs: Iterable[Output],
        sections: Mapping[str, SectionResult],
    ) -> None:
        conditions = {output.name: output.when for output in outputs}
        optional = {param.name for param in params if param.optional}
        for section in sections.values():
            by_target = {statement.target: statement for statement in section.statements}
            for target in by_target:
                if target.removeprefix("next.") not in conditions:
                    continue  # a local value is as conditional as what reads it
                given = conditions[target.removeprefix("next.")]
                for statement in _behind(by_target, target, conditions):
                    for name in sorted((statement.reads & optional) - {given}):
                        self.sink.add(
                            transform_rules.MAY_BE_ABSENT.at(
                                statement.source.span_of(0, len(statement.source.text)),
                                f"`{name}` may not have been given",
                                help=f"declare the output with `when: given({name})`",
                            )
                        )

    def _derive_done(self, params: Iterable[Parameter]) -> None:
        value = self.transform.derive_done
        bools = [param.name for param in params if param.kind == "bool"]
        if isinstance(value, str) and value not in bools:
            self.sink.add(
                rules.UNKNOWN_DECLARATION.at(
                    self.file.span(*self.path, "derive_done"),
                    f"no `bool` parameter `{value}`",
                    help=suggestion(value, bools) or "write true, false or the name of a `bool` parameter",
                )
            )

    def _signature(
        self, params: Iterable[Parameter], roles: Iterable[Role], outputs: Iterable[Output]
    ) -> tuple[str, ...]:
        usual = usual_signature(params, roles, outputs, bool(self.transform.offline))
        given = self.transform.signature
        if given and sorted(given) != sorted(usual):
            missing, extra = sorted(set(usual) - set(given)), sorted(set(given) - set(usual))
            notes = [f"missing: {', '.join(missing)}"] if missing else []
            notes += [f"not a parameter: {', '.join(extra)}"] if extra else []
            self.sink.add(
                transform_rules.WRONG_SIGNATURE.at(
                    self.file.span(*self.path, "signature"),
                    "`signature` has to list each parameter of the constructor once",
                    notes=notes,
                )
            )
        return tuple(given or usual)


def _with_monotone(output: Output, mapped: SectionResult) -> Output:
    statement = next((s for s in mapped.statements if s.target == output.name), None)
    return replace(output, monotone=statement is not None and monotone_in(statement.expr, output.each))


def _behind(
    by_target: Mapping[str, Statement], target: str, outputs: Mapping[str, object]
) -> list[Statement]:
    """The statement of an output and those of the local values that it uses."""
    found: dict[str, Statement] = {}
    pending = [target]
    while pending:
        name = pending.pop()
        if name in found or name not in by_target:
            continue
        if name != target and name.removeprefix("next.") in outputs:
            continue
        found[name] = by_target[name]
        pending += by_target[name].reads
    return list(found.values())


def usual_signature(
    params: Iterable[Parameter], roles: Iterable[Role], outputs: Iterable[Output], recursion: bool = False
) -> tuple[str, ...]:
    """The constructor's parameters in their usual order: what must be given, keys, options."""
    params, roles, outputs = list(params), list(roles), list(outputs)
    names = [param.name for param in params if param.required]
    for suffix, inverse in (("", False), ("_inv", True)):
        for role in roles:
            if role.inverse == inverse and not role.structural:
                names.append(f"in_keys{suffix}")
                if any(o.each == role.name and o.keyword is None for o in outputs):
                    names.append(f"out_keys{suffix}")
    names += [output.keyword for output in outputs if output.keyword is not None]
    names += ["done_key"] if recursion else []
    return (*names, *(param.name for param in params if not param.required))


def role_type(role: Role) -> Type:
    """The type of a role, whatever key it stands for."""
    return Type(role.pattern, role.dims)


def output_type(output: Output, roles: Mapping[str, Role]) -> Type:
    """The type of an output, whatever key its role stands for."""
    role = roles[output.each]
    return Type(output.dtype or role.pattern, role.dims)


def _spec(type_: Type, interval: tuple[float, float] | None = None) -> SpecType:
    if interval is None:
        return SpecType("pattern", type_.dtype, type_.dims)
    return SpecType("bounded", type_.dtype, type_.dims, *interval)
