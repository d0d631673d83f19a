"""Losses: networks, keys, parameters and every term, checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.lints.losses import LossToLint, lint_loss
from specgen.check.lints.numbers import warn_whole_numbers
from specgen.check.losses.batch import batch_functions
from specgen.check.losses.builtins import LOSS_BUILTINS, OF_LOSSES, VALUE_ESTIMATE_OF_EACH, no_values
from specgen.check.losses.chosen import chosen_first
from specgen.check.losses.coefficients import fixed_params
from specgen.check.losses.conditions import infer_requirement, with_random
from specgen.check.losses.declared import Declared
from specgen.check.losses.entries import ENTRIES, of_any_length
from specgen.check.losses.forward import Forward
from specgen.check.losses.functions import network_buffers, network_function
from specgen.check.losses.joined import joined_calls
from specgen.check.losses.masks import report_late_masks, sample_dimensions
from specgen.check.losses.methods import checked_methods
from specgen.check.losses.model import CheckedLoss, LossClass, Requirement
from specgen.check.losses.names import reserved_in_loss
from specgen.check.losses.networks import NetworkCalls
from specgen.check.losses.outputs import Outputs, report_missing
from specgen.check.losses.reduce import means_first
from specgen.check.losses.unused import (
    report_parts_without_entropies,
    report_unread_values,
    report_unused_targets,
)
from specgen.check.losses.updates import updates_buffer
from specgen.check.losses.values import ForwardValues
from specgen.check.losses.when_made import known_when_made
from specgen.check.model import Statement, identifier
from specgen.check.names import Names, refused
from specgen.check.reads import Assignment, broken_reads, misplaced_reads, unknown_reads
from specgen.check.refused import lost_names
from specgen.check.shared_functions import SharedFunctions
from specgen.check.statements import may_draw
from specgen.check.unread import expression_of
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import expressions as expression_rules
from specgen.diagnostics.rules import losses as rules
from specgen.expr import Binding, Expr, Function, Symbol, Type, Typed, free_names, infer, parse
from specgen.expr.builtins.record import Builtin
from specgen.expr.tree import calls_in, names_read
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Loss
from specgen.source import Mapping as MappingNode
from specgen.source import Scalar
from specgen.values import dataclass

__all__ = ["CheckedLoss", "LossChecker"]


_KINDS = {"let": "value", "terms": "term", "metrics": "metric"}
"""What an entry of a section is called."""


@dataclass
class LossChecker:
    """The check of one loss; see `check_loss`."""

    file: SchemaFile
    name: str
    module: str
    loss: Loss
    sink: Sink
    parent: LossClass | None
    shared: SharedFunctions

    def run(self) -> CheckedLoss | None:
        """The checked loss; ``None`` if it calls a function that has a mistake."""
        self.path = ("losses", self.name)
        reserved = reserved_in_loss(self.name, (*self.loss.terms, *self.loss.metrics))
        self.names = Names(self.sink, reserved, self.shared.words, self.file.whole_span(*self.path))
        inherited = self.parent.properties if self.parent is not None else frozenset[str]()
        self.declared = Declared(self.file, self.path, self.loss, self.names, self.sink, inherited)
        self.declared.check()
        self.scope = self.declared.scope
        networks, params = self.declared.networks, self.declared.params
        self.functions: dict[str, Function | Builtin] = {
            name: builtin
            for name, builtin in LOSS_BUILTINS.items()
            if name != "value_estimate" or self.declared.estimators
        }
        if self.declared.estimators == ("td0",) and not self.loss.samples:
            self.functions["value_estimate"] = VALUE_ESTIMATE_OF_EACH
        self.functions |= batch_functions(self._sample()) | self.declared.modules.functions
        self.functions |= {ENTRIES.name: ENTRIES} | dict(self.shared.known)
        self.outputs = Outputs(self.file, self.path, self.loss, self.scope, self.sink)
        self.readable = {role.name: role.type for role in self.declared.roles}
        written = (one for network in networks for one in network.outputs)
        self.readable |= {role: type for role, type in written if self.readable.get(role) is None}
        taken = (self.loss.params, self.loss.keys, self.loss.let, self.loss.terms, self.loss.metrics)
        self.calls = NetworkCalls(
            ForwardValues(
                {network.name: network for network in networks}, self.readable, frozenset().union(*taken)
            ),
            self.scope,
            self.declared.flags,
            self.sink,
            frozenset(self.loss.networks.keys() - {network.name for network in networks}),
        )
        require = self._requirements()
        self.later: dict[str, Assignment] = {}
        self.types: dict[str, Type] = {}
        for one in network_buffers(self.path, networks, self.calls.values):
            self._bind(one)
        self.assigned: list[tuple[Statement, str]] = []
        # What is declared wrongly is reported there, not again where it is read.
        self.broken = self.loss.params.keys() - {param.name for param in params}
        lost = lost_names(self.file, self.path)
        self.broken |= lost
        self.broken |= self.loss.learnable.keys() - {one.name for one in self.declared.learnables}
        if len(networks) < len(self.loss.networks) or not self._actions_known():
            self.broken |= {role.name for role in self.declared.roles if role.type is None}
        let = self._section("let")
        mask = self._masking("mask") if self.loss.mask is not None else None
        sections = ("terms", "metrics", "writes", "update")
        terms, metrics, writes, update = map(self._section, sections)
        masks = {
            name: made
            for name in self.outputs.masked
            if (made := self._masking("terms", name, "mask")) is not None
        }
        if lost or self.shared.lost(self.file.node(*self.path)):
            return None
        means = means_first(self.file, self.path, self.loss, params, self.sink)
        out_keys = self.outputs.order()
        if not self.sink.has_errors:
            targets, masked = self.calls.targets, self.outputs.masked
            report_unused_targets(self.file, self.path, self.loss, networks, targets, self.sink)
            report_unread_values(self.file, self.path, self.loss, masked, self.sink)
            found, coefficients = self.calls.values.found, self.declared.coefficients
            report_parts_without_entropies(self.file, self.path, coefficients, found, self.sink)
        if not self.sink.has_errors:
            parts = LossToLint(
                self.file,
                self.path,
                self.loss,
                networks,
                self.declared.roles,
                self.declared.learnables,
                self.declared.computed,
                self.declared.read_as,
                tuple(self.calls.values.found),
                tuple(made.condition for made in require),
                let,
                terms,
                metrics,
                (*writes, *update),
                frozenset(self.calls.called),
                self._asked([mask, *masks.values()]),
            )
            lint_loss(parts, self.sink)
            warn_whole_numbers(self.file, self.path, self.loss.params, self.assigned, self.sink)
        checked = CheckedLoss(
            name=self.name,
            module=self.module,
            parent=self.parent,
            doc=" ".join(self.loss.doc.split()),
            networks=networks,
            roles=self.declared.roles,
            params=params,
            require=require,
            forward=chosen_first(
                joined_calls(self.file, self.path, self.calls.values.found, networks, self.sink),
                (*let, *terms, *metrics, *writes, *update, mask, *masks.values()),
            ),
            let=let,
            terms=terms,
            metrics=metrics,
            writes=writes,
            update=update,
            methods=checked_methods(self.file, self.path, self.loss, self.names, self.scope, self.sink),
            out_keys=out_keys,
            each=self.outputs.each,
            by_part=self.outputs.by_part,
            when=self.outputs.when,
            elementwise=self.outputs.elementwise,
            mask=mask,
            masks=masks,
            samples=sample_dimensions(self.file, self.path, self.loss, self.sink),
            means=means,
            functional=self.loss.functional,
            estimators=self.declared.estimators,
            value_role=self.declared.value_role,
            types=self.types,
            symbols=self._symbols(),
            learnables=self.declared.learnables,
            fixed=fixed_params(self.loss.params),
            coefficients=self.declared.coefficients,
            domains=self.declared.domains.used(),
            modules=self.declared.modules.checked,
        )
        if not self.sink.has_errors:
            report_missing(checked, self.scope, self.sink)
            report_late_masks(checked, self.sink)
        return checked

    def _asked(self, masks: Iterable[Statement | None]) -> frozenset[str]:
        """The names that conditions of terms, metrics and keys, and masks ask for."""
        found = [*self.outputs.when.values(), *(r.when for r in self.declared.roles if r.when is not None)]
        reads = frozenset(s.name for typed in found for s in typed.symbols_read)
        reads |= {name for mask in masks if mask is not None for name in mask.reads}
        return reads | {role.name for role in self.declared.roles if role.mask is not None}

    def _sample(self) -> Binding | None:
        """One number of each sample, by which samples are counted."""
        there = (role.name for role in self.declared.roles if not role.optional and role.when is None)
        found = (self.scope[name] for name in there if name in self.scope)
        return next((one for one in found if one.type.dims == () and one.type.level == "batch"), None)

    def _symbols(self) -> dict[str, Symbol]:
        """What is declared, by its path below the loss."""
        names = [param.name for param in self.declared.params] + [role.name for role in self.declared.roles]
        found = [binding.symbol for name in names if (binding := self.scope.get(name)) is not None]
        found += [made.symbol for made in self.calls.values.found]
        return {s.path.removeprefix(f"losses.{self.name}."): s for s in found if s is not None}

    def _requirements(self) -> tuple[Requirement, ...]:
        made = []
        for message in self.loss.require:
            source = self.file.scalar(*self.path, "require", message)
            expr = parse(source, self.sink)
            sound = expr is not None and known_when_made(expr, source, self.loss, "require", self.sink)
            typed = infer_requirement(expr, self.scope, source, self.sink) if expr and sound else None
            if expr is None or typed is None:
                continue
            if typed.type.dtype != "bool" or not typed.type.python:
                self.sink.add(
                    expression_rules.WRONG_DTYPE.at(
                        source.span, f"a requirement is a truth value of parameters, not {typed.type}"
                    )
                )
                continue
            made.append(Requirement(message, self._statement("require", message, expr, source, typed)))
        return tuple(made)

    def _section(self, section: str) -> tuple[Statement, ...]:
        path = (*self.path, section)
        node = self.file.node(*path) if getattr(self.loss, section) else None
        made: list[Statement] = []
        if not isinstance(node, MappingNode):
            return ()
        fit = {key.text: (key, value) for key, value in node.entries if key.text not in self.shared.words}
        self.later = fit if section == "let" else {}
        for key, value in node.entries:
            source = expression_of(value)
            if (
                not self.outputs.form(section, key.text)
                or source is None
                or not self._target(section, key, source)
            ):
                self.broken.add(key.text)
                continue
            statement = self._assignment(section, key.text, source)
            self.later.pop(key.text, None)
            if statement is not None:
                made.append(statement)
        return tuple(made)

    def _masking(self, *place: str) -> Statement | None:
        """A truth value of each sample: whether it counts."""
        return self._assignment("mask", ".".join(place), self.file.scalar(*self.path, *place), place)

    def _target(self, section: str, key: Scalar, value: Scalar) -> bool:
        """Whether something may be called so here."""
        name = key.text
        if section == "writes":
            if name in (known := [role.name for role in self.declared.roles]):
                return True
            self.declared.unknown_role(name, known, "writes", name, key=True)
            return False
        if section == "update":
            return updates_buffer(name, self.declared.coefficients, key, self.sink)
        if section != "let" and name.startswith("loss") != (section == "terms"):
            wrong, better = "the term `{}` would not be minimised", f"call it `loss_{name}`"
            if section == "metrics":
                wrong, better = "training loops would sum the metric `{}` with the terms", "call it otherwise"
            self.sink.add(rules.TERM_NAME.at(key.span, wrong.format(name), help=better))
            return False
        if section == "metrics" and value.text.strip() == name:
            return True  # a value that is logged under its own name
        # a metric is only a key of the output: `entropy: -log_p` hides no function
        if section != "metrics" and name in OF_LOSSES:
            self.sink.add(refused(name, "it is a function of losses", _KINDS[section], key.span))
            return False
        return self.names.claim(name, _KINDS[section], key.span)

    def _assignment(
        self, section: str, name: str, source: Scalar, place: tuple[str, ...] = ()
    ) -> Statement | None:
        parsed = parse(source, self.sink)
        expr = None if parsed is None else self.declared.readable(parsed, source)
        expr = None if expr is None else with_random(expr, self.scope, source, self.sink)
        if expr is not None and section == "terms" and name in self.outputs.elementwise:
            expr = of_any_length(expr, self.scope)
        # What reads a value that is wrong already is not reported again.
        if expr is None or free_names(expr) & self.broken or broken_reads(expr, self.shared.broken):
            if expr is not None:
                others = {*self.broken, *self.shared.broken, *self.later, *self.outputs.unreadable}
                others |= {*self.readable, *self.loss.networks, *no_values(expr)}
                unknown_reads(expr, source, self.scope, self.functions, others, self.sink)
            self.broken.add(name)
            return None
        if misplaced_reads(expr, source, self.scope.keys(), self.outputs.unreadable, self.later, self.sink):
            self.broken.add(name)
            return None
        path = ".".join((*self.path, *(place or (section, name))))
        known = len(self.calls.values.found)
        rewritten = self.calls.taken_out(name if section == "let" else None, expr, source, path)
        for made in self.calls.values.found[known:]:
            self._bind(made)
        if isinstance(rewritten, Forward):
            return None
        if rewritten is None or self._reads_untyped(rewritten, source):
            self.broken.add(name)
            return None
        typed = self._typed(rewritten, source)
        if typed is None or not self.outputs.fits(section, name, typed, source):
            self.broken.add(name)
            return None
        self.types[name] = typed.type
        statement = self._statement(section, name, rewritten, source, typed, place)
        self.assigned.append((statement, "" if section == "let" else typed.type.dtype))
        if section == "let":
            self.scope[name] = Binding(typed.type, typed.interval, typed.static, "value", statement.symbol)
        return statement

    def _typed(self, expr: Expr, source: Scalar) -> Typed | None:
        if "value_estimate" not in self.functions:
            for call in calls_in(expr):
                if call.function.path == "value_estimate":
                    span = source.span_of(call.start, call.end)
                    help = "declare `value_estimator: td0`"
                    self.sink.add(rules.NO_ESTIMATOR.at(span, "this loss has no value estimator", help=help))
                    return None
        typed = infer(expr, self.scope, source, self.sink, functions=self.functions)
        undrawn = (
            "a loss draws from its policies, rsample(dist), and noise, normal_like(x), uniform(0, 1, like=x)"
        )
        return typed if typed is None or may_draw(typed, source, undrawn, self.sink) else None

    def _reads_untyped(self, expr: Expr, source: Scalar) -> bool:
        untyped = {role.name for role in self.declared.roles if role.type is None}
        found = [name for name in names_read(expr) if name.path in untyped]
        for name in found:
            self.sink.add(
                expression_rules.UNDEFINED.at(
                    source.span_of(name.start, name.end),
                    f"`{name.path}` is a key without a type, which expressions can't read",
                    help=f"say its type: `{name.path}: {{key: {name.path}, type: float32}}`",
                )
            )
        return bool(found)

    def _actions_known(self) -> bool:
        roles = {role.name for role in self.declared.roles}
        return all(network.action is None or network.action in roles for network in self.declared.networks)

    def _bind(self, made: Forward) -> None:
        if made.replaced:
            self.functions[made.name] = network_function(made, self.readable)
            return
        name, type, values = made.name, made.type, made.symbol.interval
        self.types[name] = type
        self.scope[name] = Binding(type, values, what="value", symbol=made.symbol)

    def _statement(
        self,
        section: str,
        name: str,
        expr: Expr,
        source: Scalar,
        typed: Typed,
        place: tuple[str, ...] = (),
    ) -> Statement:
        called = frozenset(call.function.path for call in calls_in(expr))
        path = (*self.path, *(place or (section, name)))
        type = typed.type
        if section == "terms":
            type = Type(type.dtype)
        elif section == "writes":
            type = Type(type.dtype, (), col=True)
        key = next((r.key for r in self.declared.roles if section == "writes" and r.name == name), None)
        symbol = Symbol(
            ".".join(path),
            identifier(name),
            type,
            typed.interval,
            "now" if key else None,
            key,
            self.file.key_span(*path),
        )
        where = ".".join(path)
        reads = free_names(expr) | {made.name for made in self.calls.values.found if made.name in called}
        return Statement(name, expr, source, reads, called, False, where, typed, symbol)
