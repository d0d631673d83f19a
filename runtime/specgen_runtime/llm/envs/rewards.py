"""Rewards of conversations: what a reward function is given, what it returns, and how that is checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from specgen_runtime.llm.conversations.messages import Message
from specgen_runtime.llm.conversations.rendering import render_batch
from specgen_runtime.llm.models.autocast import autocasting
from specgen_runtime.llm.models.head import accepts, evaluating
from specgen_runtime.ragged import Ragged

__all__ = ["Reward", "RewardModel", "Scores", "check_reward", "scores_of", "told_of"]


class Scores:
    """Rewards with other numbers to be logged, each one for each conversation.

    Args:
        reward: the rewards, a sequence of numbers or a tensor ``[rows]``.
        **metrics: the other numbers, by name, of the same form.
    """

    def __init__(self, reward: Sequence[float] | Tensor, **metrics: Sequence[float] | Tensor) -> None:
        self.reward = reward
        self.metrics = metrics


class Reward(Protocol):
    """A function that rewards conversations that have ended."""

    def __call__(
        self, answers: Sequence[Sequence[Message]], rows: Sequence[Mapping[str, Any]], /
    ) -> Sequence[float] | Tensor | Scores:
        """Return one reward for each conversation.

        Args:
            answers: the conversations; the last message of each is the last answer.
            rows: of each, the row of the source that it began with.
        """
        ...


class RewardModel:
    """A model that gives a conversation a number, as a reward function.

    Args:
        model: called with `input_ids` and `attention_mask`, int64 ``[rows, tokens]``, padded on the right; its logits
            are ``[rows, 1]`` or ``[rows]``, as those of `AutoModelForSequenceClassification` with one label. It is
            called in evaluation mode and without gradients.
        tokenizer: renders and tokenises conversations. It needs a token for padding, but for models that have one of their
            own (`config.pad_token_id`), which is taken: by it they find the last token.
        chat_template: the template; None for the tokenizer's.
        chat_template_name: instead of it, the name of a known one.
        max_length: longer conversations lose their beginning.
        batch_size: how many conversations the model is given at once.
        autocast: a lower precision that the model runs in, such as `torch.bfloat16`; what makes the number of hidden states,
            `score` or `classifier`, has that of its parameters. None for that of the parameters.

    Raises:
        TypeError: the model is no module, or reads no tokens.
        ValueError: there is no tokenizer, no token for padding, or `batch_size` is below 1; at a call: the model gives other
            than one number each.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        chat_template: str | None = None,
        chat_template_name: str | None = None,
        max_length: int | None = None,
        batch_size: int = 32,
        autocast: torch.dtype | None = None,
    ) -> None:
        if not isinstance(cast("object", model), nn.Module):
            raise TypeError(
                f"model is a module, such as AutoModelForSequenceClassification.from_pretrained(path), got {model!r:.80}"
            )
        if not accepts(model, "input_ids"):
            raise TypeError(f"a reward model reads input_ids; {type(model).__name__} does not")
        if tokenizer is None:
            raise ValueError("a reward model reads tokens of conversations: give its tokenizer")
        if batch_size < 1:
            raise ValueError(f"batch_size is at least 1, got {batch_size}")
        config: Any = getattr(model, "config", None)
        own = getattr(config, "pad_token_id", tokenizer.pad_token_id)
        if own is None:
            owner = "tokenizer.pad_token" if config is None else "model.config.pad_token_id"
            raise ValueError(f"conversations of different lengths need a token for padding: {owner} = ...")
        self.pad_token_id: int = own
        self.model = model
        self.tokenizer = tokenizer
        self.options = {"chat_template": chat_template, "chat_template_name": chat_template_name}
        self.max_length = max_length
        self.batch_size = batch_size
        self.autocast = autocast

    def __call__(self, answers: Sequence[Sequence[Message]], rows: Sequence[Mapping[str, Any]], /) -> Tensor:
        """The numbers, float32 ``[conversations]``; see `Reward`."""
        options: dict[str, Any] = {**self.options, "max_length": self.max_length, "truncation_side": "left"}
        chats = [list(chat) for chat in answers]
        ids = render_batch(chats, self.tokenizer, assistant_mask=False, **options).ids.rows()
        device = next(self.model.parameters()).device
        found = []
        lower = autocasting(self.model, _head(self.model), self.autocast)
        with evaluating(self.model), torch.no_grad(), lower:
            for begin in range(0, len(ids), self.batch_size):
                batch = Ragged.of(ids[begin : begin + self.batch_size])
                tokens, mask = batch.padded(self.pad_token_id), batch.mask().long()
                result = self.model(input_ids=tokens.to(device), attention_mask=mask.to(device))
                logits: Tensor = getattr(result, "logits", result)
                if logits.numel() != len(batch):
                    raise ValueError(
                        f"a reward model gives one number for each of {len(batch)} conversations, got logits"
                        f" {list(logits.shape)}"
                    )
                found.append(logits.reshape(-1).float())
        return torch.cat(found) if found else torch.zeros(0)


def _head(model: nn.Module) -> nn.Module | None:
    """What a classifier of `transformers` makes its logits with; None for other models."""
    named = (getattr(model, name, None) for name in ("score", "classifier"))
    found = next((one for one in named if isinstance(one, nn.Module)), None)
    return found if hasattr(model, "get_input_embeddings") else None


def check_reward(reward: Any) -> None:
    """Refuse what is no reward function.

    Raises:
        TypeError: it can't be called with conversations and rows.
    """
    if reward is not None and not callable(reward):
        raise TypeError(f"reward is a function of conversations and their rows, got {reward!r:.80}")
    if isinstance(reward, nn.Module) and hasattr(reward, "get_input_embeddings"):
        raise TypeError(f"a {type(reward).__name__} reads tokens: give reward=RewardModel(model, tokenizer)")


@contextmanager
def told_of(what: str, function: Any, rows: Sequence[Any]) -> Iterator[None]:
    """Note at an error of a function of the user's which one it was, and what the rows have that it was given.

    Args:
        what: what it is, for the note.
        function: the function.
        rows: those that it was given.
    """
    try:
        yield
    except Exception as error:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        of = sorted({key for row in rows if isinstance(row, Mapping) for key in row}, key=str)
        error.add_note(
            f"in the {what} {name}, which was given {len(rows)} conversation{'s' * (len(rows) != 1)} and"
            f" {'rows' if len(rows) != 1 else 'a row'} with {', '.join(map(repr, of)) or 'no entries'}"
        )
        raise


def scores_of(result: Any, count: int, metrics: Sequence[str]) -> dict[str, Tensor]:
    """What a reward function returned, as float32 tensors ``[count]``: ``"reward"`` and the metrics.

    Args:
        result: what it returned.
        count: how many conversations it was given.
        metrics: the names of the metrics that it has to give.

    Raises:
        TypeError: values are no numbers.
        ValueError: other metrics, another number of values, or one that is NaN or infinite; the text says which.
    """
    scores = result if isinstance(result, Scores) else Scores(result)
    if set(scores.metrics) != set(metrics):
        raise ValueError(
            f"the reward function gave the metrics {sorted(scores.metrics)}, and the environment was told of"
            f" {sorted(metrics)}: metrics={tuple(scores.metrics)!r}"
        )
    return {
        name: _values(values, count, name)
        for name, values in {"reward": scores.reward, **scores.metrics}.items()
    }


def _values(values: Any, count: int, name: str) -> Tensor:
    try:
        found = torch.as_tensor(values).detach().to(torch.float32)
    except (RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"the reward function gave {name!r} {values!r:.80}, expected {count} numbers, one for each conversation"
        ) from error
    if found.shape == (count, 1):
        found = found.squeeze(-1)
    if found.shape != (count,):
        raise ValueError(
            f"the reward function was given {count} conversations and gave {name!r} of shape {list(found.shape)},"
            f" expected [{count}]"
        )
    if not bool(found.isfinite().all()):
        index = int((~found.isfinite()).nonzero()[0])
        raise ValueError(
            f"the reward function gave {name!r} {float(found[index])} for conversation {index}, expected a finite number"
        )
    return found
