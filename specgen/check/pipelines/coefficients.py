"""Numbers of a loss that are several: a pair, or one for each of several actions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from specgen.check.losses.model import CheckedLoss
from specgen.check.losses.numbers import CoefficientPart
from specgen.check.model import Parameter, dotted
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.heads_model import PolicyHead
from specgen.check.pipelines.loss_conditions import LossConditions
from specgen.check.pipelines.model import Amount, PipelineNetwork, Setting
from specgen.check.pipelines.numbers import Numbers, fact_of
from specgen.check.pipelines.reader import PipelineContext
from specgen.diagnostics import Note, suggestion
from specgen.diagnostics.rules import pipeline_actions as rules
from specgen.expr.symbols import Key
from specgen.source import Mapping as MappingNode
from specgen.source import Sequence as SequenceNode
from specgen.values import replace


def weighs_actions(loss: CheckedLoss, param: str) -> bool:
    """Whether a parameter may be a number for each of several actions."""
    return param in loss.coefficients and loss.coefficients[param].by_part


def help_with_action(said: str, names: Mapping[str, Key], around: Key) -> str:
    """What to say where something is said of an action that there is not.

    Args:
        said: what is no name of an action.
        names: what may be said instead, the names of actions below what holds them.
        around: the key of what holds them.
    """
    whole = next((name for name in names if f".{dotted(around)}.{name}".endswith(f".{said}")), None)
    if whole is not None:
        return f"write `{whole}`, its name below `{dotted(around)}`"
    return suggestion(said, names) or f"the actions are {' and '.join(f'`{name}`' for name in names)}"


def parts_of(loss: CheckedLoss, param: str) -> tuple[CoefficientPart, ...]:
    """The parts of a parameter that is a number or a pair."""
    return loss.coefficients[param].parts if param in loss.coefficients else ()


def numbers_of_pair(
    owner: str, loss: CheckedLoss, place: tuple[str, ...], name: str, param: Parameter, numbers: Numbers
) -> Iterator[Setting]:
    """The numbers of a pair, each a hyper-parameter with the limits of its part."""
    for index, part in enumerate(parts_of(loss, name)):
        usual = fact_of(param, nonzero=False)
        doc = f"{usual.doc.rstrip('.')}: {part.name}"
        fact = replace(usual, name=f"{name}_{part.name}", doc=doc, range=part.range, called=name)
        fact = fact.of(owner) if owner else fact
        setting = numbers.setting(*place[2:], name, index, owner=owner or "loss", fact=fact)
        if setting is not None:
            yield setting


def numbers_of_actions(
    context: PipelineContext,
    place: tuple[str, ...],
    node: MappingNode | SequenceNode,
    param: Parameter,
    env: PipelineEnv,
    owner: str,
    *,
    changing: bool,
) -> dict[Key, Amount] | None:
    """The hyper-parameters of a mapping from actions to numbers, in the order of the actions; None after a mistake.

    Args:
        context: what all readers of the pipeline are given.
        place: where it stands.
        node: the mapping; a list is a mistake.
        param: the parameter of the loss.
        env: the environment, as the agent sees it that the loss is of.
        owner: the name of the loss; empty for the only one.
        changing: whether the loss reads the parameter at each call, so that it may have schedules.
    """
    file, numbers, sink = context.file, context.numbers, context.sink
    notes = [Note("the environment", env.span)]
    if len(env.actions) < 2 or env.action_key is None:
        if env.action_key is None:
            return None  # which is reported where the policy is read
        message = f"`{env.name}` has one action, `{dotted(env.action_key)}`, which one number weighs"
        help = f"write `{param.name}: 0.01`"
        sink.add(rules.WHICH_ACTION.at(file.span(*place), message, notes=notes, help=help))
        return None
    keys = {dotted(one.key[len(env.action_key) :]): one.key[len(env.action_key) :] for one in env.actions}
    if isinstance(node, SequenceNode):
        message = f"`{param.name}` of several actions says of which action each number is"
        help = f"write `{param.name}: {{{', '.join(f'{one}: …' for one in keys)}}}`"
        sink.add(rules.WHICH_ACTION.at(node.span, message, notes=notes, help=help))
        return None
    said = [key for key, _ in node.entries]
    wrong = [key for key in said if key.text not in keys]
    for key in wrong:
        help = help_with_action(key.text, keys, env.action_key)
        message = f"`{env.name}` has no action `{key.text}` below `{dotted(env.action_key)}`"
        sink.add(rules.WHICH_ACTION.at(key.span, message, notes=notes, help=help))
    lacking = [name for name in keys if name not in {key.text for key in said}]
    if lacking and not wrong:
        listed = " and ".join(f"`{name}`" for name in lacking)
        message = f"`{param.name}` has a number for each action, and none for {listed}"
        help = f"write `{lacking[0]}: 0.0` for none of it"
        sink.add(rules.WHICH_ACTION.at(file.key_span(*place), message, notes=notes, help=help))
    if wrong or lacking:
        return None
    found: dict[Key, Amount] = {}
    for name, below in keys.items():
        usual = fact_of(param, nonzero=False)
        called = f"{param.name}_{name.replace('.', '_')}"
        doc = f"`{param.name}` of `{dotted((*env.action_key, *below))}`"
        fact = replace(usual, name=called, doc=doc, called=param.name, scheduled=changing)
        fact = fact.of(owner) if owner else fact
        amount = numbers.amount(*place[2:], name, owner=owner or "loss", fact=fact)
        if amount is not None:
            found[below] = amount
    return found if len(found) == len(keys) else None


def metrics_of_parts(
    loss: CheckedLoss, networks: Sequence[PipelineNetwork], taken: Collection[str], conditions: LossConditions
) -> dict[str, tuple[Key, Key]]:
    """The metrics of each of several actions, as the log calls them: the entry of the loss, and that of the action in it.

    Args:
        loss: the loss.
        networks: its networks, one of which is over the actions.
        taken: what else the log has of it.
        conditions: what its conditions are.
    """
    head = next((one.head for one in networks if isinstance(one.head, PolicyHead)), None)
    made: dict[str, tuple[Key, Key]] = {}
    if head is None or head.only is not None:
        return made
    for metric, entry in loss.by_part.items():
        if not conditions.holds(loss.when.get(metric)):
            continue
        for one in head.actions:
            name = entry.replace("{}", "_".join(head.name_of(one)))
            name = f"{metric}_{'_'.join(head.name_of(one))}" if name in taken or name in made else name
            made[name] = (metric,), (*one.action.key[:-1], entry.replace("{}", one.action.key[-1]))
    return made
