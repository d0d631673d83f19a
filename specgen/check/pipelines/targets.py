"""Which targets of a pipeline follow, and how: all of them alike, or by network, or by loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specgen.check.pipelines.fields import FIELDS, TARGETS_EVERY, Fact
from specgen.check.pipelines.model import PipelineLoss
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.check.pipelines.targets_model import TargetUpdates
from specgen.diagnostics import Note, Sink, Span, suggestion
from specgen.diagnostics.rules import pipeline_forms as forms
from specgen.diagnostics.rules import pipeline_values as value_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.schema.pipeline import TargetUpdate
from specgen.values import replace

_HERE = "target_updater"


def read_targets(context: PipelineContext, losses: tuple[PipelineLoss, ...]) -> tuple[TargetUpdates, ...]:
    """How the targets of the losses follow; reported where there are none, or nobody moves them."""
    return _TargetReader(context, losses).targets(context.pipeline.target_updater)


class _TargetReader(PartReader):
    """Reads how targets follow in one pipeline: all of them alike, or by network, or by loss."""

    def __init__(self, context: PipelineContext, losses: tuple[PipelineLoss, ...]) -> None:
        super().__init__(context)
        self.losses = losses
        self.known: dict[str, tuple[PipelineLoss, tuple[str, ...]]] = {}
        """What an updater may be of: a network that has a target, or one of several losses; with its loss, and with that network."""
        for loss in losses:
            self.known |= {name: (loss, (name,)) for name in loss.targets}
            if loss.name and loss.targets:
                self.known[loss.name] = (loss, ())

    def targets(self, declared: TargetUpdate | dict[str, TargetUpdate] | None) -> tuple[TargetUpdates, ...]:
        """The updaters, in order; what is wrong with them is reported."""
        moved = [loss for loss in self.losses if loss.targets]
        if declared is None:
            if moved:
                self._report_unmoved(moved[0], moved[0].targets, moved[0].span)
            return ()
        span = self.file.key_span(*self.path, _HERE)
        if not moved:
            message = f"`{self.losses[0].loss.name}` has no targets that could be moved"
            self.sink.add(value_rules.NO_TARGETS.at(span, message, help=f"leave out `{_HERE}`"))
            return ()
        if isinstance(declared, TargetUpdate):
            made = self._update("", declared, (_HERE,))
            alike = (replace(made, loss=one.part("loss"), part=one.part("updater")) for one in moved if made)
            return tuple(alike)
        owners = {name: self._owner(name) for name in declared}
        if not self._are_apart(owners):
            return ()
        found: list[TargetUpdates] = []
        for name, update in declared.items():
            owner = owners[name]
            made = self._update(name.replace(".", "_"), update, (_HERE, name))
            if made is not None and owner is not None:
                loss, networks = self.known[owner]
                roles = {one.name: one.role.name for one in loss.networks}
                called = tuple(roles[one] for one in networks)
                found.append(replace(made, loss=loss.part("loss"), networks=called))
        if None not in owners.values():
            self._check_coverage(owners.values(), span)
        return tuple(found)

    def _owner(self, name: str) -> str | None:
        """What an updater of this name is of, in full; None after reporting that there is no such, or several."""
        full = [one for one in self.known if one == name] or [
            one for one in self.known if one.endswith(f".{name}")
        ]
        if len(full) == 1:
            return full[0]
        span = self.file.key_span(*self.path, _HERE, name)
        if full:
            message = f"`{name}` is {' or '.join(f'`{one}`' for one in full)}"
            self.sink.add(forms.TARGETS_APART.at(span, message, help="write which"))
            return None
        help = suggestion(name, self.known) or f"there are {', '.join(f'`{one}`' for one in self.known)}"
        message = f"there is no target of `{name}` that could be moved"
        self.sink.add(value_rules.NO_TARGETS.at(span, message, help=help))
        return None

    def _are_apart(self, owners: dict[str, str | None]) -> bool:
        """Whether each target has one updater; reported where a second one moves it, too."""
        movers: dict[str, str] = {}
        apart = True
        for name, owner in owners.items():
            for target in () if owner is None else self._moved_by(owner):
                if target in movers:
                    apart = False
                    message = f"the target of `{target}` is moved by two updaters"
                    notes = [Note("the first one", self.file.key_span(*self.path, _HERE, movers[target]))]
                    span = self.file.key_span(*self.path, _HERE, name)
                    self.sink.add(
                        forms.TARGETS_APART.at(span, message, notes=notes, help="leave it to one of them")
                    )
                movers.setdefault(target, name)
        return apart

    def _moved_by(self, owner: str) -> tuple[str, ...]:
        """The networks whose targets an updater moves, by their full names."""
        loss, networks = self.known[owner]
        return networks or loss.targets

    def _check_coverage(self, owners: Iterable[str | None], span: Span) -> None:
        """Report the targets of each loss that no updater moves."""
        moved = {target for owner in owners if owner is not None for target in self._moved_by(owner)}
        for loss in self.losses:
            left = [name for name in loss.targets if name not in moved]
            if left:
                self._report_unmoved(loss, left, span)

    def _report_unmoved(self, loss: PipelineLoss, targets: Sequence[str], span: Span) -> None:
        names = ", ".join(f"`{name}`" for name in targets)
        message = f"`{loss.loss.name}` has targets of {names}, and nobody moves them"
        help = "write `target_updater: {soft: {tau: 0.005}}`"
        if span != loss.span:
            help = f"add `{targets[0]}: {{soft: {{tau: 0.005}}}}`"
        self.sink.add(value_rules.NO_TARGET_UPDATER.at(span, message, help=help))

    def _update(self, name: str, declared: TargetUpdate, place: tuple[str, ...]) -> TargetUpdates | None:
        """How targets follow, without whose they are; None after reporting a mistake."""
        span = self.file.key_span(*self.path, *place)
        kinds = [kind for kind in ("soft", "hard") if getattr(declared, kind) is not None]
        if len(kinds) != 1:
            self.sink.add(rules.CHOICE.at(span, "targets follow `soft` or `hard`"))
            return None
        (kind,) = kinds
        field = "tau" if kind == "soft" else "interval"

        def fact(one: Fact) -> Fact:
            return one.of(name) if name else one

        amount = self.numbers.amount(*place, kind, field, fact=fact(FIELDS[field]))
        if amount is None:
            if getattr(getattr(declared, kind), field) is None:
                usual = "0.005" if kind == "soft" else "1_000"
                message, help = f"`{kind}` needs `{field}`", f"write `{kind}: {{{field}: {usual}}}`"
                self.sink.add(rules.MISSING_PART.at(span, message, help=help))
            return None
        every = self.numbers.setting(*place, "every", fact=fact(TARGETS_EVERY))
        part = f"{name}_updater"
        made = TargetUpdates("soft" if kind == "soft" else "hard", amount, every, loss="", part=part)
        _check_pace(made, self.sink)
        return made


def _check_pace(targets: TargetUpdates, sink: Sink) -> None:
    """Report targets that hardly stand still."""
    if targets.every is not None:
        return  # some of the updates only
    value, span = targets.amount.setting.default, targets.amount.setting.span
    if targets.kind == "soft" and value > 0.5:
        message = f"`tau` {value:g} replaces {100 * value:g}% of the target at each update"
        near = 1 - value
        help = (
            f"write `tau: {near:.3g}`" if near > 0 else "write `tau: 0.005`, or leave targets out of the loss"
        )
        sink.add(value_rules.FAST_TARGET.at(span, message, help=help))
    elif targets.kind == "soft" and value > 0.1:
        message = f"{100 * value:g}% of the target is replaced at each update"
        sink.add(value_rules.CLOSE_TARGET.at(span, message, help="write `tau: 0.005`"))
    elif targets.kind == "hard" and value < 10:
        message = f"the target is replaced every {value:g} updates"
        sink.add(value_rules.CLOSE_TARGET.at(span, message, help="write `interval: 500`"))
