"""The environments of a training among its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from specgen.check.model import AgentGroup
from specgen.check.pipelines.data_model import RecordedData
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.layers_model import are_recurrent
from specgen.check.pipelines.model import CheckedPipeline
from specgen.code import Code, using
from specgen.literals import literal
from specgen.plan.pipelines.devices import device_of
from specgen.plan.pipelines.language_models import given_to

_STATISTICS = "statistics"
"""The variable for what makes environments that learn together."""


POLICY = using("nn.Module", "nn")
UPDATER = using("TargetNetUpdater", "TargetNetUpdater")
OPTIMIZER = using("torch.optim.Optimizer", "torch")


def made_part(name: str, value: Code, kind: Code | None = None) -> Code:
    """The statement that makes a part.

    Args:
        name: the part.
        value: what makes it.
        kind: its type, where a class that extends the parts may put another one of that type in its place.
    """
    if kind is None:
        return using(f"self.{name} = {value}", *value.uses)
    return using(f"self.{name}: {kind} = {value}", *value.uses, *kind.uses)


def data_type(pipeline: CheckedPipeline, env: PipelineEnv) -> Code:
    """The type of the data of an environment among the parts: that of its declaration, where nothing is added to these."""
    if lacks_beginnings(pipeline, env) or are_recurrent(pipeline.networks) or env.chat is not None:
        return using("Any", "Any")
    name = f"{env.name}Data"
    return using(name, name)


def _env_type(pipeline: CheckedPipeline, env: PipelineEnv) -> Code:
    data = data_type(pipeline, env)
    return using(f"EnvBase[{data}, Any]", *data.uses, "EnvBase", "Any")


def environments(pipeline: CheckedPipeline) -> Iterator[Code]:
    """The environments of the training and of evaluations."""
    data, limits = pipeline.data, pipeline.limits
    finish = _finish(pipeline)
    learns = bool(pipeline.env.learned)
    if learns:
        name = pipeline.env.name
        yield using(f"{_STATISTICS} = CommonStatistics({name})", "CommonStatistics", name)
    if not isinstance(data, RecordedData) and pipeline.workers is None:
        place = f"self.{device_of(pipeline, 'env')}"
        create = _STATISTICS if learns else pipeline.env.name
        made = _env(pipeline, pipeline.env, create, f"config.{data.num_envs.name}", place)
        yield made_part("env", finish(pipeline.env, made), _env_type(pipeline, pipeline.env))
        yield using('self.env.set_seed(stream(config.seed, "env"))', "stream")
    place = f"self.{device_of(pipeline, 'policy')}"
    create = f"{_STATISTICS}.frozen" if learns else pipeline.eval_env.name
    made = _env(pipeline, pipeline.eval_env, create, f"config.{limits.episodes.name}", place)
    yield made_part("eval_env", finish(pipeline.eval_env, made), _env_type(pipeline, pipeline.eval_env))


def _finish(pipeline: CheckedPipeline) -> Callable[[PipelineEnv, Code], Code]:
    """What an environment gets besides: the states of a recurrent policy, and what says where these, or noise, begin."""
    recurrent = are_recurrent(pipeline.networks)
    acting = "acting_" if pipeline.devices.apart else ""

    def finished(env: PipelineEnv, made: Code) -> Code:
        if lacks_beginnings(pipeline, env):
            made = using(
                f"TransformedEnv({made}, InitTracker())", *made.uses, "TransformedEnv", "InitTracker"
            )
        if recurrent:
            for network in pipeline.acting.networks:
                if are_recurrent([network]):
                    part = f"self.{acting}{network.attribute}"
                    made = using(f"with_primers({made}, {part})", *made.uses, "with_primers")
        return made

    return finished


def lacks_beginnings(pipeline: CheckedPipeline, env: PipelineEnv) -> bool:
    """Whether states of a policy, or noise, begin with episodes, and an environment does not say where these do."""
    noise = pipeline.acting.exploration
    kept = noise is not None and noise.kind in ("ornstein_uhlenbeck", "gsde")
    return (kept or are_recurrent(pipeline.networks)) and "is_init" not in env.entries


def _env(pipeline: CheckedPipeline, env: PipelineEnv, create: str, size: str, device: str) -> Code:
    """So many of an environment, as one."""
    name, words = env_words(env, create, size, device)
    used = [one for one in (name, create) if one in ("SerialEnv", env.name)]
    return using(f"{name}({', '.join((*given_to(pipeline, env), *words))})", *used)


def env_words(env: PipelineEnv, create: str, size: str, device: str) -> tuple[str, list[str]]:
    """What makes so many of an environment, and its arguments.

    Args:
        env: the environment.
        create: what makes one, or a batch: its class, or what makes it with statistics that others have, too.
        size: how many.
        device: where.
    """
    values = {name: literal(value) for name, value in env.arguments.items()}
    values |= {name: f"config.{one.name}" for name, one in env.settings.items()}
    if not env.single:
        given = [f"{name}={value}" for name, value in values.items()]
        return create, [*given, f"batch_size=[{size}]", f"device={device}"]
    words = ", ".join(f"{literal(name)}: {value}" for name, value in values.items())
    kwargs = [f"create_env_kwargs={{{words}}}"] if values else []
    return "SerialEnv", [size, create, *kwargs, f"device={device}"]


def specs_of(pipeline: CheckedPipeline) -> str:
    """The environment of the parts whose specs are asked for: that of evaluations where the other ones are elsewhere."""
    elsewhere = isinstance(pipeline.data, RecordedData) or pipeline.workers is not None
    return "self.eval_env" if elsewhere else "self.env"


def action_spec(pipeline: CheckedPipeline, group: AgentGroup | None) -> str:
    """The spec of actions; of a group's that of all, which says where the dimension of agents is."""
    return f"{specs_of(pipeline)}.{'action_spec' if group is None else 'full_action_spec'}_unbatched"
