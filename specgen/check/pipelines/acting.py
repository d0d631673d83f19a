"""Who acts in a pipeline, and how it explores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from specgen.check.model import dotted
from specgen.check.pipelines.data_model import OnPolicyData, PipelineData, RecordedData
from specgen.check.pipelines.fields import GSDE_EVERY
from specgen.check.pipelines.heads_model import ModelHead, PolicyHead, QValueHead, action_keys
from specgen.check.pipelines.losses import is_on_policy
from specgen.check.pipelines.model import (
    EXPLORATIONS,
    Acting,
    Amount,
    Exploration,
    ExplorationKind,
    PipelineLoss,
    PipelineNetwork,
    Setting,
)
from specgen.check.pipelines.reader import PartReader
from specgen.diagnostics import Note, Span, suggestion
from specgen.diagnostics.rules import pipeline_episodes as episode_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.schema.load import find
from specgen.source import Mapping as MappingNode

_DRIFT = {"theta": 0.15, "dt": 0.01}
"""The numbers of noise that drifts (Lillicrap et al. 2016), where nothing is said of them."""


class ActingReader(PartReader):
    """Reads the `policy` of one pipeline."""

    def acting(self, losses: tuple[PipelineLoss, ...], data: PipelineData | None) -> Acting | None:
        """Who acts, and how it explores; None after reporting a mistake."""
        chosen = self._networks(losses)
        if not chosen:
            return None
        talks = any(one.language_model is not None for one in chosen)  # and explores by drawing its tokens
        weighing = next((loss for loss in losses if is_on_policy(loss)), None)
        refused = isinstance(data, OnPolicyData) and weighing is not None and self._changes("explore")
        exploration = None if talks else self._exploration(chosen, refused=refused)
        random_frames = self.numbers.setting("policy", "random_frames")
        if isinstance(data, RecordedData):
            self._report_fields_without_effect()
        elif weighing is not None:
            if isinstance(data, OnPolicyData):
                self._report_other_actions(weighing)
        elif exploration is not None:
            for network in _explored(chosen):
                self._check_noise(network, exploration)
        elif self.pipeline.policy is None or self.pipeline.policy.explore is None:
            self._report_lack(chosen)
        explored = () if exploration is None else _explored(chosen)
        return Acting(chosen, exploration, explored, random_frames)

    def _networks(self, losses: tuple[PipelineLoss, ...]) -> tuple[PipelineNetwork, ...]:
        """The networks that act, one of each group of agents; none after reporting a mistake."""
        declared = self.pipeline.policy
        able = [
            one
            for loss in losses
            for one in loss.networks
            if isinstance(one.head, PolicyHead | QValueHead | ModelHead)
        ]
        able.sort(key=lambda network: isinstance(network.head, QValueHead))
        if declared is not None and declared.of is not None:
            chosen = [one for one in able if one.name == declared.of]
            if not chosen:
                span = self.file.span(*self.path, "policy", "of")
                names = [network.name for network in able]
                help = suggestion(declared.of, names) or f"write one of {', '.join(names)}"
                self.sink.add(rules.NETWORK.at(span, f"`{declared.of}` is no network that acts", help=help))
                return ()
            able = [*chosen, *(one for one in able if one.group != chosen[0].group)]
        if not able:
            span = self.file.key_span(*self.path, "loss")
            who = " and ".join(f"`{loss.loss.name}`" for loss in losses)
            values = next(
                (one for loss in losses for one in loss.networks if one.role.action is not None), None
            )
            help = "take a loss with a policy, or with values of actions"
            if values is not None:
                shape = f"`{values.name}` gives {values.role.value}"
                help = f"{shape}, and a pipeline acts by one value of each action, or quantiles of it: write the loop over this loss by hand"
            self.sink.add(rules.NETWORK.at(span, f"no network of {who} gives an action", help=help))
            return ()
        chosen = list({one.group: one for one in reversed(able)}.values())
        chosen.sort(key=able.index)
        return tuple(chosen)

    def _said(self, field: str) -> bool:
        """Whether something is done besides; `explore: none` says that nothing is."""
        policy = self.pipeline.policy
        return policy is not None and getattr(policy, field) not in (None, "none")

    def _changes(self, field: str) -> bool:
        """Whether a field changes the actions that the policy drew; noise of its features it knows of."""
        return self._said(field) and not (field == "explore" and self.pipeline.explores_by_features)

    def _report_fields_without_effect(self) -> None:
        for field in ("explore", "random_frames"):
            if self._said(field):
                span = self.file.key_span(*self.path, "policy", field)
                message = f"the data are recorded, and `{field}` has no effect"
                self.sink.add(episode_rules.NOBODY_ACTS.at(span, message, help="leave it out"))

    def _report_lack(self, chosen: tuple[PipelineNetwork, ...]) -> None:
        """Report a policy that is certain of its actions, and does nothing besides."""
        sure = [one for one in chosen if not draws(one)]
        if not sure:
            return
        message = f"`{sure[0].name}` acts by what it holds for best, and never tries anything else"
        help = f"write `policy: {{explore: {{{_example(sure[0])}}}}}`, or `explore: none`, if this is meant"
        self.sink.add(rules.NEVER_EXPLORES.at(self.file.key_span(*self.path), message, help=help))

    def _report_other_actions(self, loss: PipelineLoss) -> None:
        """Report what changes actions behind an on-policy policy."""
        for field in ("explore", "random_frames"):
            if self._changes(field):
                message = (
                    f"`{loss.loss.name}` weighs actions by their log-probability, and `{field}` changes them"
                )
                notes = [Note("the loss", loss.span)]
                self.sink.add(
                    episode_rules.OTHER_ACTION.at(
                        self.file.key_span(*self.path, "policy", field),
                        message,
                        notes=notes,
                        help="leave it out: the policy explores by drawing its actions",
                    )
                )

    def _exploration(self, networks: tuple[PipelineNetwork, ...], *, refused: bool) -> Exploration | None:
        """How the policy explores besides; whether it fits is not asked where it is `refused` anyway."""
        declared = None if self.pipeline.policy is None else self.pipeline.policy.explore
        if declared is None or declared == "none":
            return None
        place = ("policy", "explore")
        span = self.file.key_span(*self.path, *place)
        kinds = [kind for kind in EXPLORATIONS if getattr(declared, kind) is not None]
        node = find(self.file.root, (*self.path, *place))
        if not kinds and isinstance(node, MappingNode) and node.lost:
            return None  # what is there has no value, which is reported
        if len(kinds) != 1:
            message = f"a policy explores by one of {', '.join(f'`{kind}`' for kind in EXPLORATIONS)}"
            self.sink.add(rules.CHOICE.at(span, message, help=_one_of(kinds, networks)))
            return None
        (kind,) = kinds
        explored = _explored(networks)
        alike = len({_is_discrete(network) for network in explored}) == 1
        for network in explored:
            if not refused and not self._fits(kind, network, span, alike=alike):
                return None
        if kind == "gsde":
            return self._by_features(networks[0])
        field = "eps" if kind == "epsilon_greedy" else "sigma"
        amount = self.numbers.amount(*place, kind, field)
        settings: dict[str, Setting] = {}
        for name, usual in _DRIFT.items() if kind == "ornstein_uhlenbeck" else ():
            found = self.numbers.setting(*place, kind, name)
            settings[name] = found or self.numbers.default(name, usual)
        if amount is None:
            if getattr(getattr(declared, kind), field) is None:
                message = f"`{kind}` needs `{field}`"
                self.sink.add(rules.MISSING_PART.at(span, message, help=f"write `{kind}: {{{field}: 0.1}}`"))
            return None
        if kind == "ornstein_uhlenbeck" and not self._dies_out(settings):
            return None
        return Exploration(kind, amount, settings)

    def _fits(self, kind: ExplorationKind, network: PipelineNetwork, span: Span, *, alike: bool) -> bool:
        """Whether the actions of a network can be explored so; reported where not, `alike`: as those of all groups."""
        discrete = _is_discrete(network)
        if discrete == (kind == "epsilon_greedy"):
            return True
        head = network.head
        actions = " and ".join(f"`{dotted(key)}`" for key in action_keys(head))
        what = "one of a finite set" if discrete else "numbers"
        message = f"`{kind}` does not fit {actions}, which is {what}"
        help = f"write `{_example(network)}`"
        if not alike:
            drawing = "DiscreteSACLoss" if discrete else "SACLoss"
            help = f"one kind serves all groups: let this one draw its actions, as with `{drawing}`"
        self.sink.add(rules.EXPLORATION.at(span, message, help=help))
        return False

    def _by_features(self, network: PipelineNetwork) -> Exploration | None:
        """Noise that is linear in the features of a policy."""
        if not isinstance(network.head, PolicyHead) or not network.head.explores_by_features:
            return None  # which is reported where the network is read
        every = self.numbers.setting("policy", "explore", "gsde", "every", fact=GSDE_EVERY)
        return Exploration("gsde", None, {} if every is None else {"every": every})

    def _dies_out(self, settings: Mapping[str, Setting]) -> bool:
        """Whether noise that drifts returns to 0."""
        theta, dt = settings["theta"], settings["dt"]
        if theta.default * dt.default < 2:
            return True
        message = (
            f"`theta * dt` is {theta.default * dt.default:g}: the noise keeps "
            f"{1 - theta.default * dt.default:g} of itself at each step, and never dies out"
        )
        unusual = max(_DRIFT, key=lambda name: settings[name].default / _DRIFT[name])
        help = f"write `{unusual}: {_DRIFT[unusual]}`, which is usual"
        self.sink.add(episode_rules.DIVERGING_NOISE.at(settings[unusual].span, message, help=help))
        return False

    def _check_noise(self, network: PipelineNetwork, exploration: Exploration) -> None:
        """Report exploration that is none, and noise that leaves nothing of the action."""
        if exploration.amount is None:
            return  # the network learns how much
        field = "eps" if exploration.kind == "epsilon_greedy" else "sigma"
        span = exploration.amount.setting.span
        if draws(network):
            place = self.file.key_span(*self.path, "policy", "explore")
            message = f"`{network.name}` draws its actions, and explores by that"
            self.sink.add(episode_rules.NOISE_ON_DRAWS.at(place, message, help="leave out `explore`"))
            return
        largest = max(_values(exploration.amount))
        if largest == 0:
            message = f"`{field}` is 0 from first to last: `{network.name}` never tries anything else"
            help = f"write `{exploration.kind}: {{{field}: 0.1}}`"
            self.sink.add(rules.NEVER_EXPLORES.at(span, message, help=help))
            return
        if "theta" in exploration.settings:  # where the process does not drift away, its deviation over time
            theta, dt = (exploration.settings[name].default for name in _DRIFT)
            largest /= math.sqrt(theta * (2 - theta * dt) or 1)
        width = None if exploration.kind == "epsilon_greedy" else _narrowest(network)
        if width is not None and largest > width / 3:
            (action,) = map(dotted, action_keys(network.head))
            message = f"noise of {largest:.3g} on `{action}`, which is {width:g} wide"
            help = f"write `sigma: {max(_values(exploration.amount)) * width / 20 / largest:.2g}`"
            self.sink.add(episode_rules.LARGE_NOISE.at(span, message, help=help))


def _explored(networks: tuple[PipelineNetwork, ...]) -> tuple[PipelineNetwork, ...]:
    """The networks whose actions are explored besides: those that are certain of them; all, where none is."""
    return tuple(one for one in networks if not draws(one)) or networks


def draws(network: PipelineNetwork) -> bool:
    """Whether a network is a policy that draws its actions."""
    head = network.head
    return isinstance(head, ModelHead) or (isinstance(head, PolicyHead) and not head.certain)


def _is_discrete(network: PipelineNetwork) -> bool:
    head = network.head
    return isinstance(head, QValueHead) or (isinstance(head, PolicyHead) and head.discrete)


def _one_of(kinds: Sequence[str], networks: tuple[PipelineNetwork, ...]) -> str | None:
    """What to write where a policy is said to explore in several ways, or in none."""
    if not kinds:
        return f"write `explore: {{{_example(networks[0])}}}`" if networks else None
    help = f"leave out all but one, say `{kinds[0]}`"
    if len({_is_discrete(network) for network in networks}) == 1 or not networks:
        return help
    return f"{help}; groups of other actions take a loss whose policy draws them, such as `SACLoss`, `DiscreteSACLoss`"


def _example(network: PipelineNetwork) -> str:
    return "epsilon_greedy: {eps: 0.1}" if _is_discrete(network) else "gaussian: {sigma: 0.1}"


def _values(amount: Amount) -> Iterator[float]:
    """The values that a number begins, ends, or turns at, which may be a schedule."""
    yield amount.setting.default
    if amount.further and amount.further[0] is not None:
        yield amount.further[0].default
    yield from (value.default for _, value in amount.points)


def _narrowest(network: PipelineNetwork) -> float | None:
    """The width of the narrowest range of the action; None where it has no bounds."""
    head = network.head
    only = head.only if isinstance(head, PolicyHead) else None
    if only is None or only.action.spec.kind != "bounded":
        return None
    return min(widths(only.action.spec.low, only.action.spec.high), default=None)


def widths(low: object, high: object) -> Iterator[float]:
    """The widths between two bounds, which are numbers or nested tuples; those of one shape."""
    if isinstance(low, tuple) or isinstance(high, tuple):
        lows = low if isinstance(low, tuple) else (low,) * len(high)  # type: ignore[arg-type]
        highs = high if isinstance(high, tuple) else (high,) * len(lows)
        for one, other in zip(lows, highs, strict=True):
            yield from widths(one, other)
    elif isinstance(low, int | float) and isinstance(high, int | float):
        yield float(high) - float(low)
