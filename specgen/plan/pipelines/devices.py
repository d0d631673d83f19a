"""The devices of a pipeline's parts, as its module has them: attributes of the parts, fields of the configuration."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.pipelines.data_model import RecordedData, ReplayData
from specgen.check.pipelines.devices import PARTS, Part
from specgen.check.pipelines.model import CheckedPipeline
from specgen.code import Code, using
from specgen.literals import literal
from specgen.plan.model import Field

_DOCS = {
    "env": "where the environment lies",
    "policy": "where actions are chosen, and evaluated",
    "data": "where lies what was collected",
    "loss": "where the networks learn",
}


def device_names(pipeline: CheckedPipeline) -> tuple[tuple[str, Part | None], ...]:
    """The fields of the configuration, each with its part; one of all parts has none."""
    if not pipeline.devices.apart:
        return (("device", None),)
    recorded = isinstance(pipeline.data, RecordedData)
    return tuple((f"{part}_device", part) for part in PARTS if part != "env" or not recorded)


def device_of(pipeline: CheckedPipeline, part: Part) -> str:
    """The attribute of the parts that says where a part lies."""
    return f"{part}_device" if pipeline.devices.apart else "device"


def device_fields(pipeline: CheckedPipeline) -> Iterator[Field]:
    """The fields of the configuration."""
    for name, part in device_names(pipeline):
        default = pipeline.devices.env if part is None else getattr(pipeline.devices, part)
        doc = "where all of it runs: cpu, cuda, cuda:1, mps" if part is None else _DOCS[part]
        yield Field(name, "str", literal(default), doc)


def device_checks(pipeline: CheckedPipeline) -> Iterator[Code]:
    """The statements that check these fields."""
    for name, _ in device_names(pipeline):
        yield using(f"device_param({literal(name)}, self.{name})", "device_param")


def device_parts(pipeline: CheckedPipeline) -> Iterator[Code]:
    """The statements that find the devices, before anything is made."""
    for name, _ in device_names(pipeline):
        made = f"self.{name} = available_device({literal(name)}, config.{name})"
        yield using(made, "available_device")


def storage_device(pipeline: CheckedPipeline) -> str | None:
    """Where a buffer lies, as an expression in the constructor of the parts; None for the CPU."""
    data = pipeline.data
    if isinstance(data, RecordedData):
        return f"self.{device_of(pipeline, 'data')}" if pipeline.devices.apart else None
    if isinstance(data, ReplayData) and data.storage == "device":
        return f"self.{device_of(pipeline, 'data')}"
    return None


def to_loss(pipeline: CheckedPipeline) -> str:
    """What stands behind data that come to the losses: a cast, where they may lie elsewhere."""
    if isinstance(pipeline.data, RecordedData | ReplayData):
        same = not pipeline.devices.apart and storage_device(pipeline) is not None
    else:
        same = not pipeline.devices.apart
    return "" if same else f".to(parts.{device_of(pipeline, 'loss')})"
