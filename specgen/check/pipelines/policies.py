"""The heads of policies: distributions over the action, and where their scale comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence

from specgen.check.losses.model import LossNetwork
from specgen.check.model import Entry, dotted
from specgen.check.pipelines.coefficients import help_with_action
from specgen.check.pipelines.distributions import (
    SEVERAL,
    Family,
    choices_of,
    default_family,
    families_called,
    support_of,
)
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.fields import FIELDS, FIXED_SCALE, GSDE_SIGMA
from specgen.check.pipelines.heads_model import ActionHead, PolicyHead, ScaleKind
from specgen.check.pipelines.loss_arguments import LossArguments
from specgen.check.pipelines.model import Setting
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.diagnostics import Diagnostic, Note
from specgen.diagnostics.rules import pipeline_actions as action_rules
from specgen.diagnostics.rules import pipeline_networks as layer_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr.symbols import Key
from specgen.schema.pipeline_networks import ActionDistribution, NetworkBody, Scale
from specgen.values import dataclass, replace


@dataclass(frozen=True)
class Said:
    """What a pipeline says of one action of a policy: where, in which body; and whose numbers those of it are."""

    place: tuple[str, ...]
    body: NetworkBody | ActionDistribution
    owner: str

    @property
    def one_of_several(self) -> bool:
        """Whether the policy chooses others, too."""
        return isinstance(self.body, ActionDistribution)


class PolicyReader(PartReader):
    """Reads the heads of the policies of one loss.

    Args:
        context: what all readers of the pipeline are given.
        env: its environment, as the agent sees it that they are of.
        loss: the loss.
    """

    def __init__(self, context: PipelineContext, env: PipelineEnv, loss: LossArguments) -> None:
        super().__init__(context)
        self.env, self.loss = env, loss

    def head(
        self, name: str, role: LossNetwork, body: NetworkBody, actions: Sequence[Entry], key: Key
    ) -> PolicyHead | None:
        """The head of a network that gives an action; None after a mistake.

        Args:
            name: the network.
            role: the loss's network.
            body: what is declared of it.
            actions: the action, or several.
            key: of the action, or of what holds several.
        """
        said = self._said_of_actions(name, body, actions, key)
        if said is None:
            return None
        parts = [self._action_head(name, role, said[action.key], action) for action in actions]
        if None in parts:
            return None
        found = PolicyHead(tuple(part for part in parts if part is not None), key)
        log_prob = next(
            (one.key for one in self.loss.loss.roles if one.name == "sample_log_prob" and not found.certain),
            None,
        )
        return replace(found, log_prob_key=log_prob)

    def _said_of_actions(
        self, name: str, body: NetworkBody, actions: Sequence[Entry], key: Key
    ) -> dict[Key, Said] | None:
        """What is said of each action; None after reporting what is said of none."""
        here = ("networks", name)
        if len(actions) == 1:
            if body.actions:
                message = f"`{self.env.name}` has one action, `{actions[0].dotted}`"
                span = self.file.key_span(*self.path, *here, "actions")
                help = f"write `dist` and `scale` of `{name}` itself"
                self.sink.add(action_rules.WHICH_ACTION.at(span, message, help=help))
                return None
            return {actions[0].key: Said(here, body, name.replace(".", "_"))}
        if self._explores_by_features(name):
            span = self.file.key_span(*self.path, "policy", "explore", "gsde")
            message = f"`{name}` chooses several actions, and `gsde` is noise on one"
            notes = [Note("the policy", self.file.key_span(*self.path, *here))]
            help = "leave it out: the policy explores by drawing its actions"
            found = layer_rules.NOISE_OF_FEATURES.at(span, message, notes=notes, help=help)
            self._report_noise_of_features(found)
            return None
        names = {dotted(one.key[len(key) :]): one.key for one in actions}
        listed = " and ".join(f"`{one}`" for one in names)
        for field in ("dist", "scale"):
            if getattr(body, field) is not None:
                span = self.file.key_span(*self.path, *here, field)
                message = f"`{name}` chooses {listed}, and `{field}` does not say of which it is"
                numbers = {"bounded", "unbounded"}
                called = () if body.dist is None else families_called(body.dist)
                wanted = {one.support for one in called} or numbers
                fitting = (dotted(one.key[len(key) :]) for one in actions if support_of(one.spec) in wanted)
                value = body.dist if field == "dist" else "…"
                help = f"write `actions: {{{next(fitting, next(iter(names)))}: {{{field}: {value}}}}}`"
                self.sink.add(action_rules.WHICH_ACTION.at(span, message, help=help))
                return None
        wrong = [one for one in body.actions if one not in names]
        for one in wrong:
            span = self.file.key_span(*self.path, *here, "actions", one)
            help = help_with_action(one, names, key)
            message = f"`{self.env.name}` has no action `{one}` below `{dotted(key)}`"
            self.sink.add(action_rules.WHICH_ACTION.at(span, message, help=help))
        if wrong:
            return None
        return {
            full: Said(
                (*here, "actions", one), body.actions.get(one, ActionDistribution()), one.replace(".", "_")
            )
            for one, full in names.items()
        }

    def _action_head(self, name: str, role: LossNetwork, said: Said, action: Entry) -> ActionHead | None:
        """The part of the head that is over one action."""
        mask = self.env.masks.get(action.dotted)
        family = self._family(name, role, said, action, masked=mask is not None, certain=not role.policy)
        if family is None:
            return None
        scale, value = self._scale(name, said, family)
        size = math.prod(action.type.shape)
        if family.discrete and family.support != "bits":
            size = sum(choices_of(action.spec))
        outputs = size * (len(family.parameters) if scale == "state" or family.extractor else 1)
        key = None if mask is None or not family.masked else tuple(mask.split("."))
        return ActionHead(family, action, outputs, scale, value, key)

    def _family(
        self, name: str, role: LossNetwork, said: Said, action: Entry, *, masked: bool, certain: bool
    ) -> Family | None:
        here = (*self.path, *said.place)
        default = default_family(action, masked=masked, certain=certain)
        if said.body.dist is None:
            if default is None:
                message = f"no distribution of a policy is over `{action.dotted}`, {shown(action)}"
                span = self.file.key_span(*self.path, "networks", name)
                self.sink.add(rules.DISTRIBUTION.at(span, message, help=_no_default(action)))
            return default
        called, support = families_called(said.body.dist), support_of(action.spec)
        family = next((one for one in called if one.support == support), called[0])
        fits = family.support == support
        if not fits:
            over, several = _SUPPORTS[family.support], support in SEVERAL and family.discrete
            if several and not any(one.several for one in called):
                over = "one choice"
            message = f"`{family.name}` is over {over}, and `{action.dotted}` is {shown(action)}"
        elif masked and not family.masked:
            message = f"`{family.name}` does not keep to `{self.env.masks[action.dotted]}`, the mask of `{action.dotted}`"
        elif family.masked and not masked:
            message = f"`{family.name}` needs a mask, and `{action.dotted}` has none"
        elif certain and not family.certain:
            message = f"`{self.loss.loss.name}` takes a policy that is certain, and `{family.name}` draws"
        elif family.certain and said.one_of_several:
            message = f"a policy over several actions draws each, and `{family.name}` does not"
        elif family.certain and not certain and not role.certain:
            message = f"`{self.loss.loss.name}` reads log-probabilities, and `{family.name}` has none"
        else:
            return family
        alike = (one for one in families_called(f"onehot_{family.name}") if one.support == support)
        default = default if masked else next(alike, default)
        help = _no_default(action) if default is None else f"write {default.name}, or leave it out"
        notes = []
        if fits and family.masked and not masked and (mask := self.env.lost_masks.get(action.dotted)):
            notes.append(Note(f"{self.env.dropped[mask]}, drops `{mask}`, its mask", self.env.span))
            help = f"keep `{mask}` in `{self.env.name}`"
        self.sink.add(rules.DISTRIBUTION.at(self.file.span(*here, "dist"), message, notes=notes, help=help))
        return None

    def _scale(self, name: str, said: Said, family: Family) -> tuple[ScaleKind | None, Setting | None]:
        """The kind of scale that a policy has, and its number."""
        body = said.body
        if self._explores_by_features(name):
            return self._features_scale(name, said, family)
        if not family.scaled:
            if body.scale is not None:
                span = self.file.key_span(*self.path, *said.place, "scale")
                help = "leave it out, or write `scale: drop` where it is inherited"
                self.sink.add(rules.DISTRIBUTION.at(span, f"`{family.name}` has no scale", help=help))
            return None, None
        if not isinstance(body.scale, Scale):
            return "state", None
        place = (*said.place, "scale")
        if body.scale.parameter is not None and body.scale.fixed is None:
            return "parameter", self.numbers.setting(
                *place, "parameter", owner=said.owner, fact=FIELDS["parameter"]
            )
        if body.scale.fixed is not None and body.scale.parameter is None:
            return "fixed", self.numbers.setting(*place, "fixed", owner=said.owner, fact=FIXED_SCALE)
        span = self.file.span(*self.path, *place)
        self.sink.add(rules.CHOICE.at(span, "a scale is `state`, a trained `parameter`, or `fixed`"))
        return "state", None

    def _explores_by_features(self, name: str) -> bool:
        """Whether `gsde` is said of a policy of this name."""
        acting = self.pipeline.policy
        said = self.pipeline.explores_by_features and not self.pipeline.is_recorded
        return said and acting is not None and acting.of in (None, name)

    def _features_scale(
        self, name: str, said: Said, family: Family
    ) -> tuple[ScaleKind | None, Setting | None]:
        """The scale of noise that is linear in the features of a policy's last hidden layer; reported where it can't be so."""
        span = self.file.key_span(*self.path, "policy", "explore", "gsde")
        notes = [Note("the policy", self.file.key_span(*self.path, "networks", name))]
        if family.discrete:
            return None, None  # which is reported with other exploration that does not fit
        message = help = ""
        if family.class_name not in ("TanhNormal", "IndependentNormal"):
            what = "is certain of its actions" if family.certain else f"is `{family.name}`"
            message = f"`gsde` is the noise of a normal distribution, and `{name}` {what}"
            help = "write `gaussian: {sigma: 0.1}`" if family.certain else f"leave out `dist` of `{name}`"
        elif said.body.scale is not None:
            message = f"`{name}` has a `scale` of its own, and with `gsde` it follows from the features"
            help = "leave out `scale`, or write `scale: drop` where it is inherited; `gsde: {sigma: 1.0}` says how large the noise is at first"
        elif self.loss.group is not None:
            message = f"`gsde` for agents of `{self.loss.group.name}` is not available yet"
            self.sink.add(schema_rules.NOT_AVAILABLE.at(span, message, notes=notes, help="leave it out"))
            return None, None
        if message:
            self._report_noise_of_features(
                layer_rules.NOISE_OF_FEATURES.at(span, message, notes=notes, help=help)
            )
            return None, None
        place = ("policy", "explore", "gsde", "sigma")
        found = self.numbers.setting(*place, fact=GSDE_SIGMA)
        return "gsde", found or self.numbers.default("sigma", 1.0, fact=GSDE_SIGMA)

    def _report_noise_of_features(self, found: Diagnostic) -> None:
        """Report what `gsde` does not fit; of further policies in the notes of the first."""
        rule = layer_rules.NOISE_OF_FEATURES
        first = next((one for one in self.sink.items if one.rule is rule and one.span == found.span), None)
        if first is None:
            self.sink.add(found)
            return
        self.sink.remove(first)
        further = (Note(found.message, note.span) for note in found.notes)
        self.sink.add(replace(first, notes=(*first.notes, *further)))


def _no_default(action: Entry) -> str | None:
    """What to write where a policy has no distribution by default."""
    return "declare both of its bounds, or none" if support_of(action.spec) == "half_bounded" else None


_SUPPORTS = {
    "index": "indices",
    "onehot": "one-hot vectors",
    "bits": "bits",
    "bounded": "bounded numbers",
    "unbounded": "unbounded numbers",
}


def shown(entry: Entry) -> str:
    """The spec of an action, as messages show it."""
    spec = entry.spec
    if spec.kind in ("multi_categorical", "multi_onehot"):
        return f"{spec.kind}({', '.join(map(str, spec.counts))})"
    if spec.kind == "binary":
        return f"binary{list(entry.stored_shape)}"
    if spec.kind in ("categorical", "onehot"):
        return f"{spec.kind}({spec.n})" + (f" of shape {list(entry.stored_shape)}" if spec.shape else "")
    return f"{spec}" + (f" in [{spec.low}, {spec.high}]" if spec.kind == "bounded" else "")
