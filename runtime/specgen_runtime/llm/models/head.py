"""The output head of a causal model, found by a probe, so that logits are made only where a token is scored."""

from __future__ import annotations

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from specgen_runtime.llm.models.autocast import autocasting, states_as_stored
from specgen_runtime.llm.models.chosen import PLAIN, Chosen, Warp, chosen_log_probs
from specgen_runtime.llm.models.logits import full_precision
from specgen_runtime.objectives.layers import runs_forward_alone

__all__ = [
    "HeadScorer",
    "LogitsScorer",
    "Scorer",
    "accepts",
    "device_of",
    "evaluating",
    "find_scorer",
    "output_head",
    "parts_of",
]

Post: TypeAlias = Callable[[Tensor], Tensor]
"""What a model does between its head and its logits."""

_LARGE = 1e3
"""How large a probe makes logits: those of trained models are below 100."""

_LARGEST_STATE = 1e4
"""Up to where a probe scales states: float16 ends at 65504."""


@dataclass(frozen=True)
class Scorer(ABC):
    """Runs a model and gives log-probabilities of chosen tokens.

    Args:
        model: the causal model.
        autocast: the lower precision of what is before its head; None for that of the parameters, which the head has.
    """

    model: nn.Module
    autocast: torch.dtype | None

    def is_of(self, model: nn.Module) -> bool:
        """Whether it still says how the logits of a model are made: parts of models get exchanged."""
        return model is self.model

    @abstractmethod
    def states(self, inputs: Mapping[str, Any], rows: Tensor, columns: Tensor) -> Tensor:
        """Return what logits are made of, ``[n, width]``.

        Args:
            inputs: what the model is called with, by name.
            rows: int64 ``[n]``.
            columns: int64 ``[n]``, after which token of its row each one comes.
        """

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """Return the logits of some states, ``[n, vocabulary]``, at least float32, in memory of their own."""

    @abstractmethod
    def chosen(self, states: Tensor, targets: Tensor, *, warp: Warp = PLAIN, entropy: bool = False) -> Chosen:
        """Return the log-probabilities of tokens, ``[n]`` each.

        Args:
            states: ``[n, width]``.
            targets: int64 ``[n]``, the tokens.
            warp: what is done to the logits.
            entropy: whether the entropies are computed, too.
        """


@dataclass(frozen=True)
class HeadScorer(Scorer):
    """Runs the body of a model, and its head where a token is scored.

    Args:
        body: what makes its hidden states.
        head: what makes logits of them. It is called, so that adapters count.
        post: what the model does to these logits.
        linear: whether head and post are a product with the head's weight and its bias, and nothing else.
        vocabulary: how many logits there are.
    """

    body: nn.Module
    head: nn.Module
    post: Post | None
    linear: bool
    vocabulary: int

    def is_of(self, model: nn.Module) -> bool:
        """Whether model and head are still those that were probed."""
        return super().is_of(model) and output_head(model) is self.head

    def states(self, inputs: Mapping[str, Any], rows: Tensor, columns: Tensor) -> Tensor:
        """The states of the body; see `Scorer`."""
        with autocasting(self.model, self.head, self.autocast):
            states: Tensor = self.body(**inputs, use_cache=False)[0]
        states = states if self.autocast is None else states_as_stored(self.model, states)
        return states[rows, columns]

    def logits(self, states: Tensor) -> Tensor:
        """See `Scorer`."""
        raw = self.head(states)
        return _apart(raw if self.post is None else self.post(raw), states)

    def chosen(self, states: Tensor, targets: Tensor, *, warp: Warp = PLAIN, entropy: bool = False) -> Chosen:
        """See `Scorer`."""
        options: Any = {"linear": self.head if self.linear else None, "warp": warp, "entropy": entropy}
        return chosen_log_probs(states, targets, self.logits, self.vocabulary, **options)


class LogitsScorer(Scorer):
    """Runs a model as a whole, and keeps its logits at columns where any row scores a token."""

    def states(self, inputs: Mapping[str, Any], rows: Tensor, columns: Tensor) -> Tensor:
        """The logits; see `Scorer`."""
        kept, places = torch.unique(columns, return_inverse=True)
        only = {"logits_to_keep": kept} if accepts(self.model, "logits_to_keep") else {}
        with autocasting(self.model, output_head(self.model), self.autocast):
            result = self.model(**inputs, use_cache=False, **only)
        logits: Tensor | None = getattr(result, "logits", None)
        if logits is None:
            raise TypeError(
                f"{type(self.model).__name__} gives no logits of tokens: load it with its head, by load_model(path) or "
                "AutoModelForCausalLM"
            )
        return logits[rows, places if logits.shape[1] == len(kept) else columns]

    def logits(self, states: Tensor) -> Tensor:
        """See `Scorer`."""
        return _apart(states, states)

    def chosen(self, states: Tensor, targets: Tensor, *, warp: Warp = PLAIN, entropy: bool = False) -> Chosen:
        """See `Scorer`."""
        return chosen_log_probs(states, targets, self.logits, states.shape[-1], warp=warp, entropy=entropy)


def find_scorer(model: nn.Module, autocast: torch.dtype | None = None) -> Scorer:
    """Return what scores tokens with a causal model; its head alone, where a probe says that this is right.

    The probe runs 2 sequences of 5 tokens, and once more with states that are scaled up at the head, until logits are as
    large as those of any model: some cut off large ones. What depends on the length of a sequence it does not see. A model whose logits are something else than head and a declared soft cap
    or scale, or that has to be called as a whole (compiled, distributed, with hooks), is called as a whole, with a
    warning that says why.

    Args:
        model: of `transformers`.
        autocast: the precision of what is before its head, but in the probe; None for that of the parameters.
    """
    try:
        return replace(_probed(model), autocast=autocast)
    except _NotFoundError as error:
        warnings.warn(
            f"{type(model).__name__}: all logits of scored columns are computed, which takes more memory: {error}",
            stacklevel=2,
        )
        return LogitsScorer(model, autocast)


class _NotFoundError(Exception):
    """Why a model has no head that can be run alone."""


def _probed(model: nn.Module) -> HeadScorer:
    if hasattr(model, "_orig_mod"):
        raise _NotFoundError("it is compiled")
    if not runs_forward_alone(model):
        raise _NotFoundError("hooks are run when it is called as a whole")
    head, body = output_head(model), getattr(_unadapted(model), "base_model", None)
    if head is None or body is None or body is model or body is _unadapted(model):
        raise _NotFoundError("it does not say what its head and its body are")
    size = _unadapted(model).get_input_embeddings().num_embeddings  # type: ignore[operator]
    device = device_of(model)
    ids = torch.linspace(0, size - 1, 10, device=device).long().view(2, 5)
    with torch.no_grad(), evaluating(model):
        wanted = model(input_ids=ids, use_cache=False).logits
        try:
            hidden = body(input_ids=ids, use_cache=False)[0]
            raw = head(hidden)
        except (RuntimeError, TypeError, ValueError) as error:
            raise _NotFoundError(f"its head and its body don't fit together ({error})") from error
        scale = _scale_to_large(hidden, raw)
        with _scaled(head, scale):
            wanted_large = model(input_ids=ids, use_cache=False).logits
        pairs = ((raw, wanted), (head(hidden * scale), wanted_large))
        # Those that are declared come first: while logits are small, a soft cap is hardly different from none.
        for post in (*_declared(model), None):
            if all(_agree(made if post is None else post(made), as_wanted) for made, as_wanted in pairs):
                linear = post is None and _is_linear(head, hidden, raw)
                return HeadScorer(model, None, body, head, post, linear, wanted.shape[-1])
    raise _NotFoundError("its logits are not what its head gives")


def _scale_to_large(hidden: Tensor, raw: Tensor) -> float:
    """A factor for states, by which logits become large, and neither overflows in float16."""
    states, logits = (float(each.float().abs().max().clamp_min(1e-30)) for each in (hidden, raw))
    return max(1.0, min(_LARGE / logits, _LARGEST_STATE / states))


@contextmanager
def _scaled(head: nn.Module, scale: float) -> Iterator[None]:
    """Have a head called with states times a factor."""

    def scaled(_head: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (inputs[0] * scale, *inputs[1:])

    handle = head.register_forward_pre_hook(scaled, prepend=True)
    try:
        yield
    finally:
        handle.remove()


def _is_linear(head: nn.Module, hidden: Tensor, raw: Tensor) -> bool:
    """Whether a head is its weight and its bias: a quantised or adapted one is more."""
    if not isinstance(head, nn.Linear) or head.weight.dtype != hidden.dtype or not runs_forward_alone(head):
        return False
    return _agree(F.linear(hidden, head.weight, head.bias), raw)


def _declared(model: nn.Module) -> Iterator[Post]:
    """What the configuration says is done to what the head gives."""
    config: Any = getattr(model, "config", None)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    cap = getattr(text, "final_logit_softcapping", None)
    if cap:
        yield lambda logits: cap * torch.tanh(logits / cap)
    for name in ("logit_scale", "output_multiplier_scale"):
        if isinstance(scale := getattr(text, name, None), float):
            yield lambda logits, scale=scale: logits * scale  # type: ignore[misc]
    if divisor := getattr(text, "logits_scaling", None):
        yield lambda logits: logits / divisor


def _agree(found: Tensor, wanted: Tensor) -> bool:
    if found.shape != wanted.shape:
        return False
    tolerance = 1e-5 if found.dtype in (torch.float32, torch.float64) else 8e-3
    return bool((found.float() - wanted.float()).abs().max() <= tolerance * wanted.float().abs().max())


def output_head(model: nn.Module) -> nn.Module | None:
    """The module that makes logits of hidden states, by the name that all models of transformers have for it."""
    get: Any = getattr(model, "get_output_embeddings", None)
    return get() if callable(get) else None


def _unadapted(model: nn.Module) -> nn.Module:
    """The causal model that adapters of `peft` were put into."""
    get: Any = getattr(model, "get_base_model", None)
    return get() if callable(get) else model


def device_of(model: nn.Module) -> torch.device:
    """The device that a model reads tokens on.

    Raises:
        ValueError: it has no weights.
    """
    device = next(model.parameters()).device
    if device.type == "meta":
        raise ValueError(
            f"{type(model).__name__} has no weights, its parameters are on the meta device: load them (load_model), or "
            "to_empty(device=...) and load_state_dict"
        )
    return device


def accepts(module: nn.Module, name: str) -> bool:
    """Whether the forward of a module takes a keyword."""
    parameters = inspect.signature(module.forward).parameters
    return name in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def parts_of(model: nn.Module) -> Iterator[nn.Module]:
    """A module and all in it, as `modules` gives them, in a third of the time; one that is there twice comes twice."""
    waiting = [model]
    while waiting:
        yield (module := waiting.pop())
        waiting += [part for part in module._modules.values() if part is not None]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Have a model, and all of its parts, in evaluation mode; each gets back the mode that it had."""
    training = [module for module in parts_of(model) if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _apart(logits: Tensor, states: Tensor) -> Tensor:
    """Logits in at least float32, in memory that is not that of the states."""
    made = full_precision(logits)
    shared = made.untyped_storage().data_ptr() == states.untyped_storage().data_ptr()
    return made.clone() if shared else made
