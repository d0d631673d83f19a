"""What a checked language model is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from specgen.check.model import snake
from specgen.check.sources import PythonSource
from specgen.diagnostics import Span
from specgen.expr.symbols import Key
from specgen.schema.language_model import Generate
from specgen.source.model_folders import ModelFolder
from specgen.values import dataclass

Input = Literal["history", "text", "tokens"]

TEMPLATES = ("chatml_format", "deepseek", "dialogpt", "falcon", "llama", "qwen")
"""The chat templates that the runtime knows by name."""


@dataclass(frozen=True)
class CheckedLanguageModel:
    """A language model whose settings go together, those that it has from others (`like`) included.

    Attributes:
        path: a folder, or a name of the hub; None where a factory makes it.
        factory: the function that makes it.
        dtype: of its parameters; None for that in which they were saved.
        attention: which implementation; None for the model's own.
        tokenizer: a folder, or a name of the hub; None for models that read tokens.
        template: the name of a chat template, or a file; None for the tokenizer's own.
        generate: how answers are sampled; None for a model that only scores.
        log_probs_key: of the group of log-probabilities; None where it is not said.
        weights: what is recorded of the folder of the model; None where nothing is.
        tokenizer_folder: what is recorded of that of the tokenizer.
        places: where each field is said, in this model or in one that it is like.
    """

    name: str
    module: str
    doc: str
    path: str | None
    factory: PythonSource | None
    dtype: str | None
    attention: str | None
    tokenizer: str | None
    template: str | None
    input: Input
    generate: Generate | None
    pad_output: bool
    padding_side: Literal["left", "right"]
    pad_to: int | None
    max_length: int | None
    device: str | None
    frozen: bool
    log_probs_key: Key | None
    weights: ModelFolder | None
    tokenizer_folder: ModelFolder | None
    span: Span = field(compare=False)
    places: Mapping[str, Span] = field(default_factory=dict, compare=False)

    def is_same(self, other: CheckedLanguageModel) -> bool:
        """Whether both are one declaration."""
        return (self.module, self.name) == (other.module, other.name)

    @property
    def maker(self) -> str:
        """The generated function that makes it."""
        return maker_of(self.name)

    @property
    def keyword(self) -> str:
        """The keyword for it, of chains that run it."""
        return self.maker.removesuffix("_model")

    @property
    def template_file(self) -> bool:
        """Whether the template is a file."""
        return self.template is not None and is_file(self.template)

    def place(self, name: str) -> Span:
        """Where a field is said; where the model is declared if it is not."""
        return self.places.get(name, self.span)


def maker_of(name: str) -> str:
    """The generated function that makes a model: `policy_model()` for `policy`."""
    return f"{snake(name).removesuffix('_model')}_model"


def is_file(template: str) -> bool:
    """Whether a template is named as a file."""
    return template.endswith((".jinja", ".jinja2", ".j2"))
