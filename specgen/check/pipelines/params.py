"""The `params` of a pipeline: hyper-parameters that its fields name."""

from __future__ import annotations

from specgen.check.model import Parameter
from specgen.check.names import Names
from specgen.check.params import OF_OTHERS, ParamRules, check_params
from specgen.check.pipelines.fields import CONFIG_NAMES
from specgen.diagnostics import Sink
from specgen.schema.fields import ParamField
from specgen.schema.load import SchemaFile

OF_PIPELINES = ParamRules(
    "a pipeline",
    CONFIG_NAMES,
    "the configuration, or the command line, has it already",
    ("float", "int"),
    {
        "optional": "give it a default",
        **OF_OTHERS,
        "static": "every number of a pipeline is a hyper-parameter",
        "per_env": None,
        "draw": None,
    },
    required=True,
    finite=True,
    shapes=False,
)


def declared_params(
    file: SchemaFile, path: tuple[str, ...], params: dict[str, ParamField], sink: Sink
) -> dict[str, Parameter]:
    """The `params` of the pipeline at `path`, by name."""
    found, _ = check_params(file, path, params, OF_PIPELINES, Names(sink), sink)
    return {param.name: param for param in found}
