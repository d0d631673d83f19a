"""The optimizers of a pipeline: which parameters each moves, so that every one is moved by exactly one."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.pipelines.fields import FIELDS, OPTIMIZER_ALPHA, OPTIMIZER_EPS, Fact
from specgen.check.pipelines.model import PipelineLoss, PipelineOptimizer, Setting
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.diagnostics import Note, Span, as_question, did_you_mean
from specgen.diagnostics.rules import pipelines as rules
from specgen.schema.pipeline import OPTIMIZERS, OptimizerGroup
from specgen.values import replace

_LOSS = "loss."
"""In front of the name of a loss, where all that it trains is meant."""
_RENAMED = {"eps": OPTIMIZER_EPS, "alpha": OPTIMIZER_ALPHA}


class OptimizerReader(PartReader):
    """Reads the optimizers of one pipeline; without losses, which have mistakes then, only their numbers."""

    def __init__(self, context: PipelineContext, losses: tuple[PipelineLoss, ...]) -> None:
        super().__init__(context)
        self.losses = losses

    def optimizers(
        self, declared: OptimizerGroup | dict[str, OptimizerGroup]
    ) -> tuple[PipelineOptimizer, ...]:
        """The optimizers, in order; what is wrong with them is reported."""
        if isinstance(declared, OptimizerGroup):
            found = [self._optimizer("", declared, ("optimizer",))]
        else:
            found = [self._optimizer(name, group, ("optimizer", name)) for name, group in declared.items()]
        made = self._with_trunks(tuple(one for one in found if one is not None))
        if len(made) == len(found) and self.losses:
            self._check_coverage(made)
        return made

    def _with_trunks(self, found: tuple[PipelineOptimizer, ...]) -> tuple[PipelineOptimizer, ...]:
        """The optimizers with the trunks: each is moved by the one that names it, else by that of its first user."""
        made = list(found)
        networks = [network for loss in self.losses for network in loss.networks]
        for network in networks:
            for trunk in network.layers.trunks:
                if any(trunk.name in one.parts for one in made):
                    continue
                for index, one in enumerate(made):
                    if network.name in one.parts:
                        made[index] = replace(one, parts=(*one.parts, trunk.name))
                        break
        return tuple(made)

    def _optimizer(
        self, name: str, group: OptimizerGroup, place: tuple[str, ...]
    ) -> PipelineOptimizer | None:
        kinds = [kind for kind in OPTIMIZERS if getattr(group, kind) is not None]
        span = self.file.key_span(*self.path, *place)
        if len(kinds) != 1:
            which = " and ".join(f"`{kind}`" for kind in kinds) or "none"
            message = f"an optimizer is one of {', '.join(OPTIMIZERS)}; here is {which}"
            self.sink.add(rules.CHOICE.at(span, message, help="write `adam: {lr: 3.0e-4}`"))
            return None
        kind = kinds[0]
        lr = self.numbers.amount(*place, kind, "lr", owner=name, fact=self._fact("lr", name))
        if lr is None:
            if getattr(group, kind).lr is None:
                self.sink.add(
                    rules.MISSING_PART.at(
                        span, f"`{kind}` needs a step size", help=f"write `{kind}: {{lr: 3.0e-4}}`"
                    )
                )
            return None
        settings: dict[str, Setting] = {}
        for field in type(getattr(group, kind)).model_fields:
            if field != "lr" and getattr(getattr(group, kind), field) is not None:
                setting = self.numbers.setting(*place, kind, field, owner=name, fact=self._fact(field, name))
                if setting is not None:
                    settings[field] = setting
        every = self.numbers.setting(*place, "every", owner=name, fact=self._fact("every", name))
        norm = self.numbers.amount(
            *place, "max_grad_norm", owner=name, fact=self._fact("max_grad_norm", name)
        )
        parts = self._parts(group, place) if self.losses else None
        return (
            None if parts is None else PipelineOptimizer(name, kind, lr, settings, parts, every, norm, span)
        )

    def _fact(self, field: str, name: str) -> Fact:
        """A field, with the name of its optimizer in front, and in its documentation, where there are several."""
        fact = _RENAMED.get(field) or FIELDS[field]
        if not name:
            return fact
        doc = (
            fact.doc.replace("the optimizer", f"the optimizer `{name}`")
            if "the optimizer" in fact.doc
            else f"{fact.doc}, of `{name}`"
        )
        return replace(fact.of(name), doc=doc)

    def _parts(self, group: OptimizerGroup, place: tuple[str, ...]) -> tuple[str, ...] | None:
        """What an optimizer moves: networks, learned numbers, and all that a term or a loss trains."""
        if not group.of:
            trainable = dict.fromkeys(name for loss in self.losses for name in loss.trainable)
            if not trainable:
                message = "no loss trains anything, and the optimizer moves nothing"
                span = self.file.key_span(*self.path, *place)
                self.sink.add(rules.NOT_OPTIMIZED.at(span, message, help="leave `frozen` out of a network"))
                return None
            return tuple(trainable)
        found: dict[str, None] = {}
        known = dict(self._known())
        for index, name in enumerate(group.of):
            span = self.file.span(*self.path, *place, "of", index)
            full = [one for one in known if one == name] or [one for one in known if one.endswith(f".{name}")]
            if len(full) > 1:
                message = f"`{name}` is {' or '.join(f'`{one}`' for one in full)}"
                self.sink.add(rules.NOT_OPTIMIZED.at(span, message, help="write which"))
                return None
            if not full:
                owner = " nor ".join(dict.fromkeys(f"`{loss.loss.name}`" for loss in self.losses))
                owner = f"neither {owner} has a" if " nor " in owner else f"{owner} has no"
                message = f"{owner} network, learned number or term `{name}`"
                whole = _LOSS if name.startswith(_LOSS) else ""
                alike = [one for one in known if one.startswith(whole)]
                near = did_you_mean(name.removeprefix(whole), [one.removeprefix(whole) for one in alike])
                listed = ", ".join(f"`{one}`" for one in alike or known)
                help = f"there are {listed}" if near is None else as_question(whole + near)
                self.sink.add(rules.NOT_OPTIMIZED.at(span, message, help=help))
                return None
            parts = known[full[0]]
            if not parts:
                message = f"no loss trains `{name}`"
                self.sink.add(rules.NOT_OPTIMIZED.at(span, message, help="leave it out"))
                return None
            found |= dict.fromkeys(parts)
        return tuple(found)

    def _known(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """What an optimizer may be `of`, and the parts that it stands for; none for what no term trains.

        Terms and losses stand for networks without their trunks, which may be those of other terms, too.
        """
        trunks = {trunk.name for loss in self.losses for one in loss.networks for trunk in one.layers.trunks}
        for name in sorted(trunks):
            yield name, (name,) if any(name in loss.trainable for loss in self.losses) else ()
        for loss in self.losses:
            for name in (*(network.name for network in loss.networks), *loss.learned):
                yield name, (name,) if name in loss.trainable else ()
            for name, term in loss.terms_by_name.items():
                yield name, tuple(one for one in loss.trained[term] if one not in trunks)
            if loss.name:
                yield f"loss.{loss.name}", tuple(one for one in loss.trainable if one not in trunks)

    def _check_coverage(self, found: tuple[PipelineOptimizer, ...]) -> None:
        """Report what no optimizer moves, and what two do."""
        movers: dict[str, list[Span]] = {}
        for one in found:
            for part in one.parts:
                movers.setdefault(part, []).append(one.span)
        for loss in self.losses:
            for name in loss.trainable:
                spans = movers.get(name, [])
                if not spans:
                    terms = ", ".join(f"`{term}`" for term in loss.terms if name in loss.trained[term])
                    span = self.file.key_span(*self.path, "optimizer")
                    message = f"`{name}`, which {terms} of `{loss.loss.name}` trains, is in no optimizer"
                    own = name.replace(".", "_")
                    help = f"add it to one, or give it one: `{own}: {{of: [{name}], adam: {{lr: 3.0e-4}}}}`"
                    self.sink.add(rules.NOT_OPTIMIZED.at(span, message, help=help))
                elif len(spans) > 1:
                    message = f"`{name}` is in two optimizers"
                    notes = [Note("the first one", spans[0])]
                    self.sink.add(
                        rules.NOT_OPTIMIZED.at(spans[1], message, notes=notes, help="leave it in one")
                    )
