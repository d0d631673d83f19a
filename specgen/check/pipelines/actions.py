"""The actions that the networks of a pipeline are about: which there are, and whether its loss takes them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from specgen.check.losses.model import LossNetwork
from specgen.check.model import Entry
from specgen.check.pipelines.distributions import SEVERAL, choices_of, support_of
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.loss_arguments import LossArguments
from specgen.check.pipelines.policies import shown
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.diagnostics import Note
from specgen.diagnostics.rules import pipeline_actions as action_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.expr.symbols import Key

_SEVERAL_CLASSES = {"several_indices", "several_onehots"}
"""Actions whose choices have values of their own: bits have none."""

_MANY = 1_000
"""More combinations than that are no set that anybody chooses one of."""


class ActionReader(PartReader):
    """What the networks of one loss may be about.

    Args:
        context: what all readers of the pipeline are given.
        env: its environment, as the agent sees it that they are of.
        loss: the loss.
        declared: the names under `networks`, by those in the loss.
    """

    def __init__(
        self, context: PipelineContext, env: PipelineEnv, loss: LossArguments, declared: Mapping[str, str]
    ) -> None:
        super().__init__(context)
        self.env, self.loss, self.declared = env, loss, declared

    def fit(self) -> bool:
        """Whether networks of the loss may be about the actions; reported once for the loss where not."""
        return not (
            self._act_otherwise()
            or self._takes_several_choices()
            or self._takes_one_action()
            or self._chooses_for_sure()
        )

    def key(self, name: str) -> Key | None:
        """The key of the action, or of what holds several, that a network is about; None after a mistake."""
        if self._is_there(name) and self.env.action_key is None:
            self._report_actions_apart(name)
        return self.env.action_key

    def _act_otherwise(self) -> bool:
        """Whether the action is none that networks here are about, which is reported at the first of them."""
        if self.env.chat is not None:
            return False
        about = (
            self.declared[role.name]
            for role in self.loss.loss.networks
            if role.name in self.declared and (role.policy or self._is_of_one_action(role))
        )
        name = next(about, None)
        action = next((one for one in self.env.actions if not _is_flat(one)), None)
        if name is None or action is None:
            return False
        message = f"policies act by a vector of numbers, of choices or of bits, or by one choice, and `{action.dotted}` is {shown(action)}"
        spec, size = action.spec, math.prod(action.stored_shape)
        bounds = (
            f" in [{spec.low:g}, {spec.high:g}]"
            if isinstance(spec.low, int | float) and isinstance(spec.high, int | float)
            else ""
        )
        help = f'declare it as a vector, `"float32[{size}]{bounds}"`'
        choices = choices_of(spec)
        if self.env.gymnasium:
            help = f"register the environment in a `gymnasium.ActionWrapper` of yours, whose `action_space` is a Box of shape ({size},)"
        elif spec.kind == "binary":
            help = f"declare it as bits beside each other, `binary[{size}]`"
        elif choices:
            kind = "multi_onehot" if "onehot" in spec.kind else "multi_categorical"
            help = f"declare it as choices beside each other, `{kind}({', '.join(map(str, choices))})`"
        if (transform := _flattening(action)) is not None:
            help = f"put {transform} of specgen_std/transforms/actions into the chain"
        span = self.file.key_span(*self.path, "networks", name)
        self.sink.add(
            rules.DISTRIBUTION.at(span, message, notes=[Note("the environment", self.env.span)], help=help)
        )
        return True

    def _is_of_one_action(self, role: LossNetwork) -> bool:
        """Whether a network reads actions, values each of them, or is certain of one."""
        return (
            role.action is not None
            or "action" in (*role.reads, *role.inputs)
            or (self.gives_action(role) and not role.policy)
        )

    def _takes_several_choices(self) -> bool:
        """Whether the loss takes one action of several choices beside each other, and there is another, which is reported."""
        about = (
            self.declared[one.name]
            for one in self.loss.loss.networks
            if one.choices and one.name in self.declared
        )
        name = next(about, None)
        if name is None or self.env.chat is not None or not self.env.actions:
            return False
        span = self.file.key_span(*self.path, "networks", name)
        action, *others = self.env.actions
        kind = support_of(action.spec)
        if kind in _SEVERAL_CLASSES and not others:
            return False
        listed = " and ".join(f"`{one.dotted}`" for one in self.env.actions)
        message = (
            f"`{self.loss.loss.name}` takes one action of several choices, and `{self.env.name}` has {listed}"
        )
        weighing = "`ClipPPOLoss`, `A2CLoss`" if self.loss.group is None else "`MAPPOLoss`, `IPPOLoss`"
        help = f"take a loss that weighs several actions by their log-probability: {weighing}"
        if not others:
            message += f", {shown(action)}"
            choices = list(choices_of(action.spec))
            if kind in ("index", "onehot"):
                help = "take `DQNLoss`, whose action is one choice"
            elif not choices:
                help = "take a loss for actions that are numbers: `SACLoss`, `TD3Loss`, `DDPGLoss`"
                help += "; or let it choose an interval for each, by `ActionDiscretizer: {num_intervals: 11}` in the chain"
            elif self.env.gymnasium:
                help = f"register the environment in a `gymnasium.ActionWrapper` of yours, whose `action_space` is MultiDiscrete({choices})"
            else:
                help = f"declare choices of two, `multi_categorical({', '.join(map(str, choices))})`"
        notes = [Note("the environment", self.env.span)]
        self.sink.add(action_rules.ONE_ACTION.at(span, message, notes=notes, help=help))
        return True

    def _takes_one_action(self) -> bool:
        """Whether the loss takes one action, and there are several, which is reported once for the loss."""
        several = self.env.actions if self.env.chat is None else ()
        vector = any(one.name == "action" and one.type is not None for one in self.loss.loss.roles)
        distance = self.loss.arguments.get("loss_function")
        about = (
            role.name
            for role in self.loss.loss.networks
            if (self._is_of_one_action(role) and not role.choices)
            or (role.policy and vector and not (role.certain and distance in (None, "cross_entropy")))
        )
        name = next((self.declared[one] for one in about if one in self.declared), None)
        kinds = {support_of(one.spec) for one in several}
        at_once = len(several) == 1 and kinds <= {*SEVERAL}
        if name is None or not (len(several) > 1 or at_once):
            return False
        listed = " and ".join(f"`{one.dotted}`" for one in several)
        message = f"`{self.loss.loss.name}` takes one action, and `{self.env.name}` has {listed}"
        if at_once:
            message = f"`{self.loss.loss.name}` takes one action, and {listed} is several at once, {shown(several[0])}"
        notes = [Note("the environment", self.env.span)]
        weighing = "`ClipPPOLoss`, `A2CLoss`, `ReinforceLoss`, `BCLoss` without `loss_function`"
        if self.loss.group is not None:
            weighing = "`MAPPOLoss`, `IPPOLoss`"  # others are refused for a group
        help = f"take a loss that weighs them by their log-probability: {weighing}"
        if at_once and kinds <= _SEVERAL_CLASSES:
            help += "; or `BranchingDQNLoss`, which values each choice"
        combinations = math.prod(n for one in several for n in choices_of(one.spec))
        if kinds <= {"bounded", "unbounded"}:
            size = sum(math.prod(one.stored_shape) for one in several)
            help += f"; or declare one vector, `float32[{size}]`"
        elif kinds <= {"index", "onehot", *SEVERAL} and combinations <= _MANY:
            help += "; or " + self._as_one_choice(combinations)
            if any("action" in (*role.reads, *role.inputs) for role in self.loss.loss.networks):
                help += ", and take `DQNLoss` or `DiscreteSACLoss`"
        span = self.file.key_span(*self.path, "networks", name)
        self.sink.add(action_rules.ONE_ACTION.at(span, message, notes=notes, help=help))
        return True

    def _chooses_for_sure(self) -> bool:
        """Whether a policy without a distribution is to act by one of finitely many, which is reported once for the loss."""
        roles = self.loss.loss.networks
        sure = (role.name for role in roles if self.gives_action(role) and not role.policy)
        name = next((self.declared[role] for role in sure if role in self.declared), None)
        if name is None or len(self.env.actions) != 1:
            return False
        (action,) = self.env.actions
        if support_of(action.spec) not in ("index", "onehot"):
            return False
        message = f"`{name}` gives actions that are numbers, and `{action.dotted}` is one of {action.spec.n}"
        help = "take a loss for actions of a finite set: `DQNLoss`, `DiscreteSACLoss`"
        span = self.file.key_span(*self.path, "networks", name)
        self.sink.add(rules.DISTRIBUTION.at(span, message, help=help))
        return True

    def _as_one_choice(self, combinations: int) -> str:
        """What makes one choice of all combinations of several."""
        if self.env.gymnasium:
            return f"register the environment in a `gymnasium.ActionWrapper` of yours, whose `action_space` is Discrete({combinations}), of all combinations"
        return f"declare one set of all combinations, `categorical({combinations})`"

    def gives_action(self, role: LossNetwork) -> bool:
        """Whether a network gives an action for sure."""
        actions = {entry.key for entry in self.env.actions} | {self.env.action_key}
        return any(one.key in actions for one in self.loss.loss.roles if one.name == role.output)

    def _is_there(self, name: str) -> bool:
        """Whether there is an action that a network may be about; reported where not."""
        if not self.env.actions:
            span = self.file.key_span(*self.path, "networks", name)
            who = self.env.name if self.loss.group is None else self.loss.group.name
            self.sink.add(rules.NETWORK.at(span, f"`{who}` takes no action that `{name}` could be about"))
        return bool(self.env.actions)

    def _report_actions_apart(self, name: str) -> None:
        """Report several actions that nothing holds together."""
        group = "" if self.loss.group is None else f"{self.loss.group.name}."
        listed = " and ".join(f"`{one.dotted}`" for one in self.env.actions)
        message = f"`{name}` chooses {listed}, and nothing holds them together"
        keys = [f"`{group}action.{one.dotted.removeprefix(group)}`" for one in self.env.actions]
        notes = [Note("the environment", self.env.span)]
        span = self.file.key_span(*self.path, "networks", name)
        help = f"call them {' and '.join(keys)}"
        self.sink.add(action_rules.APART.at(span, message, notes=notes, help=help))


def _is_flat(action: Entry) -> bool:
    """Whether an action is a vector of numbers, of choices or of bits, or one choice."""
    support = support_of(action.spec)
    discrete = support in ("index", "onehot", *SEVERAL)
    return discrete or (support is not None and len(action.stored_shape) == 1)


def _flattening(action: Entry) -> str | None:
    """The transform by which a policy writes an action in a row; None where it has one axis, or choices of several kinds."""
    spec = action.spec
    classes = 1 if spec.kind == "onehot" else 0
    first, last = -len(action.stored_shape), -1 - classes
    if last - first < 1 or spec.kind in ("multi_categorical", "multi_onehot"):
        return None
    words = {"first_dim": first, "last_dim": last} if (first, last) != (-2, -1) else {}
    said = [f"{name}: {value}" for name, value in words.items()]
    said += [f"in_keys_inv: [{action.dotted}]"] if action.dotted != "action" else []
    return f"`{{FlattenAction: {{{', '.join(said)}}}}}`" if said else "`FlattenAction`"
