"""Models that score the tokens of data, in this process or in Ray actors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.llm.conversations.entries import Sequences
from specgen_runtime.llm.conversations.rendering import tokenizer_identity
from specgen_runtime.llm.kl.scored_tokens import WhichTokens
from specgen_runtime.llm.models.wrapper import TransformersWrapper
from specgen_runtime.services import ActorOptions, RayService, described
from specgen_runtime.transforms.weights import copy_weights, sent_weights
from specgen_runtime.typing import NestedKey

__all__ = [
    "RayScoringModels",
    "RowLayout",
    "ScoringModels",
    "TokenScores",
    "model_of",
]


class TokenScores(NamedTuple):
    """What models say of the tokens of the rows of a batch: ``[rows, width]`` each."""

    log_probs: tuple[Tensor, ...]
    """float, of each model in turn: 0 where nothing is scored"""
    scored: Tensor
    """bool, the tokens that are"""
    attention: Tensor
    """bool, what is no padding"""
    full: Tensor | None = None
    """the KL of each token's distribution under the first model and the second; None if that is not asked for"""


class RowLayout(NamedTuple):
    """Where models read rows of tokens, and how wide results are."""

    in_key: NestedKey
    """of what is read"""
    reads: tuple[NestedKey, ...]
    """all keys that may be read"""
    pad_output: bool
    """whether results are padded"""
    pad_to: int | None
    """the width of padded results; None for that of the longest row"""


class ScoringModels:
    """Models that score the same tokens: those that the first of them reads, once for all.

    Args:
        models: by their names, as `scoring` gives them.
        which: the tokens that are scored.
        detach: whether there are no gradients; otherwise the first model has them, and no other.
    """

    def __init__(
        self,
        models: Mapping[str, TransformersWrapper],
        *,
        which: WhichTokens,
        detach: bool = True,
    ) -> None:
        self.models = dict(models)
        self.which, self.detach = which, detach
        self._versions: dict[str, int] = {}

    def row_layout(self) -> RowLayout:
        """Where rows are read, and how wide results are."""
        first = next(iter(self.models.values()))
        masks = () if self.which.mask_key is None else (self.which.mask_key,)
        return RowLayout(first.input_key, (*first.in_keys, *masks), first.pad_output, first.pad_to)

    def tokens_to_score(self, data: TensorDictBase, found: Sequences) -> Tensor:
        """Which tokens are scored: bool ``[rows, width]``; see `WhichTokens`.

        Args:
            data: what the tokens were read from.
            found: the tokens.
        """
        return self.which(data, found, next(iter(self.models.values())))

    def score(self, data: TensorDictBase) -> TokenScores:
        """The log-probabilities of tokens, on the device of the data.

        Raises:
            KeyError, ValueError: see `TransformersWrapper.sequences` and `WhichTokens`.
        """
        found = next(iter(self.models.values())).sequences(data)
        scored = self.tokens_to_score(data, found)
        log_probs: list[Tensor] = []
        for model in self.models.values():
            gradients = torch.is_grad_enabled() and not self.detach and not log_probs
            with torch.set_grad_enabled(gradients):
                log_probs.append(model.score(found, scored).log_probs)
        return TokenScores(tuple(log_probs), scored, found.attention)

    def update_weights(
        self, weights: TensorDictBase | Mapping[str, Any], which: str, version: int | None = None
    ) -> int:
        """Copy new values into the parameters and buffers of a model.

        Args:
            weights: as `copy_weights` takes them, of the model that the wrapper is around.
            which: the name of the model.
            version: the number of these weights; if the model has those of this number, nothing happens. None for
                the next one.

        Returns:
            Their number.

        Raises:
            KeyError, ValueError: they do not fit the model; there is no such model; or it has newer ones.
        """
        if which not in self.models:
            raise ValueError(f"there is no model {which!r}, only {', '.join(self.models)}")
        held = self._versions.get(which, 0)
        version = held + 1 if version is None else version
        if version < held:
            raise ValueError(f"{which} has weights of version {held}, newer than version {version}")
        if version > held:
            copy_weights(self.models[which].model, weights)
            self._versions[which] = version
        return version

    def weight_versions(self) -> dict[str, int]:
        """The number of each model's weights: 0 for those that it was made with."""
        return {name: self._versions.get(name, 0) for name in self.models}

    def close(self) -> None:
        """Do nothing: the models are the caller's."""


class RayScoringModels:
    """`ScoringModels` in actors of a Ray cluster, which several environments can share.

    What the models read is sent there, and what they say comes back to the device of the data. Gradients do not cross.

    Args:
        create: makes the models, in each actor: a class with keywords, which have to be the same in all who use
            actors of that name.
        what: what they are for, in messages.
        options: of the actors.

    Attributes:
        service: the actors.

    Raises:
        Exception: as `RayService`, which passes on what `create` raised.
    """

    def __init__(
        self,
        create: partial[Any],
        *,
        what: str,
        options: ActorOptions,
    ) -> None:
        settings = {name: described(value) for name, value in create.keywords.items()}
        if (device := create.keywords.get("device")) is not None:
            settings["device"] = str(torch.device(device))  # "cuda" is a word for it
        if (tokenizer := create.keywords.get("tokenizer")) is not None and not isinstance(tokenizer, str):
            settings["tokenizer"] = described((tokenizer_identity(tokenizer), tokenizer.chat_template))
        self.service = RayService(create, what=what, settings=settings, **options)
        self._layout: RowLayout = self.service.call("row_layout")

    def row_layout(self) -> RowLayout:
        """Where rows are read, and how wide results are."""
        return self._layout

    def score(self, data: TensorDictBase, **asked: bool) -> TokenScores:
        """The log-probabilities of tokens, on the device of the data; see the method of the models."""
        read = data.select(*self._layout.reads, strict=False)
        scores: TokenScores = self.service.call("score", read, **asked)
        tensors = (each for each in read.values(True, True) if isinstance(each, Tensor))
        device = read.device or next((each.device for each in tensors), torch.device("cpu"))
        log_probs = tuple(each.to(device) for each in scores.log_probs)
        full = None if scores.full is None else scores.full.to(device)
        return TokenScores(log_probs, scores.scored.to(device), scores.attention.to(device), full)

    def update_weights(
        self, weights: TensorDictBase | Mapping[str, Any], which: str, version: int | None = None
    ) -> int:
        """Copy new values into a model, in all actors; see `ScoringModels.update_weights`."""
        held: list[int] = self.service.call_all("update_weights", sent_weights(weights), which, version)
        return held[0]

    def weight_versions(self) -> dict[str, int]:
        """The number of each model's weights, in all actors; while they get new ones, that of the old ones."""
        held: list[dict[str, int]] = self.service.call_all("weight_versions")
        return {name: min(each[name] for each in held) for name in held[0]}

    def close(self) -> None:
        """Use the actors no more; see `RayService.close`."""
        self.service.close()


def model_of(
    model: Any, factory: Callable[[], Any] | None, name: str, *, sent: bool = False
) -> Callable[[], Any]:
    """What gives the model that is given, or makes it.

    Args:
        model: the model, or None.
        factory: makes it, or None.
        name: of the model, in messages.
        sent: whether it will be used in another process, so that only a factory will do.

    Raises:
        TypeError: the factory can't be called.
        ValueError: the model is given in both ways, or in none.
    """
    if model is not None and factory is not None:
        raise ValueError(f"{name} and {name}_factory are both given: give one of them")
    if factory is not None:
        if not callable(factory):
            raise TypeError(f"{name}_factory is a function that makes a model, got {type(factory).__name__}")
        return factory
    if model is None:
        raise ValueError(f"{name} is missing: give it, or {name}_factory")
    if sent:
        said = repr(model) if isinstance(model, str) else "a model"
        raise ValueError(
            f"{name} is {said}, but with use_ray_service=True models are made in the actor, not sent there: give"
            f" {name}_factory"
        )
    return lambda: model
