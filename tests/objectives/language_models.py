"""Small language models, and data of tokens, for the tests of losses over them."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torch import Tensor, nn

VOCABULARY, LENGTH = 11, 6


class Tokens(torch.distributions.Categorical):
    """A distribution over tokens with the mask of those that are answers: the peer asks for one."""

    def __init__(self, logits: Tensor, mask: Tensor) -> None:
        super().__init__(logits=logits)
        self.mask = mask

    def entropy(self) -> Tensor:
        entropy: Tensor = super().entropy()
        return torch.where(self.mask, entropy, 0.0)


class Actor(nn.Module):
    """A language model of one embedding."""

    def __init__(self, dtype: torch.dtype = torch.float32, *, marks: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.logits = nn.Embedding(VOCABULARY, VOCABULARY, dtype=dtype)
        self.in_keys = [("tokens", "full"), *(["answered"] if marks else [])]
        self.out_keys = [("log_probs", "full")]

    def get_dist(self, data: TensorDictBase, **_given: Any) -> torch.distributions.Distribution:
        logits = self.logits(data["tokens", "full"])
        if "answered" in self.in_keys:
            return Tokens(logits, data["answered"])
        return torch.distributions.Categorical(logits=logits)


def batch(
    *shape: int, dtype: torch.dtype = torch.float32, share: float = 0.6, of_sequence: bool = False
) -> TensorDict:
    """Tokens of another policy; at least the last one of a sequence is of an answer."""
    generator = torch.Generator().manual_seed(1)
    shape = shape or (4,)

    def normal(*size: int) -> Tensor:
        return torch.randn(*shape, *size, generator=generator, dtype=torch.float64).to(dtype)

    answered = torch.rand(*shape, LENGTH, generator=generator) < share
    answered[..., -1] = True
    advantage = normal(1)
    return TensorDict(
        {
            "tokens": {"full": torch.randint(VOCABULARY, (*shape, LENGTH), generator=generator)},
            "answered": answered,
            "advantage": advantage if of_sequence else advantage.unsqueeze(-2).expand(*shape, LENGTH, 1),
            "log_probs": {"full": -2.3 + 0.5 * normal(LENGTH)},
            "next": {"ref_log_probs": {"full": -2.3 + 0.5 * normal(LENGTH)}},
        },
        shape,
    ).contiguous()


class Transformer(nn.Module):
    """A causal language model of one layer; the logits of a token depend on those before it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.places = nn.Embedding(VOCABULARY, 16), nn.Embedding(LENGTH, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        before = nn.functional.pad(tokens, (1, 0))[..., :-1]
        hidden = self.tokens(before) + self.places(torch.arange(tokens.shape[-1]))
        mask = torch.full((tokens.shape[-1],) * 2, -torch.inf).triu(1)
        logits: Tensor = self.head(self.layer(hidden, src_mask=mask))
        return logits


def language_model() -> ProbabilisticTensorDictSequential:
    return ProbabilisticTensorDictSequential(
        TensorDictModule(Transformer(), in_keys=[("tokens", "full")], out_keys=["logits"]),
        ProbabilisticTensorDictModule(
            in_keys=["logits"],
            out_keys=[("tokens", "sampled")],
            distribution_class=torch.distributions.Categorical,
        ),
    )
