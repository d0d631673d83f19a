"""Whether the episodes of an environment fit what a pipeline makes of them."""

from __future__ import annotations

import math

from specgen.check.chains.model import CheckedChain, Instance
from specgen.check.model import CheckedEnv
from specgen.check.pipelines.acting import widths
from specgen.check.pipelines.model import (
    Acting,
    Estimation,
    Limits,
    PipelineEnv,
    PipelineLoss,
    PolicyHead,
    QValueHead,
)
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import pipeline_episodes as episode_rules
from specgen.diagnostics.rules import pipeline_numbers as number_rules
from specgen.expr import tree

AnyEnv = CheckedEnv | CheckedChain


def check_episodes(
    env: PipelineEnv, declared: AnyEnv, estimation: Estimation | None, limits: Limits, sink: Sink
) -> None:
    """Report episodes that never end, statistics that evaluations lack, and returns of other rewards.

    Args:
        env: the environment of evaluations.
        declared: its declaration.
        estimation: the value estimator.
        limits: when the training ends.
        sink: takes every mistake.
    """
    if not _may_set(declared, ("terminated", "truncated", "done")):
        message = f"nothing ends an episode of `{env.name}`: no `terminated`, no `truncated`"
        help = "put it into a chain with `{StepCounter: {max_steps: 200}}`, of specgen_std/transforms/step_counter"
        sink.add(episode_rules.NEVER_ENDS.at(env.span, message, help=help))
    elif not _may_set(declared, ("terminated", "done")):
        _check_discount(env, estimation, sink)
    for instance in _instances(declared):
        if (
            instance.learns
            and instance.transform.learns != "at_reset"
            and _changes_more_than_rewards(instance)
        ):
            message = (
                f"`{instance.transform.name}`, {_place(instance)} of `{env.name}`, learns its statistics, and the "
                "environment of evaluations has others"
            )
            help = "take `ObservationNorm` with `loc` and `scale`, or normalise within the network: `layer_norm: true`"
            sink.add(episode_rules.OTHER_STATISTICS.at(env.span, message, help=help))
    if limits.stop_return is not None:
        _check_return(declared, limits.stop_return.span, env.span, sink)


def _check_discount(env: PipelineEnv, estimation: Estimation | None, sink: Sink) -> None:
    gamma = None if estimation is None else estimation.settings.get("gamma")
    if gamma is not None and gamma.default == 1:
        message = f"no state of `{env.name}` is terminal, and `gamma` is 1: values have no limit"
        notes = [Note("the environment", env.span)]
        sink.add(
            episode_rules.ENDLESS_VALUES.at(gamma.span, message, notes=notes, help="write `gamma: 0.99`")
        )


def _check_return(declared: AnyEnv, span: Span, env: Span, sink: Sink) -> None:
    instances = _instances(declared)
    sums = [
        index
        for index, one in enumerate(instances)
        if any(entry.key == ("episode_reward",) for row in one.rows for entry in row.outputs.values())
    ]
    before = instances[: sums[-1]] if sums else instances
    changed = [
        one
        for one in before
        if any(entry.key == ("reward",) for row in one.rows for entry in row.outputs.values())
    ]
    if changed:
        one = changed[0]
        message = (
            f"`{one.transform.name}`, {_place(one)} of `{declared.name}`, changes the rewards that are summed"
        )
        notes = [Note("the environment", env)]
        help = "sum before it: `RewardSum` in front, and `allow: [SG311]` on the chain"
        sink.add(episode_rules.SCALED_RETURN.at(span, message, notes=notes, help=help))


def check_target_entropy(loss: PipelineLoss, acting: Acting, sink: Sink) -> None:
    """Report an entropy that no policy over these actions has."""
    wanted = loss.settings.get("target_entropy")
    head = acting.network.head
    if wanted is None or not isinstance(head, PolicyHead | QValueHead):
        return
    spec = head.action.spec
    if spec.kind in ("categorical", "onehot"):
        largest, what = math.log(spec.classes), f"{spec.classes} actions"
    elif spec.kind == "bounded":
        found = list(widths(spec.low, spec.high))
        count = math.prod(head.action.type.shape)
        logarithms = [math.log(width) for width in found if width > 0]
        largest = logarithms[0] * count if len(logarithms) == 1 else sum(logarithms)
        what = f"`{head.action.dotted}`, between its bounds"
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
    head = acting.network.head
    read = [entry.dotted for entry in acting.network.inputs]
    if isinstance(head, PolicyHead | QValueHead) and head.mask is not None:
        read.append(".".join(head.mask))
    notes = [Note("the environment of the training", env.span)]
    for key in read:
        mine, its = env.entries.get(key), other.entries.get(key)
        if mine is None:
            continue
        if its is None:
            message = f"`{acting.network.name}` reads `{key}`, which `{other.name}` does not give"
        elif mine.type != its.type:
            message = f"`{key}` is {its.type} in `{other.name}`, and {mine.type} in `{env.name}`"
        else:
            continue
        help = f"evaluate in a chain with the transforms of `{env.name}`"
        sink.add(episode_rules.OTHER_ENV.at(other.span, message, notes=notes, help=help))
        return
    if isinstance(head, PolicyHead | QValueHead):
        its = next((entry for entry in other.actions if entry.key == head.action.key), None)
        if its is None or its.spec != head.action.spec:
            what = "has none" if its is None else f"takes {its.spec}"
            message = f"`{head.action.dotted}` is {head.action.spec}, and `{other.name}` {what}"
            sink.add(
                episode_rules.OTHER_ENV.at(
                    other.span, message, notes=notes, help="take an environment of the same actions"
                )
            )


def _instances(declared: AnyEnv) -> tuple[Instance, ...]:
    return declared.instances if isinstance(declared, CheckedChain) else ()


def _changes_more_than_rewards(instance: Instance) -> bool:
    return any(entry.role != "reward" for row in instance.rows for entry in row.outputs.values())


def _place(instance: Instance) -> str:
    return f"transforms[{instance.position}]"


def _may_set(declared: AnyEnv, flags: tuple[str, ...]) -> bool:
    """Whether something may set one of these flags; what is not written in the language may."""
    base = declared.env.value if isinstance(declared, CheckedChain) else declared
    if base.gymnasium is not None or base.python is not None:
        return True
    for statement in base.step:
        never = isinstance(statement.expr, tree.Literal) and statement.expr.value is False
        if statement.target.rpartition(".")[2] in flags and not never:
            return True
    return any(
        entry.key[-1] in flags and (one.derives_done or entry.key[-1] == "done")
        for one in _instances(declared)
        for row in one.rows
        for entry in row.outputs.values()
    )
