"""What all that read a part of a pipeline have in common."""

from __future__ import annotations

from specgen.check.pipelines.numbers import Numbers
from specgen.check.pipelines.visible import Scopes
from specgen.diagnostics import Sink
from specgen.schema.load import SchemaFile
from specgen.schema.pipeline import Pipeline
from specgen.values import dataclass


@dataclass(frozen=True)
class PipelineContext:
    """What all readers of one pipeline are given.

    Attributes:
        file: where it is declared.
        path: the pipeline in it.
        pipeline: what is declared.
        module: the generated module that it goes to, dotted.
        scopes: what its names mean.
        numbers: its hyper-parameters.
        sink: takes every mistake.
    """

    file: SchemaFile
    path: tuple[str, ...]
    pipeline: Pipeline
    module: str
    scopes: Scopes
    numbers: Numbers
    sink: Sink


class PartReader:
    """Reads a part of one pipeline."""

    def __init__(self, context: PipelineContext) -> None:
        self.context = context
        self.file, self.path, self.pipeline = context.file, context.path, context.pipeline
        self.module, self.scopes = context.module, context.scopes
        self.numbers, self.sink = context.numbers, context.sink
