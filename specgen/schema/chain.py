"""The `chains:` section: an environment and its transforms, checked and fused as one."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from specgen.schema.fields import DeclaredClass, ParamField


def _entry_form(value: object) -> str:
    return "bare" if isinstance(value, str) else "configured"


TransformEntry = Annotated[
    Annotated[str, Tag("bare")] | Annotated[dict[str, dict[str, Any]], Tag("configured")],
    Discriminator(_entry_form),
]
"""`StepCounter`, or `{StepCounter: {max_steps: 200}}`."""


class Chain(DeclaredClass):
    """An environment followed by transforms, in order.

    Attributes:
        env: the name of a declared environment.
        params: constructor keywords of the chain, which arguments of transforms name.
        transforms: transform names, bare or with their arguments.
    """

    env: str
    params: dict[str, ParamField] = Field(default_factory=dict)
    transforms: list[TransformEntry] = Field(default_factory=list)
