"""`DecisionTransformer`, `DTActor` and `OnlineDTActor`: networks over sequences of returns to go, observations and actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from specgen_runtime.extras import import_extra
from specgen_runtime.modules.networks.init import orthogonal
from specgen_runtime.params import int_param
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["DTActor", "DecisionTransformer", "OnlineDTActor"]

_LOG_STD = (-5.0, 2.0)
"""The logarithms of the least and the greatest deviation of an action."""


class DecisionTransformer(nn.Module):
    """What a transformer makes of a trajectory, step by step (Chen et al. 2021, arXiv:2106.01345): GPT-2, over three tokens for
    each step, the return to go, the observation and the action. Each sees those before it.

    It needs `transformers` (`pip install 'specgen-rl[llm]'`), whose modules and names of parameters it has.

    Args:
        state_dim: how many numbers an observation has.
        action_dim: how many an action has.
        config: the form of the transformer, a `DTConfig`, or some of its fields by name.
        device: of the parameters.

    Raises:
        ImportError: `transformers` is not installed.
        TypeError: a size is no integer, or `config` neither of these, or has a field that a `DTConfig` lacks.
        ValueError: a size is below 1.

    Example:
        >>> network = DecisionTransformer(4, 2, config={"n_embd": 128})
        >>> network(torch.zeros(3, 10, 4), torch.zeros(3, 10, 2), torch.zeros(3, 10, 1)).shape
        torch.Size([3, 10, 128])
    """

    @dataclass
    class DTConfig:
        """The form of the transformer.

        Attributes:
            n_embd: how many numbers a token has.
            n_layer: how many layers there are.
            n_head: how many heads each has.
            n_inner: the width of the layers between them.
            activation: of these, by the name that `transformers` has for it.
            n_positions: how many tokens a sequence has at most, three for each step.
            resid_pdrop: the dropout of what a layer adds.
            attn_pdrop: that of the attention.
        """

        n_embd: int = 256
        n_layer: int = 4
        n_head: int = 4
        n_inner: int = 1024
        activation: str = "relu"
        n_positions: int = 1024
        resid_pdrop: float = 0.1
        attn_pdrop: float = 0.1

    @classmethod
    def default_config(cls) -> DTConfig:
        """The form that it has unless told otherwise."""
        return cls.DTConfig()

    def __init__(
        self,
        state_dim: int,
        action_dim: int,
        config: Mapping[str, Any] | DTConfig | None = None,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        transformers = import_extra("transformers", f"{type(self).__name__} needs transformers", "llm")
        super().__init__()
        self.state_dim = int_param("state_dim", state_dim, at_least=1)
        self.action_dim = int_param("action_dim", action_dim, at_least=1)
        self.config = _config_of(config, self.default_config())
        self.hidden_size = self.config.n_embd
        fields = dataclasses.asdict(self.config)
        fields["activation_function"] = fields.pop("activation")
        no_text: dict[str, Any] = {"vocab_size": 1, "bos_token_id": None, "eos_token_id": None}
        form = transformers.GPT2Config(**fields, **no_text, use_cache=False)
        with nullcontext() if device is None else torch.device(device):
            self.transformer = transformers.GPT2Model(form)
            self.embed_return = nn.Linear(1, self.hidden_size)
            self.embed_state = nn.Linear(self.state_dim, self.hidden_size)
            self.embed_action = nn.Linear(self.action_dim, self.hidden_size)
            self.embed_ln = nn.LayerNorm(self.hidden_size)

    def forward(self, observation: Tensor, action: Tensor, return_to_go: Tensor) -> Tensor:
        """What stands for each step once its observation is seen, `[*batch, time, n_embd]`.

        Args:
            observation: `[*batch, time, state_dim]`.
            action: `[*batch, time, action_dim]`; that of a step is seen from the next one on.
            return_to_go: `[*batch, time, 1]`.

        Raises:
            ValueError: a shape does not fit, or the sequence is longer than `n_positions` allows.
        """
        batch, steps = observation.shape[:-2], observation.shape[-2] if observation.ndim > 1 else 0
        for name, value, size in (
            ("observation", observation, self.state_dim),
            ("action", action, self.action_dim),
            ("return_to_go", return_to_go, 1),
        ):
            if value.ndim < 2 or value.shape != (*batch, steps, size):
                wanted = f"{[*batch, steps, size]}" if observation.ndim > 1 else f"[*batch, time, {size}]"
                raise ValueError(
                    f"{type(self).__name__}: {name} must have the shape {wanted}, got {list(value.shape)}"
                )
        if 3 * steps > self.config.n_positions:
            raise ValueError(
                f"{type(self).__name__}: {steps} steps are {3 * steps} tokens, and n_positions is "
                f"{self.config.n_positions}"
            )
        embedded = (self.embed_return(return_to_go), self.embed_state(observation), self.embed_action(action))
        tokens = torch.stack(embedded, -2).reshape(batch.numel(), 3 * steps, self.hidden_size)
        seen = self.embed_ln(tokens)
        if seen.numel():  # which `transformers` can't be without
            seen = self.transformer(inputs_embeds=seen)["last_hidden_state"]
        of_observations: Tensor = seen.reshape(*batch, steps, 3, self.hidden_size)[..., 1, :]
        return of_observations


class _Actor(nn.Module):
    """A `DecisionTransformer` with a larger form of its own by default."""

    _layers: ClassVar[tuple[str, ...]]
    """The names of the layers from what stands for a step to numbers of an action."""

    def __init__(
        self,
        state_dim: int,
        action_dim: int,
        transformer_config: Mapping[str, Any] | DecisionTransformer.DTConfig | None = None,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        super().__init__()
        config = _config_of(transformer_config, self.default_config())
        self.transformer = DecisionTransformer(state_dim, action_dim, config, device)
        for name in self._layers:
            self.add_module(name, nn.Linear(self.transformer.hidden_size, action_dim, device=device))
        for name in self._layers:  # all are made before: random numbers are drawn in TorchRL's order
            orthogonal(self.get_submodule(name))

    @classmethod
    def default_config(cls) -> DecisionTransformer.DTConfig:
        """The form that its transformer has unless told otherwise."""
        return DecisionTransformer.DTConfig(n_embd=512, n_inner=2048)


class DTActor(_Actor):
    """Actions of a decision transformer (Chen et al. 2021, arXiv:2106.01345), one for each step.

    It needs `transformers` (`pip install 'specgen-rl[llm]'`).

    Args:
        state_dim: how many numbers an observation has.
        action_dim: how many an action has.
        transformer_config: the form of the transformer, a `DecisionTransformer.DTConfig`, or some of its fields by name in the
            place of those of `default_config()`.
        device: of the parameters.

    Raises:
        ImportError, TypeError, ValueError: as of `DecisionTransformer`.

    Example:
        >>> DTActor(4, 2)(torch.zeros(3, 10, 4), torch.zeros(3, 10, 2), torch.zeros(3, 10, 1)).shape
        torch.Size([3, 10, 2])
    """

    _layers = ("action_layer",)
    action_layer: nn.Linear

    def forward(self, observation: Tensor, action: Tensor, return_to_go: Tensor) -> Tensor:
        """The actions, `[*batch, time, action_dim]`; see `DecisionTransformer.forward`."""
        predicted: Tensor = self.action_layer(self.transformer(observation, action, return_to_go))
        return predicted


class OnlineDTActor(_Actor):
    """Means and deviations of actions, of a decision transformer that stays random (Zheng et al. 2022, arXiv:2202.05607).

    It needs `transformers` (`pip install 'specgen-rl[llm]'`).

    Args:
        state_dim: how many numbers an observation has.
        action_dim: how many an action has.
        transformer_config: as of `DTActor`.
        device: of the parameters.

    Raises:
        ImportError, TypeError, ValueError: as of `DecisionTransformer`.

    Example:
        >>> loc, scale = OnlineDTActor(4, 2)(torch.zeros(3, 10, 4), torch.zeros(3, 10, 2), torch.zeros(3, 10, 1))
        >>> loc.shape, scale.shape
        (torch.Size([3, 10, 2]), torch.Size([3, 10, 2]))
    """

    _layers = ("action_layer_mean", "action_layer_logstd")
    action_layer_mean: nn.Linear
    action_layer_logstd: nn.Linear

    def forward(self, observation: Tensor, action: Tensor, return_to_go: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the deviation, between exp(-5) and exp(2), `[*batch, time, action_dim]` each."""
        seen = self.transformer(observation, action, return_to_go)
        low, high = _LOG_STD
        log_std = low + 0.5 * (high - low) * (torch.tanh(self.action_layer_logstd(seen)) + 1.0)
        return self.action_layer_mean(seen), log_std.exp()


def _config_of(
    given: Mapping[str, Any] | DecisionTransformer.DTConfig | None, default: DecisionTransformer.DTConfig
) -> DecisionTransformer.DTConfig:
    """The form of a transformer: what is given, and what is not by default."""
    if isinstance(given, DecisionTransformer.DTConfig):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"the form of a transformer is a DTConfig or a mapping, got {type(given).__name__}")
    fields = {field.name for field in dataclasses.fields(default)}
    unknown = sorted(set(given or ()) - fields)
    if unknown:
        raise TypeError(f"a DTConfig has no {', '.join(map(repr, unknown))}; its fields are {sorted(fields)}")
    return dataclasses.replace(default, **(given or {}))
