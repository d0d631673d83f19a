"""Transforms: roles, types and data flow, checked for every key that they may get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.check.lints.transforms import lint_transform
from specgen.check.model import Checked, Parameter, identifier
from specgen.check.names import Names
from specgen.check.params import OF_TRANSFORMS, check_params
from specgen.check.refused import lost_names
from specgen.check.shared_functions import NO_FUNCTIONS, SharedFunctions
from specgen.check.statements import Section, SectionResult, Target, check_section
from specgen.check.transforms.around import AroundChecker
from specgen.check.transforms.around_flow import (
    around_sections,
    following_their_roles,
    recalled_by_around,
)
from specgen.check.transforms.buffer_types import BufferTypes
from specgen.check.transforms.buffers import (
    check_buffers,
    check_positions,
    check_update,
    declared_where_learned,
)
from specgen.check.transforms.draws import check_draws
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.flow import check_carries, check_flow, value_reads
from specgen.check.transforms.inverse import check_inverse_reads, fact_symbols, not_written
from specgen.check.transforms.masks import check_transform_masks
from specgen.check.transforms.model import CheckedTransform, Phase, sizes_of
from specgen.check.transforms.names import NTH, RESERVED_IN_TRANSFORM
from specgen.check.transforms.networks import check_networks, declared_where_called, known_sizes
from specgen.check.transforms.offline import check_recursion
from specgen.check.transforms.optional import check_absent, check_optional_roles
from specgen.check.transforms.outputs import Outputs
from specgen.check.transforms.per_env import check_per_env_params, rows_of_their_own
from specgen.check.transforms.python import check_methods, check_python_phases
from specgen.check.transforms.roles import check_roles, read_elsewhere
from specgen.check.transforms.several_given import check_numbered, check_several_given, several_given
from specgen.check.transforms.signature import check_backward, check_episode_keywords, check_signature
from specgen.check.transforms.types import (
    check_static,
    output_type,
    pending_reads,
    role_types,
    settled,
    spec_of,
    with_images,
)
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.expr import Binding, Function, Interval, Symbol, Type, full
from specgen.expr.builtins.batch import BATCH_AT_RESET, BATCH_ELSEWHERE
from specgen.expr.builtins.record import Builtin
from specgen.expr.sizes import Sym
from specgen.expr.symbols import Time
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform
from specgen.values import dataclass, replace

__all__ = ["CheckedTransform", "check_transform"]

_UNDRAWN = "a map gives the same for the same moment, offline too: draw under `reset` or `step`"

_ORDER: tuple[Phase, ...] = ("reset", "map", "step", "inverse")
"""Phases in the order in which they are checked: the types of outputs follow from the first two."""


def check_transform(
    file: SchemaFile, name: str, module: str, sink: Sink, functions: SharedFunctions = NO_FUNCTIONS
) -> Checked[CheckedTransform] | None:
    """Check a transform.

    Args:
        file: where it is declared.
        name: its name under `transforms:`.
        module: the generated module that it goes to, dotted.
        sink: takes every mistake.
        functions: the functions of files that it may call.

    Returns:
        The checked transform, or ``None`` when there were errors.
    """
    mine = Sink()
    checked = _Checker(file, name, module, file.module.transforms[name], mine, functions).run()
    node = file.node("transforms", name)
    lost = functions.lost(node) or lost_names(file, ("transforms", name))
    said = functions.said_of(node, mine).items
    sink.extend(item for item in said if not lost or item.severity == "error")
    return None if mine.has_errors or lost or checked is None else Checked(checked)


@dataclass
class _Checker:
    file: SchemaFile
    name: str
    module: str
    transform: Transform
    sink: Sink
    functions: SharedFunctions

    def run(self) -> CheckedTransform | None:
        self.path = ("transforms", self.name)
        self.names = Names(self.sink, RESERVED_IN_TRANSFORM, self.functions.words)
        self._refuse_unavailable()
        params, fixed = check_params(
            self.file, self.path, self.transform.params, OF_TRANSFORMS, self.names, self.sink
        )
        roles = check_roles(self.file, self.path, self.transform, tuple(params), self.names, self.sink)
        by_name = {role.name: role for role in roles}
        written = Outputs(
            self.file, self.path, self.transform, by_name, {p.name: p for p in params}, self.names, self.sink
        )
        outputs, drops, drops_inverse = written.check(), written.drops(), written.drops(inverse=True)
        masks = check_transform_masks(self.file, self.path, self.transform, roles, outputs, self.sink)
        given = [binding.symbol for binding in fixed.values() if binding.symbol is not None]
        self.symbols = {symbol.path.removeprefix(f"transforms.{self.name}."): symbol for symbol in given}
        self.buffers = check_buffers(
            self.file, self.path, self.transform, roles, params, self.names, self.sink
        )
        self.networks = check_networks(
            self.file, self.path, self.transform, roles, outputs, self.names, self.sink
        )
        self.symbols |= self.buffers.symbols | self.networks.symbols
        check_carries(self.file, self.path, self.transform, outputs, self.sink)
        check_episode_keywords(self.file, self.path, self.transform, self.names, self.sink)
        here = (self.file, self.path, self.transform)
        python = check_python_phases(*here, self.module, roles, outputs, self.sink)
        methods = check_methods(*here, self.module, self.sink)
        known_sizes(self.file, self.path, outputs, roles, params, self.sink)
        check_optional_roles(self.file, self.path, self.transform, roles, self.sink)
        check_several_given(*here, roles, outputs, self.sink)
        if self.sink.has_errors:
            return None
        own_rows, known = rows_of_their_own(params), self.functions.known
        sizes = self._sizes(roles)
        recursion, over_time = check_recursion(
            *here, self.names, roles, outputs, fixed, sizes, own_rows, self.sink, known
        )
        self.symbols |= over_time.symbols
        fixed = {**fixed, **sizes}
        outputs = following_their_roles(self.transform, outputs)
        for param in params:
            if param.static and param.kind == "int" and param.interval.low >= 1:
                # A size that is known when the transform is made.
                values = Interval.of_size(Sym.named(param.name))
                symbol = replace(param.symbol(".".join(self.path)), interval=values)
                self.symbols[f"params.{param.name}"] = symbol
                fixed[param.name] = replace(fixed[param.name], interval=values, symbol=symbol)
        outputs, outer = written.outer.follow(outputs, role_types(roles), fixed, self.names, self.symbols)
        types_of_buffers = BufferTypes(
            self.file, self.path, roles, fixed, self._callable, self.symbols, self.sink
        )
        self.buffers, buffer_types = types_of_buffers.follow(self.buffers)
        sections: dict[Phase, SectionResult] = {"buffer_types": buffer_types}
        for phase in _ORDER:
            sections[phase] = self._section(phase, roles, outputs, fixed)
            outputs = settled(outputs, phase, sections[phase], role_types(roles), self.sink)
        sections["outer"] = SectionResult(outer)
        check_static(params, sections, self.sink)
        inverse = check_numbered(roles, sections["inverse"].statements, self.sink)
        check_inverse_reads(inverse, roles, self.symbols, self.sink)
        check_positions(self.transform, sections["reset"].statements, self.buffers, self.sink)
        declared_where_learned(self.file, self.path, outputs, sections, self.buffers, self.sink)
        declared_where_called(self.file, self.path, outputs, sections.values(), self.networks, self.sink)
        sections["update"], given_update = check_update(
            self.file, self.path, roles, fixed, self.buffers, self._callable, self.names, self.sink
        )
        self.symbols |= given_update
        types = role_types(roles)
        types |= {output.name: output_type(output, types) for output in outputs}
        checker = AroundChecker(
            *here, roles, outputs, types, fixed, self._callable, self.names, self.symbols, self.sink
        )
        around = checker.run()
        everything = {str(phase): section for phase, section in sections.items()} | over_time.sections
        everything |= around_sections(around)
        check_per_env_params(*here, params, outputs, everything, self.sink)
        check_absent(self.file, self.path, params, roles, outputs, everything, self.sink)
        self._derive_done(params)
        replayed = check_backward(*here, params, outputs, self.sink)
        if self.transform.around is None and not over_time.sections and python is None and replayed:
            assigned = [role for role in roles if role.name not in masks]
            check_flow(self.file, self.path, assigned, outputs, sections, self.sink)
        named = [network.name for network in self.networks.checked]
        signature = check_signature(
            self.file, self.path, self.transform, params, roles, outputs, named, self.sink
        )
        if not self.sink.has_errors and python is None:
            lint_transform(
                self.file,
                self.path,
                self.transform,
                roles,
                outputs,
                (*drops, *drops_inverse),
                everything,
                self.sink,
            )
        return CheckedTransform(
            name=self.name,
            module=self.module,
            doc=" ".join(self.transform.doc.split()),
            params=params,
            roles=roles,
            outputs=with_images(outputs, sections, self._unknown(params)),
            reset=sections["reset"].statements,
            step=sections["step"].statements,
            map=sections["map"].statements,
            inverse=sections["inverse"].statements,
            outer=outer,
            derive_done=self.transform.derive_done,
            signature=signature,
            reset_keyword=self.transform.reset_keyword,
            done_keyword=self.transform.done_keyword,
            inverse_keyword=self.transform.inverse_keyword,
            backward_param=self.transform.backward,
            recalls=(
                *(
                    name
                    for name in types
                    if any(name in value_reads(s.expr) for s in sections["step"].statements)
                ),
                *recalled_by_around(around, (role.name for role in roles if not role.inverse)),
                *(output.name for output in outputs if python is not None and output.carry),
            ),
            symbols=self.symbols,
            around=around,
            drops=drops,
            drops_inverse=drops_inverse,
            masks=masks,
            recursion=recursion,
            buffers=self.buffers.checked,
            update=sections["update"].statements,
            learns=self.transform.learns,
            refuses_offline=self.transform.offline is False,
            networks=self.networks.checked,
            python=python,
            functions=self.functions.known,
            methods=methods,
        )

    @property
    def _callable(self) -> dict[str, Function | Builtin]:
        """What expressions may call: networks, and functions of files."""
        return {**self.functions.known, **self.networks.functions}

    def _sizes(self, roles: Iterable[Role]) -> dict[str, Binding]:
        """What expressions see of the named sizes of patterns: whole numbers."""
        found: dict[str, Binding] = {}
        for name in sizes_of(roles):
            place = f"sizes.{name}"
            values = Interval.of_size(Sym.named(name))
            kind = Type("int64", (), "ctor")
            symbol = Symbol(f"transforms.{self.name}.{place}", name, kind, values)
            self.symbols[place] = symbol
            found[name] = Binding(kind, values, what="size", symbol=symbol)
        return found

    def _refuse_unavailable(self) -> None:
        if self.transform.moves:
            message = "`moves` of a transform is not available yet"
            self.sink.add(rules.NOT_AVAILABLE.at(self.file.key_span(*self.path, "moves"), message))

    # ----------------------------------------------------------------- phases

    def _section(
        self, phase: Phase, roles: Iterable[Role], outputs: Iterable[Output], fixed: Mapping[str, Binding]
    ) -> SectionResult:
        inverse = phase == "inverse"
        scope = {**fixed, **self.buffers.scope}
        types = role_types(roles)
        types |= {output.name: output_type(output, types) for output in outputs}

        def give(name: str, type_: Type, interval: Interval, what: str) -> None:
            place = f"{phase}.in.{name}"
            time: Time = "next" if name.startswith("next.") else "now"
            made = Symbol(f"transforms.{self.name}.{place}", identifier(name), type_, interval, time)
            self.symbols[place] = made
            scope[name] = Binding(type_, interval, what=what, symbol=made)

        absent = not_written(roles) if inverse else self._absent(phase, roles)
        targets: dict[str, Target] = {}
        for role in roles:
            if inverse and role.inverse:
                targets[role.name] = Target(role.name, spec_of(types[role.name]))
                give(role.name, types[role.name], full(types[role.name].dtype), "role")
            elif not inverse and not role.inverse and (role.form != "flag" or phase == "step"):
                if role.acted and phase != "step":
                    continue
                type_ = types[role.name]
                prefixes = ("next.",) if role.form == "flag" else ("",) if role.acted else ("", "next.")
                for prefix in prefixes if phase == "step" else ("",):
                    named = f"{prefix}{role.name}"
                    give(named, type_, full(type_.dtype), "role")
                    several = () if role.form == "all" else None
                    scope[named] = replace(scope[named], several=several, optional=role.may_be_missing)
        for output in outputs:
            type_ = types[output.name]
            known = output.declared or output.inferred is not None
            if inverse and output.inverse:
                give(output.name, type_, full(type_.dtype), "role")
            elif not inverse and not output.inverse:
                target = f"next.{output.name}" if phase == "step" else output.name
                spec = spec_of(type_, output.interval) if known else None
                interval = full(type_.dtype) if spec is None else spec.interval
                targets[target] = Target(target, spec, settled=known and not output.declared)
                if known and not (phase == "map" and target in {*self.transform.map, *absent}):
                    give(output.name, type_, interval, "output")
                if phase == "step" and (output.flag or output.policy):
                    give(target, type_, interval, "flag" if output.flag else "output")
        if inverse:
            if several_given(roles) is not None:
                self.names.claim(NTH, "number of a key", self.file.key_span(*self.path, "inverse"))
                give(NTH, Type("int64", (), "ctor"), Interval(0, 2**31), "number")
            path = f"{'.'.join(self.path)}.inverse"
            for name, symbol in fact_symbols(path, roles, outputs, types):
                self.symbols[f"inverse.in.{name}"] = symbol
                scope[name] = Binding(symbol.type, symbol.interval, what="fact", symbol=symbol)
        expected = {
            "reset": "an output, as `out` declares it",
            "step": "`next.` and an output, as `out` declares it",
            "map": "an output, as `out` declares it",
            "inverse": "an inverse role",
        }[phase]
        broken = self.functions.broken | self.buffers.lost | lost_names(self.file, self.path)
        if phase in ("reset", "map"):
            pending = {o.name for o in outputs if not o.inverse and not o.declared and o.inferred is None}
            broken |= pending_reads(self.file, (*self.path, phase), pending, self.sink)
        result = check_section(
            Section(
                self.file,
                (*self.path, phase),
                scope,
                (BATCH_AT_RESET if phase == "reset" else BATCH_ELSEWHERE) | self._callable,
                self.names,
                expected,
                broken=broken,
                absent=absent,
                undrawn=_UNDRAWN if phase == "map" else "",
                for_any_key=True,
            ),
            targets,
            self._wrong_targets(phase, roles, outputs),
            self.sink,
        )
        keys = [*(role.name for role in roles), *(output.name for output in outputs)]
        bindings = [scope.get(f"{prefix}{name}") for name in keys for prefix in ("", "next.")]
        given = [binding.symbol for binding in bindings if binding is not None and binding.symbol is not None]
        check_draws(result.statements, given, self.sink, always=inverse)
        return result

    def _absent(self, phase: Phase, roles: Iterable[Role]) -> dict[str, str]:
        """What means something elsewhere, with what to say where a phase reads it."""
        around = self.transform.around if phase == "map" else None
        made = [] if around is None else [*around.collect, *filter(None, [around.taken])]
        help = "it tells of all repetitions together: let a transform behind this one read it"
        return {**read_elsewhere(roles, step=phase == "step"), **dict.fromkeys(made, help)}

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
        for buffer in self.buffers.checked:
            wrong[buffer.name] = wrong[f"next.{buffer.name}"] = (
                f"`{buffer.name}` is a buffer: `update` assigns `next.{buffer.name}`"
            )
        return wrong

    def _unknown(self, params: Iterable[Parameter]) -> frozenset[str]:
        """The names whose values nobody knows when specs are made, or that are not one value."""
        learned = (
            frozenset[str]() if self.transform.learns == "when_called" else frozenset(self.buffers.scope)
        )
        return learned | self.networks.functions.keys() | rows_of_their_own(params)

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
