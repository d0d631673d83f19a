"""The parts that every pipeline has."""

from __future__ import annotations

from specgen.check.pipelines.reader import PipelineContext
from specgen.diagnostics.rules import pipelines as rules

_PARTS = {
    "env": "write `env: CartPoleTrain`",
    "loss": "write `loss: {DQNLoss: {}}`",
    "data": "write `data: {replay: {capacity: 100_000, batch_size: 128}}`",
    "optimizer": "write `optimizer: {adam: {lr: 3.0e-4}}`",
    "stop": "write `stop: {frames: 200_000}`",
}

_OF_CONVERSATIONS = {
    "env": "write `env: …`, with an environment of conversations or a chain around one",
    "loss": "write `loss: {GRPOLoss: {}}`",
    "data": "write `data: {on_policy: {num_envs: 64}}`",
    "optimizer": "write `optimizer: {adamw: {lr: 1.0e-6}}`",
    "stop": "write `stop: {frames: 64_000}`",
}

_OF_RECORDED_CONVERSATIONS = {
    **_OF_CONVERSATIONS,
    "env": "write `evaluate: {env: …}`, with an environment of conversations that evaluations ask",
    "data": 'write `data: {recorded: {conversations: "package.module:function", batch_size: 16}}`',
    "stop": "write `stop: {updates: 2_000}`",
}


def check_parts(context: PipelineContext, *, has_env: bool, talks: bool, imitates: bool) -> bool:
    """Report the parts that a pipeline lacks; whether all are there.

    Args:
        context: what all readers of the pipeline are given.
        has_env: whether it names an environment, be it that of evaluations.
        talks: whether a language model is one of its networks.
        imitates: whether that learns from recorded conversations.
    """
    file, path, pipeline = context.file, context.path, context.pipeline
    helps = _OF_RECORDED_CONVERSATIONS if imitates else _OF_CONVERSATIONS if talks else _PARTS
    missing = [name for name in _PARTS if getattr(pipeline, name) is None and not (name == "env" and has_env)]
    for name in missing:
        what = "`env` of evaluations" if name == "env" and imitates else f"`{name}`"
        message, help = f"`{path[-1]}` says no {what}", helps[name]
        here = [*file.module.chains, *file.module.envs]
        if name == "env" and helps is _PARTS and here:
            help = f"write `env: {here[0]}`"
        context.sink.add(rules.MISSING_PART.at(file.key_span(*path), message, help=help))
    return not missing
