"""Losses: what they declare in vain, targets that are none, and terms that train nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from specgen.check.lints.declared import warn_unread
from specgen.check.lints.flow import Flow
from specgen.check.lints.gradients import Gradients
from specgen.check.losses.forward import (
    Choice,
    Data,
    Forward,
    ForwardValue,
    NetworkCall,
    counts_of,
    parts_of,
)
from specgen.check.losses.learnables import CheckedLearnable
from specgen.check.losses.model import LossNetwork, LossRole
from specgen.check.model import Statement
from specgen.diagnostics import Sink, as_question, did_you_mean
from specgen.diagnostics.rules import loss_lints as rules
from specgen.diagnostics.similar import edit_distance
from specgen.expr import Expr
from specgen.expr.tree import Binary, Call, free_names, subexpressions
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Loss, LossKey
from specgen.values import dataclass

_USED_BY_CLASS = ("priority_weight",)
"""Roles that the generated class reads by itself."""

_USED_BY_ESTIMATOR = (
    "advantage",
    "done",
    "reward",
    "steps_to_next_obs",
    "terminated",
    "value",
    "value_target",
)
"""Roles that a value estimator reads or writes."""

_SHORTEST, _LONG = 5, 8
"""Shorter names than the first are near to too many others; from the second on, two letters may be wrong."""

_WELL_KNOWN = (
    "action",
    "action_value",
    "advantage",
    "chosen_action_value",
    "done",
    "episode_reward",
    "is_init",
    "observation",
    "priority_weight",
    "reward",
    "state_value",
    "step_count",
    "td_error",
    "terminated",
    "truncated",
    "value_target",
)
"""Keys that environments, actors and replay buffers write under these names."""


@dataclass(frozen=True)
class LossToLint:
    """A loss whose mistakes are all reported, as its checker knows it.

    Attributes:
        file, path, loss: where it is declared, and what it says.
        networks, roles, learnables: what it declares.
        computed: the parameters that computed defaults read.
        read_as: the parameters whose values expressions read under other names, by those.
        forward: what the networks compute.
        require: the conditions on its parameters.
        let, terms, metrics, writes: its statements.
        called: the networks that an expression calls.
        asked: the names that conditions ask for.
    """

    file: SchemaFile
    path: tuple[str, ...]
    loss: Loss
    networks: tuple[LossNetwork, ...]
    roles: tuple[LossRole, ...]
    learnables: tuple[CheckedLearnable, ...]
    computed: frozenset[str]
    read_as: Mapping[str, str]
    forward: tuple[Forward, ...]
    require: tuple[Statement, ...]
    let: tuple[Statement, ...]
    terms: tuple[Statement, ...]
    metrics: tuple[Statement, ...]
    writes: tuple[Statement, ...]
    called: frozenset[str]
    asked: frozenset[str] = frozenset()

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All that the pure function computes."""
        return (*self.let, *self.terms, *self.metrics, *self.writes)


def lint_loss(parts: LossToLint, sink: Sink) -> None:
    """Warn of what is legal in a loss and rarely meant."""
    _unread(parts, sink)
    _misspelt_keys(parts, sink)
    _Values(parts, sink).report()


def _unread(parts: LossToLint, sink: Sink) -> None:
    file, path, loss = parts.file, parts.path, parts.loss
    reads = frozenset[str]().union(*(each.reads for each in (*parts.statements, *parts.require)))
    reads |= parts.asked
    reads |= {name for made in parts.forward for name in _conditions(made.value)}
    reads |= frozenset[str]().union(*(one.reads for one in parts.learnables))
    reads |= frozenset(parts.computed)
    reads |= {parts.read_as[name] for name in reads if name in parts.read_as}
    flags = {flag for one in loss.networks.values() for flag in (one.target, one.apart, one.ensemble)}
    by = loss.reduce.get("by")
    flags |= {by} if isinstance(by, str) else set()
    for name in loss.params:
        if name not in reads and name not in flags:
            warn_unread(file.key_span(*path, "params", name), "parameter", name, sink)
    for network in parts.networks:
        if network.name not in parts.called:
            help = f"call it: `{network.name}(now)`; or leave it out"
            warn_unread(file.key_span(*path, "networks", network.name), "network", network.name, sink, help)
    for one in parts.learnables:
        if one.name not in reads:
            warn_unread(file.key_span(*path, "learnable", one.name), "learnable", one.name, sink)
    called = {name.split(".")[0] for each in parts.statements for name in each.calls}
    for name in loss.modules:
        if name not in called:
            help = f"call a method: `{name}.normalize(x)`; or leave it out"
            warn_unread(file.key_span(*path, "modules", name), "module", name, sink, help)
    acted = {network.action for network in parts.networks}
    acted |= {role for made in parts.forward for role in _roles(made.value)}
    acted |= {network.output for network in parts.networks}
    acted |= {role for network in parts.networks for role, _ in network.outputs}
    acted |= {role for network in parts.networks for role in network.reads}
    for role in parts.roles:
        given = loss.keys.get(role.name)
        used = role.name in reads or role.name in loss.writes or role.name in acted
        used = used or (loss.value_estimator is not None and role.name in _USED_BY_ESTIMATOR)
        if given is not None and not used and role.name not in _USED_BY_CLASS:
            warn_unread(file.key_span(*path, "keys", role.name), "key", role.name, sink)


def _conditions(value: ForwardValue) -> frozenset[str]:
    """The parameters that a value of the class depends on: conditions, and numbers of draws."""
    found = [free_names(part.condition) for part in parts_of(value) if isinstance(part, Choice)]
    return frozenset[str]().union(*found, *(free_names(count.expr) for count in counts_of(value)))


def _roles(value: ForwardValue) -> set[str]:
    """The roles that a value of the class reads, or stands for."""
    parts = list(parts_of(value))
    read = {part.role for part in parts if isinstance(part, Data)}
    return read | {role for part in parts if isinstance(part, NetworkCall) for role, _ in part.replaced}


def _misspelt_keys(parts: LossToLint, sink: Sink) -> None:
    """Warn of keys that are nearly those that every environment writes, or nearly their role."""
    file, path = parts.file, parts.path
    places: list[tuple[str, str, tuple[str | int, ...]]] = []
    for role, given in parts.loss.keys.items():
        inner = ("key",) if isinstance(given, LossKey) else ()
        places.append((given.key if isinstance(given, LossKey) else given, role, ("keys", role, *inner)))
    for name, network in parts.loss.networks.items():
        places += [(key, key, ("networks", name, "in", index)) for index, key in enumerate(network.in_)]
    for key, role, place in places:
        last = key.rsplit(".", 1)[-1]
        meant = _meant(last, (*_WELL_KNOWN, role) if role != key else _WELL_KNOWN)
        if meant is not None:
            whole = f"{key.removesuffix(last)}{meant}"
            span = file.span(*path, *place)
            message = f"`{key}` looks like a slip for `{whole}`"
            sink.add(rules.MISSPELT_KEY.at(span, message, help=as_question(whole)))


def _meant(name: str, known: Collection[str]) -> str | None:
    """The known name that was meant: a letter or two away, and neither its plural nor a name that it is a part of."""
    best = did_you_mean(name, known) if name not in known else None
    if best is None or len(name) < _SHORTEST or best in name or name in best:
        return None
    return best if edit_distance(name, best, 2) <= (1 if len(best) < _LONG else 2) else None


class _Values:
    """Values of the next state, and where they go."""

    def __init__(self, parts: LossToLint, sink: Sink) -> None:
        self.parts = parts
        self.sink = sink
        self.flow = Flow(parts.let)
        self.gradients = Gradients(parts.let, parts.forward)
        self.roles = {role.name: role for role in parts.roles}
        self.valued = {call.network for call in self.gradients.calls() if call.record == "now"}

    def report(self) -> None:
        """Report all of them."""
        self._done_as_terminated()
        leaking: list[tuple[Statement, Expr]] = []
        by_hand = self._estimates_nothing()
        for statement in self.parts.statements:
            for expr in subexpressions(statement.expr):
                if isinstance(expr, Call) and expr.function.path == "value_estimate" and expr.args:
                    if self._estimate_of_now(statement, expr.args[0]):
                        continue
                    if self.gradients.of(expr.args[0]):
                        leaking.append((statement, expr))
            for expr in _sums(statement.expr):
                if (value := self._bootstrapped(expr)) is None:
                    continue
                self._mask(statement, expr, value)
                if by_hand:
                    by_hand = False
                    self._without_estimator(statement, expr)
                if self.gradients.of(value, record="next"):
                    leaking.append((statement, expr))
        self._gradient_through_target(leaking)
        self._terms_that_train_nothing()

    def _behind(self, expr: Expr) -> frozenset[str]:
        return self.flow.behind(free_names(expr))

    def _records(self, expr: Expr) -> set[str]:
        calls = self.gradients.calls(self._behind(expr))
        return {call.record for call in calls}

    def _estimate_of_now(self, statement: Statement, value: Expr) -> bool:
        data = [name for name in self._behind(value) if name in self.roles and not self.roles[name].after]
        outside = [name for name in data if self.roles[name].type is not None and name not in self._actions()]
        if self._records(value) != {"now"} or outside:
            return False
        self.sink.add(
            rules.ESTIMATE_OF_NOW.at(
                statement.source.span_of(value.start, value.end),
                "this is the value of the present state; the estimate takes that of the next one",
                help="call the network with `next`",
            )
        )
        return True

    def _actions(self) -> set[str | None]:
        return {network.action for network in self.parts.networks}

    def _bootstrapped(self, expr: Binary) -> Expr | None:
        """The value of the next state in a sum with a reward; None where there is none of both."""
        for reward, value in ((expr.left, expr.right), (expr.right, expr.left)):
            behind = self._behind(value)
            networks = {call.network for call in self.gradients.calls(behind) if call.record == "next"}
            if "reward" in self._behind(reward) and "reward" not in behind and networks & self.valued:
                return value
        return None

    def _estimates_nothing(self) -> bool:
        """Whether the loss declares a value estimator, and nothing reads what that computes."""
        called = {
            expr.function.path
            for statement in self.parts.statements
            for expr in subexpressions(statement.expr)
            if isinstance(expr, Call)
        }
        filled = any(role.missing == "estimate" for role in self.parts.roles)
        return self.parts.loss.value_estimator is not None and "value_estimate" not in called and not filled

    def _without_estimator(self, statement: Statement, expr: Binary) -> None:
        """Warn of a target that is computed beside the value estimator."""
        self.sink.add(
            rules.ESTIMATED_BY_HAND.at(
                statement.source.span_of(expr.start, expr.end),
                "the value estimator, which is declared, has no part in this target: `gamma`, and how many steps a "
                "transition takes, do not reach it",
                help="write value_estimate(…) of the value of the next state, or leave `value_estimator` out",
            )
        )

    def _mask(self, statement: Statement, expr: Binary, value: Expr) -> None:
        """Warn where a bootstrapped value is not left out at terminal states."""
        read = [name for name in self.roles if name in self._behind(value)]
        around = [name for name in self.roles if name in self._behind(statement.expr)]
        if any("terminated" in (name, self.roles[name].key[-1]) for name in around):
            return
        if "truncated" in around or any(
            not self.roles[name].after for name in read if name not in self._actions()
        ):
            return  # `done and not truncated`, or a mask or discount of the data's own
        message = (
            "`done` is true at time limits too, behind which the next state has a value"
            if "done" in read
            else "the value of the next state is added where the episode is terminated, too"
        )
        self.sink.add(
            rules.BOOTSTRAP_MASK.at(
                statement.source.span_of(expr.start, expr.end),
                message,
                help="leave it out where `terminated` is true: where(terminated, 0.0, …), or use value_estimate",
            )
        )

    def _done_as_terminated(self) -> None:
        role = self.roles.get("terminated")
        if (
            role is None
            or role.key[-1] not in ("done", "truncated")
            or "terminated" not in self.parts.loss.keys
        ):
            return
        given = self.parts.loss.keys["terminated"]
        inner = ("key",) if isinstance(given, LossKey) else ()
        self.sink.add(
            rules.BOOTSTRAP_MASK.at(
                self.parts.file.span(*self.parts.path, "keys", "terminated", *inner),
                f"`terminated` is read from `{'.'.join(role.key)}`, which is true at time limits too",
                help=f"write `terminated: {'.'.join((*role.key[:-1], 'terminated'))}`",
            )
        )

    def _gradient_through_target(self, leaking: list[tuple[Statement, Expr]]) -> None:
        said: set[tuple[str, int]] = set()
        for term in self.parts.terms:
            for statement, expr in leaking:
                if (statement.target, expr.start) in said:
                    continue
                if not self.gradients.passes(term.expr, statement.target, expr):
                    continue
                said.add((statement.target, expr.start))
                self.sink.add(
                    rules.TARGET_GRADIENT.at(
                        statement.source.span_of(expr.start, expr.end),
                        f"the gradient of `{term.target}` goes through this target",
                        help=f"write stop_grad({statement.source.text[expr.start : expr.end]}), "
                        "or call `.target` or `.frozen`",
                    )
                )

    def _terms_that_train_nothing(self) -> None:
        learned = [one.name for one in self.parts.learnables]
        for term in self.parts.terms:
            reached = self.gradients.reaches(term.expr, learned)
            networks = self.gradients.of(term.expr)
            if reached and networks:
                self.sink.add(
                    rules.TRAINS_BOTH.at(
                        term.source.span_of(0, len(term.source.text)),
                        f"`{term.target}` trains both `{reached[0]}` and `{min(call.network for call in networks)}`",
                        help=f"write stop_grad({reached[0]}), or stop the gradient of what the network gives",
                    )
                )
            if self._records(term.expr) and not networks and not reached:
                self.sink.add(
                    rules.TRAINS_NOTHING.at(
                        term.source.span_of(0, len(term.source.text)),
                        f"no gradient of `{term.target}` reaches a network",
                        help="call the network that is to be trained without `.frozen`, `.target` and stop_grad",
                    )
                )


def _sums(expr: Expr) -> list[Binary]:
    """The sums and differences in an expression, those inside of others included."""
    return [part for part in subexpressions(expr) if isinstance(part, Binary) and part.op in ("+", "-")]
