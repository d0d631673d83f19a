"""`ChatEnv` with texts in place of conversations: rendered by chat templates, and read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from specgen_runtime.llm import ChatEnv, History, chats_of
from specgen_runtime.llm.conversations.messages import as_rows
from tensordict import TensorDictBase

from tests.llm.models import tiny_tokenizer
from tests.llm.test_chat_env import DATA, again, contents, say


def write(text: str) -> Callable[[Any], Any]:
    """A policy that reads and writes texts."""

    def policy(tensordict: TensorDictBase) -> TensorDictBase:
        full = [prompt + text for prompt in tensordict.get(("text", "prompt")).tolist()]
        return tensordict.set(("text", "full"), as_rows(full, tensordict.batch_size))

    return policy


ENDS = {"chatml_format": "<|im_end|>", "llama": "<|eot|>", "deepseek": "<|im_end|>", "falcon": ""}


@pytest.mark.parametrize("name", ENDS)
def test_texts(name: str) -> None:
    tokenizer = tiny_tokenizer(None)
    options = {"chat_template_name": name}
    env = ChatEnv(
        DATA, tools=again, input_mode="text", tokenizer=tokenizer, template_kwargs=options, max_turns=9
    )
    spoken = ChatEnv(DATA, tools=again, max_turns=9)
    lead = " " if name in ("deepseek", "falcon") else ""
    data = env.rollout(5, write(f"{lead}yes{ENDS[name]}\n"))[0]
    wanted = spoken.rollout(5, say("yes"))[0]
    assert len(data) == len(wanted) == 3
    for step, other in zip(data["next"], wanted["next"], strict=True):
        assert contents(step) == contents(other)
        chat = chats_of(step.get(("history", "prompt")))[0]
        text = History.from_chats(chat).apply_chat_template(tokenizer=tokenizer, chat_template_name=name)
        assert step.get(("text", "prompt")).data == text
    assert (
        data[1].get(("text", "prompt")).data.startswith(data[0].get(("text", "prompt")).data + f"{lead}yes")
    )


def test_an_answer_without_an_end() -> None:
    env = ChatEnv(["a"], input_mode="text", tokenizer=tiny_tokenizer())
    for text, complete in (("yes", False), ("yes<|im_end|>", True), ("yes<|im_end|>no", True)):
        step = env.step(write(text)(env.reset()))["next"]
        message = chats_of(step.get(("history", "prompt")))[0][-1]
        assert (message["content"], message.get("is_complete", True)) == ("yes", complete)
    root = env.reset().set(("text", "full"), as_rows(["something else"], (1,)))
    with pytest.raises(
        RuntimeError, match=r"of row 0 does not begin with \('text', 'prompt'\): 'something else'"
    ):
        env.step(root)
