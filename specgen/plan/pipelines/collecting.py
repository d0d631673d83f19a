"""What collects the data of a pipeline: its environments, in this process or in workers."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.model import CheckedPipeline, CollectingWorkers, RecordedData
from specgen.code import Code, using
from specgen.literals import literal
from specgen.plan.pipelines.devices import device_of


def env_made(env: PipelineEnv, size: str, device: str) -> Code:
    """The call that makes so many of an environment, as one."""
    name, words = _env_words(env, size, device)
    return using(f"{name}({', '.join(words)})", name, env.name)


def _env_words(env: PipelineEnv, size: str, device: str) -> tuple[str, list[str]]:
    """What makes so many of an environment, and its arguments."""
    if not env.single:
        given = [f"{name}={literal(value)}" for name, value in env.arguments.items()]
        return env.name, [*given, f"batch_size=[{size}]", f"device={device}"]
    kwargs = [f"create_env_kwargs={literal(dict(env.arguments))}"] if env.arguments else []
    return "SerialEnv", [size, env.name, *kwargs, f"device={device}"]


def specs_of(pipeline: CheckedPipeline) -> str:
    """The environment of the parts whose specs are asked for: that of evaluations where the other ones are elsewhere."""
    elsewhere = isinstance(pipeline.data, RecordedData) or pipeline.workers is not None
    return "self.eval_env" if elsewhere else "self.env"


def collector_made(pipeline: CheckedPipeline) -> Code:
    """The call that makes the collector."""
    data, workers = pipeline.data, pipeline.workers
    assert not isinstance(data, RecordedData)
    number = f"config.{data.num_envs.name}"
    what, uses, words = "Collector", ["Collector"], ["self.env", "self.policy"]
    further: list[str] = []
    if workers is not None:
        what = _COLLECTORS[workers.kind, workers.sync]
        size = f"{number} // config.{workers.count.name}"
        name, given = _env_words(pipeline.env, size, f"self.{device_of(pipeline, 'env')}")
        uses = [what, "partial", name, pipeline.env.name]
        words = [f"partial({', '.join((name, *given))})", "self.policy", *_counted(workers)]
        further = list(_sent(workers))
    words += [f"frames_per_batch={number} * config.{data.num_steps.name}", "total_frames=-1", *further]
    random_frames = pipeline.acting.random_frames
    if random_frames is not None:
        words.append(f"init_random_frames=config.{random_frames.name}")
    if pipeline.devices.apart:
        words += ["policy_device=self.policy_device", "storing_device=self.data_device"]
    return using(f"{what}({', '.join(words)})", *uses)


_COLLECTORS = {
    ("processes", True): "MultiSyncCollector",
    ("processes", False): "MultiAsyncCollector",
    ("ray", True): "RayCollector",
    ("ray", False): "RayCollector",
}


def _counted(workers: CollectingWorkers) -> Iterator[str]:
    """How many workers there are, and what each asks for."""
    if workers.kind == "processes":
        yield f"num_workers=config.{workers.count.name}"
        return
    yield f"num_collectors=config.{workers.count.name}"
    yield f"sync={workers.sync}"
    if workers.resources:
        asked = ", ".join(f"{literal(word)}: config.{one.name}" for word, one in workers.resources.items())
        yield f"remote_configs={{{asked}}}"


def _sent(workers: CollectingWorkers) -> Iterator[str]:
    """When weights are sent, and how batches of all workers become one."""
    yield "update_at_each_batch=True" if workers.kind == "processes" else "update_after_each_batch=True"
    if workers.sync:
        yield "cat_results=0"
