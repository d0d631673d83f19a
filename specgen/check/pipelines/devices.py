"""Where the parts of a pipeline lie."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from specgen.check.accelerators import accelerator
from specgen.check.pipelines.data_model import PipelineData, RecordedData, ReplayData
from specgen.check.pipelines.env_model import PipelineEnv
from specgen.check.pipelines.model import Devices, PipelineLoss
from specgen.check.pipelines.reader import PipelineContext
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import devices as rules
from specgen.diagnostics.rules import pipeline_episodes as episode_rules
from specgen.schema.load import SchemaFile, find

Part = Literal["env", "policy", "data", "loss"]
PARTS: tuple[Part, ...] = ("env", "policy", "data", "loss")

_DEVICE = re.compile(r"(cpu|mps)|(cuda|xpu)(:\d+)?")


def read_devices(context: PipelineContext, losses: tuple[PipelineLoss, ...]) -> Devices:
    """The devices of the pipeline; reports those that are none.

    Where nothing is said, all is where its language model says that it is, or on the CPU. Of parts that lie apart, those that
    are not named are on the CPU, but for a policy that says where it is.
    """
    file, path, pipeline, sink = context.file, context.path, context.pipeline, context.sink
    declared = pipeline.device
    models = (network.language_model for loss in losses for network in loss.networks)
    said = next((model.device for model in models if model is not None), None) or "cpu"
    if declared is None:
        return Devices(said, said, said, said)
    if isinstance(declared, str):
        _check_name(declared, file.span(*path, "device"), sink)
        return Devices(declared, declared, declared, declared)
    named: dict[str, str] = {part: name for part in PARTS if (name := getattr(declared, part)) is not None}
    spans = {part: file.span(*path, "device", part) for part in named}
    known = {part for part, name in named.items() if _check_name(name, spans[part], sink)}
    _check_kinds({part: named[part] for part in PARTS if part in known}, spans, sink)
    return Devices(**{"policy": said, **named}, apart=True)


def _check_name(name: str, span: Span, sink: Sink) -> bool:
    """Whether torch knows such a device, which computes; reported where not."""
    if _DEVICE.fullmatch(name):
        return True
    number = re.search(r"\d+", name)
    better = f"cuda:{number[0]}" if number else "cuda"
    why = "holds no numbers" if name == "meta" else "is no device"
    sink.add(rules.NO_DEVICE.at(span, f"`{name}` {why}", help=f"write `{better}`, or `cpu`"))
    return False


def _check_kinds(said: Mapping[str, str], spans: Mapping[str, Span], sink: Sink) -> None:
    """Report accelerators of two kinds."""
    first: str | None = None
    for part, name in said.items():
        if accelerator(name) is None:
            continue
        if first is None:
            first = part
        elif accelerator(said[first]) != accelerator(name):
            message = f"`{part}` is on {name}, and `{first}` on {said[first]}: no machine has both"
            notes = [Note(f"the device of `{first}`", spans[first])]
            sink.add(rules.NEVER_MEET.at(spans[part], message, notes=notes, help=f"write `{said[first]}`"))
            return


def check_devices(context: PipelineContext, devices: Devices, env: PipelineEnv, data: PipelineData) -> None:
    """Report what does not fit the devices of the pipeline: its data, and what it observes."""
    file, path, sink = context.file, context.path, context.sink
    if isinstance(data, RecordedData) and find(file.root, (*path, "device", "env")) is not None:
        message = "the data are recorded, and `env` has no effect"
        span = file.key_span(*path, "device", "env")
        sink.add(episode_rules.NOBODY_ACTS.at(span, message, help="leave it out"))
    if isinstance(data, ReplayData):
        _check_storage(file, path, devices, data, sink)
    for part, name, span in _said(file, path, devices):
        if name != "mps":
            continue
        wide = next((one for one in env.entries.values() if one.type.dtype == "float64"), None)
        if wide is not None:
            message = f"`{wide.dotted}` is float64, of which `mps` has none"
            notes = [Note("the environment", env.span)]
            help = f"convert it in the chain (`DoubleToFloat`), or write `{part}: cpu`"
            sink.add(rules.NO_FLOAT64.at(span, message, notes=notes, help=help))
            return


def _said(file: SchemaFile, path: tuple[str, ...], devices: Devices) -> Iterator[tuple[str, str, Span]]:
    """The devices that the schema says, each with its field and its place."""
    if find(file.root, (*path, "device")) is None:
        return
    if not devices.apart:
        yield "device", devices.env, file.span(*path, "device")
        return
    for part in PARTS:
        if find(file.root, (*path, "device", part)) is not None:
            yield part, getattr(devices, part), file.span(*path, "device", part)


def _check_storage(
    file: SchemaFile, path: tuple[str, ...], devices: Devices, data: ReplayData, sink: Sink
) -> None:
    """Report frames that are to lie on an accelerator, and in memory or in files."""
    if not devices.apart or devices.data == "cpu" or data.storage == "device":
        return
    where = "files" if data.storage == "memmap" else "the memory of the CPU"
    message = f"`data` is on {devices.data}, and a buffer with `storage: {data.storage}` lies in {where}"
    said = find(file.root, (*path, "data", data.kind, "storage"))
    notes = [] if said is None else [Note("the storage", said.span)]
    help = "write `storage: device`, or leave `data` out of `device`"
    sink.add(rules.STORAGE.at(file.span(*path, "device", "data"), message, notes=notes, help=help))
