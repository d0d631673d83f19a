"""The environments of a training among its parts."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.layers_model import are_recurrent
from specgen.check.pipelines.model import CheckedPipeline, RecordedData
from specgen.code import Code, using
from specgen.literals import literal
from specgen.plan.pipelines.devices import device_of


def made_part(name: str, value: Code) -> Code:
    """The statement that makes a part."""
    return using(f"self.{name} = {value}", *value.uses)


def environments(pipeline: CheckedPipeline) -> Iterator[Code]:
    """The environments of the training and of evaluations."""
    data, limits = pipeline.data, pipeline.limits
    recurrent = are_recurrent(pipeline.networks)
    if not isinstance(data, RecordedData):
        place = f"self.{device_of(pipeline, 'env')}"
        made = _env(pipeline.env, f"config.{data.num_envs.name}", place)
        yield made_part("env", _with_states(pipeline.env, made) if recurrent else made)
        yield using('self.env.set_seed(stream(config.seed, "env"))', "stream")
    place = f"self.{device_of(pipeline, 'policy')}"
    made = _env(pipeline.eval_env, f"config.{limits.episodes.name}", place)
    yield made_part("eval_env", _with_states(pipeline.eval_env, made) if recurrent else made)


def _with_states(env: PipelineEnv, made: Code) -> Code:
    """An environment with the states of a recurrent policy, and with what says where these begin."""
    if "is_init" in env.entries:
        return using(f"with_primers({made}, self.policy)", *made.uses, "with_primers")
    whole = f"with_primers(TransformedEnv({made}, InitTracker()), self.policy)"
    return using(whole, *made.uses, "with_primers", "TransformedEnv", "InitTracker")


def _env(env: PipelineEnv, size: str, device: str) -> Code:
    """So many of an environment, as one."""
    if not env.single:
        given = "".join(f"{name}={literal(value)}, " for name, value in env.arguments.items())
        return using(f"{env.name}({given}batch_size=[{size}], device={device})", env.name)
    words = [size, env.name]
    if env.arguments:
        words.append(f"create_env_kwargs={literal(dict(env.arguments))}")
    words.append(f"device={device}")
    return using(f"SerialEnv({', '.join(words)})", "SerialEnv", env.name)
