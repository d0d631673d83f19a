"""Teach a tiny language model, which begins with random weights, to repeat a letter: GRPO with a KL penalty.

    python examples/grpo_tiny.py [--seed 0]

A question is a letter, the answer is to be that letter four times. Eight answers to a question are a group; `RetrieveKL`
takes the distance to the model as it was at first from their rewards. Nothing is downloaded: tokenizer and model are
made here. Exit code 0 if the mean score of the last answers is at least 0.6 of 1, else 1.
`docs/language_models.md` says what to change for a real model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import tokenizers
import torch
import transformers
from specgen_runtime.llm import (
    ChatEnv,
    Message,
    RetrieveKL,
    Scores,
    TransformersWrapper,
    group_advantage,
)
from specgen_runtime.transforms import TransformedEnv
from specgen_std.losses.grpo import GRPOLoss
from tqdm import tqdm

matplotlib.use("Agg")
from matplotlib import pyplot

LETTERS = "abcdefgh"
LENGTH = 4  # of a right answer
GROUP = 8  # answers to one question
QUESTIONS = 8  # at once
ITERATIONS = 150
EPOCHS = 2  # updates on the same answers
COEFF = 0.01  # of the KL penalty
ASKED = 0.6
PICTURE = Path("runs/grpo_tiny.png")

TEMPLATE = (
    "{% for message in messages %}{{ '<' + message['role'] + '>' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<end>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<end>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


class Point(NamedTuple):
    """One point of the learning curve, of the answers of one iteration."""

    score: float
    kl: float


def make_tokenizer() -> Any:
    """A tokenizer of single letters, with a chat template."""
    special = ["<pad>", "<user>", "<assistant>", "<end>"]
    ids = {token: number for number, token in enumerate([*special, *LETTERS])}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="<pad>"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    backend.decoder = tokenizers.decoders.Fuse()
    backend.add_special_tokens(special)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<end>", padding_side="left"
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def make_model(tokenizer: Any) -> Any:
    """A Llama of two layers, 84,000 weights."""
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=32,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


def repeated(answers: Sequence[Sequence[Message]], rows: Sequence[Mapping[str, Any]]) -> Scores:
    """The share of the answer that is the letter that was asked for, of four letters at least."""
    scores = []
    for chat, row in zip(answers, rows, strict=True):
        said = str(chat[-1]["content"])
        scores.append(said[:LENGTH].count(row["query"]) / max(LENGTH, len(said)))
    return Scores(scores, score=scores)


def train(seed: int) -> list[Point]:
    """Train; returns the learning curve."""
    torch.manual_seed(seed)
    tokenizer = make_tokenizer()
    model, first = make_model(tokenizer), make_model(tokenizer)
    first.load_state_dict(model.state_dict())
    policy = TransformersWrapper(
        model,
        tokenizer=tokenizer,
        generate_kwargs={"max_new_tokens": LENGTH + 2, "do_sample": True},
        pad_output=True,
        return_log_probs=True,
    )
    scorer = policy.get_new_version(generate=False)
    reference = TransformersWrapper(first, tokenizer=tokenizer, generate=False, pad_output=True)
    env = TransformedEnv(
        ChatEnv(
            list(LETTERS), reward=repeated, metrics=["score"], group=GROUP, batch_size=(GROUP * QUESTIONS,)
        ),
        RetrieveKL(gen_model=scorer, ref_model=reference, coeff=COEFF),
    )
    env.set_seed(seed)
    loss_module = GRPOLoss(scorer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    curve: list[Point] = []
    with tqdm(total=ITERATIONS, unit=" batches", desc="training", disable=None) as progress:
        for _ in range(ITERATIONS):
            with torch.no_grad():
                data = env.rollout(1, policy)[:, 0]
            data["advantage"] = group_advantage(data["next", "reward"], data["group"])
            for _ in range(EPOCHS):
                losses = loss_module(data)
                loss = losses["loss_objective"] + losses["loss_entropy"]
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            score = data["next", "metrics", "score"].mean()
            kl = data["next", "kl_penalty"].sum(-1).mean()
            curve.append(Point(float(score), float(kl)))
            progress.update()
            progress.set_postfix_str(f"score {curve[-1].score:.2f}, KL {curve[-1].kl:.1f}")
    return curve


def draw(curve: Sequence[Point], path: Path) -> None:
    """Save the learning curve as a picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.plot([point.score for point in curve], color="tab:blue")
    axes.set(xlabel="batches of answers", ylim=(0, 1))
    axes.set_ylabel("mean score", color="tab:blue")
    right = axes.twinx()
    right.plot([point.kl for point in curve], color="tab:orange")
    right.set_ylabel("KL of an answer to the first model, nats", color="tab:orange")
    axes.set_title("GRPO with a KL penalty on a tiny language model")
    figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot.close(figure)


def main() -> int:
    """Train, say what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    seed: int = parser.parse_args().seed
    torch.set_num_threads(1)  # the tensors are small: a second thread would only be in the way

    curve = train(seed)
    draw(curve, PICTURE)
    last = curve[-10:]
    score = sum(point.score for point in last) / len(last)
    print(f"mean score of the first batch {curve[0].score:.2f}, of the last ten {score:.2f} (asked: {ASKED})")
    print(f"the learning curve is in {PICTURE}")
    return 0 if score >= ASKED else 1


if __name__ == "__main__":
    sys.exit(main())
