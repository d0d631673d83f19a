"""Chains: transforms bound to an environment's keys, in order, with every key and type checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from specgen.check.chains.args import Arguments, read_arguments
from specgen.check.chains.bind import Binder
from specgen.check.chains.inverse_bounds import warn_beyond_bounds
from specgen.check.chains.model import CheckedChain, Instance
from specgen.check.chains.networks import check_keywords
from specgen.check.chains.order import warn_order
from specgen.check.chains.params import chain_params
from specgen.check.chains.position import Position
from specgen.check.chains.rewards import check_rewards
from specgen.check.language_models.chain import ModelBinder, check_models
from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.language_models.transforms import MODEL_TRANSFORMS, ModelInstance
from specgen.check.lints.chains import lint_instance
from specgen.check.lints.time_limits import warn_of_late_limits
from specgen.check.model import Checked, CheckedEnv
from specgen.check.transforms.model import CheckedTransform
from specgen.check.unseen import unseen
from specgen.diagnostics import Diagnostic, Sink, Span
from specgen.diagnostics.rules import flow as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.diagnostics.rules import transform_language as language_rules
from specgen.diagnostics.rules import transforms_offline as offline_rules
from specgen.schema.load import SchemaFile

__all__ = ["CheckedChain", "check_chain"]


_BY_HAND = {
    "ModuleTransform": "declare a transform with what the module reads and writes, under `networks`: "
    "the module is a keyword of the chain then"
}
"""What to write for transforms of the runtime that no schema declares."""


def check_chain(
    file: SchemaFile,
    name: str,
    module: str,
    envs: Mapping[str, Checked[CheckedEnv]],
    transforms: Mapping[str, Checked[CheckedTransform]],
    models: Mapping[str, Checked[CheckedLanguageModel] | None],
    *,
    declared: tuple[Collection[str], Collection[str], Collection[str]],
    sink: Sink,
) -> Checked[CheckedChain] | None:
    """Check a chain.

    Args:
        file: where it is declared.
        name: its name under `chains:`.
        module: the generated module that it goes to, dotted.
        envs: the checked environments that it may name.
        transforms: the checked transforms that it may name.
        models: the language models that it may name; None for one with mistakes.
        declared: the names of all environments, transforms and chains in sight, those with mistakes included.
        sink: takes every mistake.
    """
    chain = file.module.chains[name]
    path = ("chains", name)
    if chain.env not in envs:
        span = file.span(*path, "env")
        if chain.env in declared[2]:
            message = f"`{chain.env}` is a chain, and a chain begins with an environment"
            advice = f"name the environment of `{chain.env}`, and its transforms in front of these"
            sink.add(schema_rules.UNKNOWN_DECLARATION.at(span, message, help=advice))
        elif chain.env not in declared[0]:
            sink.add(unseen("environment", chain.env, ("envs",), declared[0], span))
        return None
    mine = Sink()
    env = envs[chain.env]
    state = Position(name, env.value, file.span(*path, "env"), mine)
    binder = Binder(file, path, state, mine)
    instances: list[Instance] = []
    model_instances: list[ModelInstance] = []
    known = {kind: one.value for kind, one in transforms.items()}
    params = chain_params(file, path, chain, env.value, known, mine)
    complete = True
    for index, entry in enumerate(chain.transforms):
        kind = entry if isinstance(entry, str) else next(iter(entry), "")
        state.written_keys.begin()
        if not isinstance(entry, str) and len(entry) != 1:
            complete = False
            named = " and ".join(f"`{name}`" for name in entry) or "none"
            mine.add(
                rules.CHAIN_ENTRY.at(
                    file.span(*path, "transforms", index),
                    f"an entry names one transform, this one names {named}",
                    help="write each as an entry of its own"
                    if entry
                    else "write a name, or leave the entry out",
                )
            )
            continue
        place = ("transforms", index) if isinstance(entry, str) else ("transforms", index, kind)
        if kind in MODEL_TRANSFORMS:
            model_binder = ModelBinder(file, (*path, *place), MODEL_TRANSFORMS[kind], models, state, mine)
            found = model_binder.bind(index)
            binder.spans[index] = model_binder.here
            complete = complete and found is not None
            if found is not None:
                model_instances.append(found)
            continue
        if kind not in transforms:
            complete = False
            if kind not in declared[1]:
                where = (
                    file.span(*path, "transforms", index)
                    if isinstance(entry, str)
                    else file.key_span(*path, "transforms", index, kind)
                )
                if help := _BY_HAND.get(kind):
                    message = f"unknown transform `{kind}`"
                    mine.add(schema_rules.UNKNOWN_DECLARATION.at(where, message, help=help))
                else:
                    names = {*declared[1], *MODEL_TRANSFORMS}
                    mine.add(unseen("transform", kind, ("transforms",), names, where))
            continue
        name_span = (file.span if isinstance(entry, str) else file.key_span)(*path, *place)
        if refusal := _refusal(transforms[kind].value, name_span):
            complete = False
            mine.add(refusal)
            continue
        arguments = read_arguments(file, (*path, *place), transforms[kind].value, params, mine)
        if arguments is None:
            complete = False
        elif refusal := _ahead(transforms[kind].value, arguments):
            complete = False
            mine.add(refusal)
        elif complete:
            instance = binder.bind(index, transforms[kind].value, arguments, file.key_span(*path, *place))
            complete = not binder.refused
            if instance is not None:
                instances.append(instance)
                if not mine.has_errors:
                    lint_instance(instance, arguments.span, mine)
                    warn_beyond_bounds(instance, arguments.span, mine)
    binder.keys.report_missing_keys()
    binder.keys.warn_of_order()
    owners = {one.name: env.value.name for one in env.value.params} | dict.fromkeys(params.checked, name)
    check_keywords(instances, owners, binder.spans, mine)
    check_models(model_instances, instances, env.value, file.key_span(*path), mine)
    warn_order(instances, model_instances, binder.spans, mine)
    warn_of_late_limits(env.value, instances, binder.spans, mine)
    check_rewards(instances, env.value, state.entries, binder.spans, mine)
    if not any(entry.role == "reward" for entry in state.entries.values()) and state.env.reward:
        mine.add(
            language_rules.NO_REWARD_LEFT.at(
                file.span(*path, "transforms"), "every reward is dropped, and none is written in its place"
            )
        )
    sink.extend(mine.items)
    if mine.has_errors or not complete:
        return None
    return Checked(
        CheckedChain(
            name,
            module,
            " ".join(chain.doc.split()),
            env,
            tuple(instances),
            dict(state.entries),
            tuple(state.actions.values()),
            dict(state.masks),
            tuple(model_instances),
            tuple(params.checked.values()),
        )
    )


def _refusal(transform: CheckedTransform, span: Span) -> Diagnostic | None:
    """Why a transform can't stand in a chain; None for one that can."""
    if transform.recursion is not None:
        message = f"`{transform.name}` computes something of recorded data only"
        help = "leave it out of the chain, and call it on rollouts"
        return offline_rules.ONLY_OFFLINE.at(span, message, help=help)
    return None


def _ahead(transform: CheckedTransform, arguments: Arguments) -> Diagnostic | None:
    """What to say of a transform that replays recorded data from the end; None for any other."""
    param = transform.backward_param
    if param is None or not arguments.params[param]:
        return None
    message = f"`{transform.name}` with `{param}: true` computes something of recorded data only"
    help = f"leave `{param}` out here, and call the class on rollouts"
    return offline_rules.ONLY_OFFLINE.at(arguments.span(param), message, help=help)
