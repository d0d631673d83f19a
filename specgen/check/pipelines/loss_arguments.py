"""What a pipeline names as its losses: their classes, the keys of what they read, and the arguments that they are given."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from specgen.check.losses.model import CheckedLoss, LossRole
from specgen.check.losses.updates import NEXT
from specgen.check.model import REQUIRED, AgentGroup, Parameter, dotted
from specgen.check.names import Names
from specgen.check.param_arguments import check_argument
from specgen.check.pipelines.coefficients import (
    numbers_of_actions,
    numbers_of_pair,
    parts_of,
    weighs_actions,
)
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.loss_conditions import LossConditions, asked_numbers
from specgen.check.pipelines.meant_by_arguments import meant_by_argument
from specgen.check.pipelines.model import Amount, Setting
from specgen.check.pipelines.numbers import fact_of
from specgen.check.pipelines.reader import PartReader, PipelineContext
from specgen.check.pipelines.teams import mixes_values, of_team
from specgen.check.unseen import unseen
from specgen.diagnostics.rules import pipelines as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import Typed
from specgen.expr.symbols import Key
from specgen.schema.load import find
from specgen.schema.other_names import meant_fields
from specgen.schema.pipeline import names_losses
from specgen.source import Mapping as MappingNode
from specgen.source import Scalar
from specgen.source import Sequence as SequenceNode
from specgen.values import dataclass, replace


@dataclass(frozen=True)
class LossArguments:
    """What a pipeline gives its loss besides networks.

    Attributes:
        name: its name; empty for the only one.
        group: the agents that it is of, those of the group that it is named like.
        loss: the loss, with the keys that its roles have in this pipeline.
        keys: those of them that are not the loss's own, by what `set_keys` calls the roles.
        settings: numbers, by keyword.
        schedules: those that change in training, by keyword.
        pairs: pairs of numbers, by keyword.
        by_action: numbers for each of several actions, by keyword and the key of the action below what holds all of them.
        arguments: other values, by keyword.
        values: the value of every parameter of the loss.
        place: where they stand.
    """

    name: str
    group: AgentGroup | None
    loss: CheckedLoss
    keys: dict[str, Key]
    settings: dict[str, Setting]
    schedules: dict[str, Amount]
    pairs: dict[str, tuple[Setting, ...]]
    by_action: dict[str, dict[Key, Amount]]
    arguments: dict[str, object]
    values: dict[str, object]
    place: tuple[str, ...]

    def conditions(self, networks: Collection[str]) -> LossConditions:
        """What the conditions of the loss are with these."""
        return LossConditions(self.loss, self.values, networks)


class LossReader(PartReader):
    """Reads the losses of a pipeline, with what they are given besides networks.

    Args:
        context: what all readers are given.
        env: the environment of the training; None if it has mistakes.
    """

    def __init__(self, context: PipelineContext, env: PipelineEnv | None) -> None:
        super().__init__(context)
        self.env = env

    def losses(self) -> tuple[LossArguments, ...] | None:
        """The losses with their arguments; None where one is none, or has mistakes itself."""
        place = (*self.path, "loss")
        node = self.file.node(*place)
        assert isinstance(node, MappingNode)
        if not names_losses(key.text for key, _ in node.entries):
            found = [("", place)]
        else:
            found = [(key.text, (*place, key.text)) for key, _ in node.entries]
        made = [self._loss(name, here) for name, here in found]
        complete = tuple(one for one in made if one is not None)
        return complete if len(complete) == len(made) else None

    def _loss(self, name: str, place: tuple[str, ...]) -> LossArguments | None:
        """The loss at a place, which is that of its only class."""
        node = self.file.node(*place)
        named = node.entries if isinstance(node, MappingNode) else ()
        if len(named) != 1:
            message = "a loss is of one class, and this one names none"
            help = "name it: `{ClipPPOLoss: {}}`"
            if named:
                message = (
                    f"a loss is of one class, this one names {', '.join(f'`{key.text}`' for key, _ in named)}"
                )
                help = "give several losses names: `{agent: {ClipPPOLoss: {}}, bonus: {RNDLoss: {}}}`"
            self.sink.add(rules.CHOICE.at(node.span, message, help=help))
            return None
        key, value = named[0]
        if not isinstance(value, MappingNode):
            message, help = f"arguments of `{key.text}` should be a mapping", f"write `{{{key.text}: {{}}}}`"
            self.sink.add(schema_rules.WRONG_TYPE.at(value.span, message, help=help))
            return None
        env, visible = self.env, self.scopes.at(key.span)
        if key.text not in visible.losses:
            if key.text not in visible.declared_losses:
                self.sink.add(unseen("loss", key.text, ("losses",), visible.declared_losses, key.span))
            return None
        if name and not Names(self.sink).claim(name, "loss", self.file.key_span(*place)):
            return None
        loss = visible.losses[key.text].value
        group = None if env is None else next((one for one in env.groups if one.name == name), None)
        keys: dict[str, Key] = {}
        if group is not None and env is not None:
            loss, keys = of_group(loss, group, env)
        elif (
            env is not None and env.chat is None
        ):  # losses over conversations say which tokens are the action
            loss, keys = _of_action(loss, env)
        seen = None if env is None else env.of_agent(group)
        return self._arguments(name, (*place, key.text), loss, keys, group, seen)

    def _arguments(
        self,
        name: str,
        place: tuple[str, ...],
        loss: CheckedLoss,
        keys: dict[str, Key],
        group: AgentGroup | None,
        env: PipelineEnv | None,
    ) -> LossArguments:
        """What is given to a loss at a place; `env` is what the agents of its group see of the environment."""
        params = {param.name: param for param in loss.params if param.name not in loss.fixed}
        values = {param.name: _default(param) for param in loss.params}
        made = LossArguments(name, group, loss, keys, {}, {}, {}, {}, {}, values, place)
        changing = frozenset(may_change(loss))
        asked = {name for condition in loss.when.values() for name in asked_numbers(condition)}
        node = find(self.file.root, place)
        written = node.entries if isinstance(node, MappingNode) else ()
        for key, value in written:
            param = params.get(key.text)
            if param is None:
                help = meant_by_argument(loss, key.text, params, self.file, place)
                message = f"`{loss.name}` has no argument `{key.text}`"
                self.sink.add(schema_rules.UNKNOWN_FIELD.at(key.span, message, help=help))
            elif _is_number(param, value):
                nonzero = key.text in asked and not (isinstance(value, Scalar) and value.value == 0)
                here = place[2:]
                fact = fact_of(param, nonzero=nonzero)
                if parts := parts_of(loss, key.text):  # one number is both
                    bounds = dict.fromkeys(bound for one in parts for bound in one.range)
                    fact = replace(fact, range=tuple(bounds))
                fact = fact.of(name) if name and not fact.shared else fact
                if key.text in changing:
                    fact = replace(fact, scheduled=True)
                amount = self.numbers.amount(*here, key.text, owner=name or "loss", fact=fact)
                if amount is None:
                    continue
                setting = amount.setting
                if amount.schedule is not None:
                    made.schedules[key.text] = amount
                made.values[key.text] = setting.default
                if key.text in asked and setting.default == 0:
                    made.arguments[key.text] = setting.default  # it decides which terms there are
                    self.numbers.settings.pop(setting.name, None)
                else:
                    made.settings[key.text] = setting
            elif isinstance(value, SequenceNode) and len(value.items) == len(parts_of(loss, key.text)):
                pair = tuple(numbers_of_pair(name, loss, place, key.text, param, self.numbers))
                made.pairs[key.text] = pair
                made.values[key.text] = tuple(one.default for one in pair)
            elif isinstance(value, MappingNode | SequenceNode) and weighs_actions(loss, key.text):
                if env is None:
                    continue  # its own mistakes are reported
                here = (*place, key.text)
                changes = key.text in changing
                found = numbers_of_actions(self.context, here, value, param, env, name, changing=changes)
                if found is not None:
                    made.by_action[key.text] = found
            elif not self.numbers.refuses(value):
                argument = check_argument(param, value, loss.name, self.sink)
                made.arguments[key.text] = made.values[key.text] = argument
        misspelt = meant_fields((key.text for key, _ in written), params)
        for name, param in params.items():
            if param.required and name not in made.values and name not in misspelt:
                message = f"`{loss.name}` needs `{name}`"
                help = f"write `{loss.name}: {{{name}: …}}`"
                self.sink.add(schema_rules.MISSING_FIELD.at(self.file.key_span(*place), message, help=help))
        return made


def _of_action(loss: CheckedLoss, env: PipelineEnv) -> tuple[CheckedLoss, dict[str, Key]]:
    """The loss with the key of an environment's action, or of what holds several, and that key if it is not the loss's own."""
    key = env.action_key
    named = [role for role in loss.roles if role.name == "action" and role.key != key]
    if key is None or not named:
        return loss, {}
    found = {role.accepted: key for role in named}
    return replace(loss, roles=_with_keys(loss, found)), found


def _with_keys(loss: CheckedLoss, keys: Mapping[str, Key]) -> tuple[LossRole, ...]:
    return tuple(replace(role, key=keys.get(role.accepted, role.key)) for role in loss.roles)


def of_group(loss: CheckedLoss, group: AgentGroup, env: PipelineEnv) -> tuple[CheckedLoss, dict[str, Key]]:
    """The loss with the keys of a group, and those of its keys that are not its own.

    All stands below the group's name, but for flags and rewards that the environment gives for all together, and for the
    weight of a frame, which a sampler gives. A loss that mixes the values of the group's agents has rewards, flags and a
    value of all together.
    """
    if mixes_values(loss):
        made, named = of_team(loss, group)
        return replace(made, roles=_with_keys(made, named)), named
    keys: dict[str, Key] = {}
    for role in loss.roles:
        below = (group.name, *role.key)
        root = env.entries.get(dotted(role.key))
        of_all = root is not None and root.role in ("done", "reward") and dotted(below) not in env.entries
        if not of_all and role.name != "priority_weight":
            keys[role.accepted] = below
    return replace(loss, roles=_with_keys(loss, keys)), keys


def may_change(loss: CheckedLoss) -> Iterator[str]:
    """The numbers of a loss that it reads at each call, and neither learns from then on nor changes itself."""
    read = {name for one in (*loss.let, *loss.terms, *loss.metrics) for name in one.reads}
    own = {
        name for one in loss.learnables for value in (one.init, one.low, one.high) for name in _names(value)
    }
    own |= {one.target.removeprefix(NEXT) for one in loss.update}
    for one in loss.param_reads:
        if one.param.kind in ("float", "float64") and one.symbol.name in read - own and not one.late:
            yield one.param.name


def _names(value: Typed | None) -> Iterator[str]:
    return iter(()) if value is None else (symbol.name for symbol in value.symbols_read)


def _default(param: Parameter) -> object:
    return None if param.default is REQUIRED else param.default


def _is_number(param: Parameter, node: object) -> bool:
    """Whether an argument is a hyper-parameter: a number, the name of one, or a schedule."""
    if param.kind not in ("float", "int", "float64") or not isinstance(node, Scalar):
        return False
    return not isinstance(node.value, bool) and not (param.optional and node.value == "null")
