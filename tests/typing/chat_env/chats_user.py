"""Functions as the Protocols say: both type checkers are content with them and with the generated module."""

from collections.abc import Iterator, Sequence

from chats_rl.chats import ExactRewardRow, GradedRewardRow, MarksRow, SumsRow
from specgen_runtime.llm import Message, Scores
from torch import Tensor, nn, tensor


def load() -> list[SumsRow]:
    return [{"query": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(6)]


def marks() -> Iterator[MarksRow]:
    yield {"asked": "a", "marks": [0.0, 1.0]}


def words() -> list[str]:
    return ["a", "b"]


def exact(answers: Sequence[Sequence[Message]], rows: Sequence[ExactRewardRow]) -> Tensor:
    return tensor(
        [float(chat[-1]["content"] == row["answer"]) for chat, row in zip(answers, rows, strict=True)]
    )


def graded(answers: Sequence[Sequence[Message]], rows: Sequence[GradedRewardRow]) -> Scores:
    return Scores([sum(row["marks"]) for row in rows], length=[float(len(chat)) for chat in answers])


def hint(chat: Sequence[Message], row: SumsRow) -> list[Message] | None:
    return None if chat[-1]["content"] == row["answer"] else [{"role": "user", "content": row["answer"]}]


def make_model() -> nn.Module:
    return nn.Identity()
