"""Whether the episodes of an environment fit what a pipeline makes of them."""

from __future__ import annotations

import math

from specgen.check.chains.model import CheckedChain, Instance
from specgen.check.model import CheckedEnv, Entry, dotted
from specgen.check.pipelines.acting import widths
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.heads_model import PolicyHead, QValueHead, action_keys
from specgen.check.pipelines.limits_model import Limits
from specgen.check.pipelines.model import Acting, PipelineLoss, PipelineNetwork
from specgen.check.pipelines.policies import shown
from specgen.diagnostics import Note, Sink
from specgen.diagnostics.rules import pipeline_episodes as episode_rules
from specgen.diagnostics.rules import pipeline_numbers as number_rules
from specgen.diagnostics.rules import pipeline_rewards as reward_rules
from specgen.expr import tree

AnyEnv = CheckedEnv | CheckedChain


def check_episodes(
    env: PipelineEnv, declared: AnyEnv, losses: tuple[PipelineLoss, ...], limits: Limits, sink: Sink
) -> None:
    """Report episodes that never end, and returns of other rewards.

    Args:
        env: the environment of evaluations.
        declared: its declaration.
        losses: the losses, with their value estimators.
        limits: when the training ends.
        sink: takes every mistake.
    """
    if not _may_set(declared, ("terminated", "truncated", "done")):
        message = f"nothing ends an episode of `{env.name}`: no `terminated`, no `truncated`"
        help = "put it into a chain with `{StepCounter: {max_steps: 200}}`, of specgen_std/transforms/step_counter"
        sink.add(episode_rules.NEVER_ENDS.at(env.span, message, help=help))
    elif not _may_set(declared, ("terminated", "done")):
        _check_discount(env, losses, sink)
    check_returns(env, declared, limits, sink)


def _check_discount(env: PipelineEnv, losses: tuple[PipelineLoss, ...], sink: Sink) -> None:
    found = (loss.estimation.settings.get("gamma") for loss in losses if loss.estimation is not None)
    gamma = next((one for one in found if one is not None), None)
    if gamma is not None and gamma.default == 1:
        message = f"no state of `{env.name}` is terminal, and `gamma` is 1: values have no limit"
        notes = [Note("the environment", env.span)]
        sink.add(
            episode_rules.ENDLESS_VALUES.at(gamma.span, message, notes=notes, help="write `gamma: 0.99`")
        )


def check_returns(env: PipelineEnv, declared: AnyEnv, limits: Limits | None, sink: Sink) -> None:
    """Report returns of other rewards than those of the environment.

    Args:
        env: an environment of the pipeline.
        declared: its declaration.
        limits: when the training ends, if its evaluations decide; None where only the log has its returns.
        sink: takes every mistake.
    """
    one = _changes_rewards(_instances(declared))
    if one is None:
        return
    message = f"{one.described(declared.name)}, changes the rewards that are summed"
    help = "sum before it: `RewardSum` in front, and `allow: [SG311]` on the chain"
    if limits is not None and limits.stop_return is not None:
        notes = [Note("the environment", env.span)]
        sink.add(episode_rules.SCALED_RETURN.at(limits.stop_return.span, message, notes=notes, help=help))
        return
    said = ["so are the returns that the log has of them"]
    sink.add(reward_rules.LOGGED_RETURN.at(env.span, message, notes=said, help=help))


def _changes_rewards(instances: tuple[Instance, ...]) -> Instance | None:
    """The first transform that makes another reward of one before it is summed; sums of repeated steps are none."""
    for one in instances:
        for entry in _written(one):
            before = one.entries.get(entry.dotted)
            if entry.key[-1] != "reward" or before is None or before.type != entry.type:
                continue
            summed = (*entry.key[:-1], "episode_reward")
            sums = [each.position for each in instances if any(to.key == summed for to in _written(each))]
            if one.transform.around is None and (not sums or one.position < sums[-1]):
                return one
    return None


def _written(one: Instance) -> list[Entry]:
    return [entry for row in one.rows for entry in row.outputs.values()]


def check_target_entropy(losses: tuple[PipelineLoss, ...], acting: Acting, sink: Sink) -> None:
    """Report an entropy that no policy over these actions has."""
    found = (loss.settings.get("target_entropy") for loss in losses)
    wanted = next((one for one in found if one is not None), None)
    head = acting.networks[0].head
    action = head.only.action if isinstance(head, PolicyHead) and head.only is not None else None
    action = head.action if isinstance(head, QValueHead) else action
    if wanted is None or action is None:
        return
    spec = action.spec
    if spec.kind in ("categorical", "onehot") and not spec.shape:
        largest, what = math.log(spec.classes), f"{spec.classes} actions"
    elif spec.kind == "bounded":
        found_widths = list(widths(spec.low, spec.high))
        count = math.prod(action.type.shape)
        logarithms = [math.log(width) for width in found_widths if width > 0]
        largest = logarithms[0] * count if len(logarithms) == 1 else sum(logarithms)
        what = f"`{action.dotted}`, between its bounds"
    else:
        return
    if wanted.default > largest:
        message = (
            f"`target_entropy` is {wanted.default:g}, and the largest entropy of {what} is {largest:.3g}"
        )
        sink.add(
            number_rules.TARGET_ENTROPY.at(wanted.span, message, help="leave it out, or write a smaller one")
        )


def check_evaluation(env: PipelineEnv, other: PipelineEnv, acting: Acting, sink: Sink) -> None:
    """Report an environment of evaluations that gives the policy something else than that of the training.

    Args:
        env: the environment of the training.
        other: that of evaluations.
        acting: who acts.
        sink: takes every mistake.
    """
    notes = [Note("the environment of the training", env.span)]
    mine, its = (None if one.chat is None else one.chat.input for one in (env, other))
    if mine != its:
        what = {None: "numbers", "history": "conversations", "text": "conversations as texts"}
        unlike = f"`{env.name}` observes {what[mine]}, and `{other.name}` {what[its]}"
        help = f"evaluate in an environment of {what[mine]}"
        sink.add(episode_rules.OTHER_ENV.at(other.span, unlike, notes=notes, help=help))
        return
    for network in acting.networks:
        message = _difference(env, other, network)
        if message is not None:
            help = f"evaluate in a chain with the transforms of `{env.name}`"
            sink.add(episode_rules.OTHER_ENV.at(other.span, message, notes=notes, help=help))
            return


def _difference(env: PipelineEnv, other: PipelineEnv, network: PipelineNetwork) -> str | None:
    """What a policy would not find in another environment; None where it finds all."""
    head = network.head
    read = [entry.dotted for entry in network.layers.reads]
    if isinstance(head, PolicyHead | QValueHead):
        read += map(dotted, head.masks)
    for key in read:
        mine, its = env.entries.get(key), other.entries.get(key)
        if mine is not None and its is None:
            return f"`{network.name}` reads `{key}`, which `{other.name}` does not give"
        if mine is not None and its is not None and mine.type != its.type:
            return f"`{key}` is {its.type} in `{other.name}`, and {mine.type} in `{env.name}`"
    for action in map(dotted, action_keys(head)):
        wanted, found = ({one.dotted: one for one in each.actions} for each in (env, other))
        if action in wanted and (action not in found or found[action].spec != wanted[action].spec):
            what = f"takes {shown(found[action])}" if action in found else "has none"
            return f"`{action}` is {shown(wanted[action])}, and `{other.name}` {what}"
    return None


def _instances(declared: AnyEnv) -> tuple[Instance, ...]:
    return declared.instances if isinstance(declared, CheckedChain) else ()


def _may_set(declared: AnyEnv, flags: tuple[str, ...]) -> bool:
    """Whether something may set one of these flags; what is not written in the language may."""
    base = declared.env.value if isinstance(declared, CheckedChain) else declared
    if base.gymnasium is not None or base.python is not None or base.chat is not None:
        return True
    for statement in base.step:
        never = isinstance(statement.expr, tree.Literal) and statement.expr.value is False
        if statement.target.rpartition(".")[2] in flags and not never:
            return True
    return any(
        entry.key[-1] in flags and (one.derives_done or entry.key[-1] == "done")
        for one in _instances(declared)
        for entry in _written(one)
    )
