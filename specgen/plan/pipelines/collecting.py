"""What collects the data of a pipeline: its environments, in this process or in workers."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.pipelines.data_model import RecordedData
from specgen.check.pipelines.layers_model import are_recurrent
from specgen.check.pipelines.model import CheckedPipeline
from specgen.check.pipelines.workers_model import CollectingWorkers
from specgen.code import Code, using
from specgen.literals import literal
from specgen.plan.pipelines.devices import device_of
from specgen.plan.pipelines.environments import data_type, env_words, lacks_beginnings
from specgen.plan.pipelines.language_models import given_to
from specgen.plan.pipelines.model import CollectorPlan


def collector_plan(pipeline: CheckedPipeline) -> CollectorPlan | None:
    """What makes the collector, when it is first asked for; None where data are recorded."""
    if isinstance(pipeline.data, RecordedData):
        return None
    made = _made(pipeline)
    data = data_type(pipeline, pipeline.env)
    kind = using(f"BaseCollector[{data}]", *data.uses, "BaseCollector", "cached_property")
    if pipeline.workers is None:
        return CollectorPlan(kind, (using(f"return {made}", *made.uses),))
    seeded = using('collector.set_seed(stream(config.seed, "env"))', "stream")
    return CollectorPlan(kind, (using(f"collector = {made}", *made.uses), seeded, using("return collector")))


def _made(pipeline: CheckedPipeline) -> Code:
    """The call that makes the collector."""
    data, workers = pipeline.data, pipeline.workers
    assert not isinstance(data, RecordedData)
    number = f"config.{data.num_envs.name}"
    what, uses, words = "Collector", ["Collector"], ["self.env", "self.policy"]
    further: list[str] = []
    if workers is not None:
        what = _COLLECTORS[workers.kind, workers.sync]
        size = f"{number} // config.{workers.count.name}"
        name, words = env_words(pipeline.env, pipeline.env.name, size, f"self.{device_of(pipeline, 'env')}")
        given = [*given_to(pipeline, pipeline.env), *words]
        uses = [what, "partial", name, pipeline.env.name]
        if lacks_beginnings(pipeline, pipeline.env):
            uses += ["with_transform", "InitTracker"]
            given, name = ["InitTracker", name, *given], "with_transform"
        words = [f"partial({', '.join((name, *given))})", "self.policy", *_counted(workers)]
        further = list(_sent(workers))
        if are_recurrent(pipeline.networks):
            further.append("auto_register_policy_transforms=True")
    words += [f"frames_per_batch={number} * config.{data.num_steps.name}", "total_frames=-1", *further]
    if pipeline.turns is not None:
        words.append("whole_episodes=True")
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
