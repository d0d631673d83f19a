"""One schema file, which becomes one generated module."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from specgen.schema.chain import Chain
from specgen.schema.chat import Reward
from specgen.schema.env import Env
from specgen.schema.fields import Const, Declaration, SpecField
from specgen.schema.function import SharedFunction
from specgen.schema.language_model import LanguageModel
from specgen.schema.loss import Loss
from specgen.schema.pipeline import Pipeline
from specgen.schema.transform import Transform


def _version(value: object) -> object:
    """A value that is not taken for 1 because it equals it, as `true` and 1.0 do."""
    return value if type(value) is int else str(value)


class Module(Declaration):
    """The top level of the language.

    The same object in Python and in YAML gives the same generated files::

        schema = Module(envs={"Pendulum": Env(state={"th": "float32"}, ...)})
    """

    specgen: Annotated[Literal[1], BeforeValidator(_version)] = 1
    doc: str = ""
    import_: list[str] = Field(default_factory=list, alias="import")
    consts: dict[str, Const] = Field(default_factory=dict)
    specs: dict[str, SpecField] = Field(default_factory=dict)
    functions: dict[str, SharedFunction] = Field(default_factory=dict)
    envs: dict[str, Env] = Field(default_factory=dict)
    transforms: dict[str, Transform] = Field(default_factory=dict)
    chains: dict[str, Chain] = Field(default_factory=dict)
    losses: dict[str, Loss] = Field(default_factory=dict)
    rewards: dict[str, Reward] = Field(default_factory=dict)
    models: dict[str, LanguageModel] = Field(default_factory=dict)
    pipelines: dict[str, Pipeline] = Field(default_factory=dict)
