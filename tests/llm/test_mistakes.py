"""Mistakes that are easily made with language models: each is an error that says what is wrong and what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.data import LazyTensorStorage, ReplayBuffer
from specgen_runtime.llm import (
    CallTools,
    ChatEnv,
    ChatHistory,
    History,
    KLComputation,
    KLRewardTransform,
    LogProbs,
    Masks,
    MCAdvantage,
    RetrieveKL,
    RetrieveLogProb,
    RewardModel,
    Tokens,
    ToolRegistry,
    TransformersWrapper,
    XMLBlockParser,
    as_rows,
)
from specgen_runtime.transforms import TransformedEnv
from specgen_std.losses.grpo import GRPOLoss
from specgen_std.losses.sft import SFTLoss
from tensordict import TensorDict, lazy_stack
from torch import nn

from tests.llm.conversations import CHATS, conversations, model, pair, tokenizer, wrapped
from tests.llm.models import tiny_model

USER = [{"role": "user", "content": "Hello"}]
CALL = [*USER, {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]


def answering(**keywords: Any) -> TransformersWrapper:
    sampled = {"max_new_tokens": 3, "do_sample": True}
    whole = {
        "tokenizer": tokenizer(),
        "pad_output": True,
        "return_log_probs": True,
        "generate_kwargs": sampled,
    }
    return TransformersWrapper(model(0), **{**whole, **keywords})


def prompts(*chats: Any) -> TensorDict:
    return TensorDict(history=ChatHistory(prompt=[*chats]), batch_size=(len(chats),))


@pytest.mark.parametrize("prompt", [[USER, CALL], [[], []]])
def test_conversations_tell_their_batch_size(prompt: Any) -> None:
    history = ChatHistory(prompt=prompt)
    assert history.batch_size == (2,)
    assert history.prompt.to_chats() == prompt
    assert ChatHistory(prompt=[prompt, prompt, prompt]).batch_size == (3, 2)


def test_one_conversation_has_no_batch() -> None:
    assert ChatHistory(full=USER).batch_size == ()
    assert ChatHistory(prompt=[]).prompt.to_chats() == []


@pytest.mark.parametrize(
    ("made", "error", "said"),
    [
        (lambda: ChatHistory(prompt="Hello"), TypeError, "prompt of ChatHistory: .* got str: 'Hello'"),
        (lambda: ChatHistory(prompt=["a", "b"]), TypeError, "prompt of ChatHistory: .* got str: 'a'"),
        (
            lambda: ChatHistory(prompt=[USER] * 3, full=[CALL] * 2),
            ValueError,
            r"full of ChatHistory: a batch of \[3\] has 3 rows, got 2",
        ),
        (
            lambda: ChatHistory(prompt=[USER] * 3, batch_size=(2,)),
            ValueError,
            r"a batch of \[2\] has 2 rows, got 3 conversations",
        ),
        (
            lambda: History.from_chats(USER).append({"role": "user", "content": "x"}),  # type: ignore[arg-type]
            TypeError,
            r"got dict: one message is History\(role=",
        ),
    ],
)
def test_other_things_than_conversations(made: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        made()


@pytest.mark.parametrize("name", ["deepseek", "dialogpt"])
def test_a_template_with_a_token_of_no_tokenizer(name: str) -> None:
    history = History.from_chats([*USER, {"role": "assistant", "content": "I'm well"}])
    with pytest.raises(ValueError, match=r"'eos_token' is undefined; .* give a tokenizer that has it"):
        history.apply_chat_template(tokenizer=None, chat_template_name=name)


@pytest.mark.parametrize("name", ["chatml_format", "deepseek", "dialogpt", "falcon", "llama"])
def test_a_template_that_takes_texts_alone(name: str) -> None:
    options = {"tokenizer": tokenizer(), "chat_template_name": name}
    with pytest.raises(ValueError, match=r"message 1 \(assistant\) has no text, but calls of tools: .*qwen"):
        History.from_chats(CALL).apply_chat_template(**options)
    with pytest.raises(ValueError, match=r"message 0 \(user\) has no text, but parts"):
        History.from_chats(PARTS).apply_chat_template(**options)
    silent = [*USER, {"role": "assistant", "content": None, "tool_calls": []}]
    with pytest.raises(ValueError, match=r"message 1 \(assistant\) has no text: its 'content' is None"):
        History.from_chats(silent).apply_chat_template(**options)


def test_what_is_missing_is_listed_with_the_conversations() -> None:
    with pytest.raises(KeyError, match=r"it holds \('history', 'full'\)"):
        answering()(TensorDict(history=ChatHistory(full=CHATS), batch_size=(2,)))


@pytest.mark.parametrize(("name", "value"), [("pad_to", 0), ("max_length", 0), ("autocast", "bfloat16")])
def test_numbers_of_a_wrapper(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name}.* got {value!r}"):
        wrapped(0, **{name: value})


def test_tokens_without_their_dimension() -> None:
    data = TensorDict(tokens=Tokens(prompt=torch.ones(2, dtype=torch.int64)), batch_size=(2,))
    with pytest.raises(ValueError, match=r"are \[\*batch, tokens\], the batch being \[2\]; got \[2\]"):
        answering(input_mode="tokens")(data)


def test_rows_that_are_longer_than_their_width() -> None:
    with pytest.raises(ValueError, match=r"width of 4: raise it \(pad_to\), or cut sequences \(max_length\)"):
        wrapped(0, pad_to=4)(conversations(after=False))


@pytest.mark.parametrize(("family", "field"), [("gpt2", "n_positions"), ("opt", "max_position_embeddings")])
def test_more_tokens_than_positions(family: str, field: str) -> None:
    short = tiny_model(family, tokenizer(), **{field: 8})  # type: ignore[arg-type]
    scores = TransformersWrapper(short, tokenizer=tokenizer(), generate=False, pad_output=True)
    with pytest.raises(ValueError, match=r"has 8 positions: cut it \(max_length\)"):
        scores(conversations(after=False))
    answers = TransformersWrapper(short, tokenizer=tokenizer(), generate_kwargs={"max_new_tokens": 2})
    with pytest.raises(ValueError, match=r"has 8 positions.*max_new_tokens"):
        answers(prompts(USER))
    assert "log_probs" in TransformersWrapper(
        short, tokenizer=tokenizer(), generate=False, pad_output=True, max_length=9
    )(conversations(after=False))  # the last token is scored, and read by nothing


def test_positions_that_are_computed_go_on() -> None:
    short = tiny_model("llama", tokenizer(), max_position_embeddings=8)
    scores = TransformersWrapper(short, tokenizer=tokenizer(), generate=False, pad_output=True)
    assert scores(conversations(after=False))["log_probs", "full"].shape[-1] > 9


def test_models_that_are_none() -> None:
    with pytest.raises(TypeError, match="reads input_ids; Linear does not"):
        TransformersWrapper(nn.Linear(2, 2), tokenizer=tokenizer())
    body: Any = model(0).model
    with pytest.raises(TypeError, match=r"LlamaModel gives no logits of tokens: .* load_model\(path\)"):
        TransformersWrapper(body, tokenizer=tokenizer(), generate=False)(conversations(after=False))
    with pytest.raises(TypeError, match=r"LlamaModel generates nothing: .* load_model\(path\)"):
        TransformersWrapper(body, tokenizer=tokenizer())(prompts(USER))


def chats_in(**keywords: Any) -> ChatEnv:
    return ChatEnv(["Hello", "42"], **{"group": 2, "batch_size": (4,), **keywords})


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"reward": 1.0}, "reward is a function of conversations and their rows, got 1.0"),
        ({"reward": model(0)}, r"LlamaForCausalLM reads tokens: give reward=RewardModel\(model, tokenizer\)"),
        ({"tools": ["add"]}, r"tools is a function .* CallTools\(registry, parser\), got \['add'\]"),
    ],
)
def test_what_an_environment_calls(keywords: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        chats_in(**keywords)


@pytest.mark.parametrize(
    ("keywords", "error", "said"),
    [
        ({"system_prompt": 3}, TypeError, "system_prompt is a text, got 3"),
        ({"data_key": "group"}, ValueError, "data_key='group' is an entry of the environment's own"),
        ({"batch_size": (0,)}, ValueError, "groups of 2 don't fill a batch of 0"),
        ({"group": 0}, ValueError, "groups of 0 don't fill a batch of 4"),
        ({"input_mode": "text", "tokenizer": "./nowhere"}, OSError, "there is no folder './nowhere'"),
    ],
)
def test_arguments_of_an_environment(keywords: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        chats_in(**keywords)


def test_a_step_of_what_no_reset_gave() -> None:
    data = TensorDict(history=ChatHistory(full=[CHATS[0]] * 4), batch_size=(4,))
    with pytest.raises(
        KeyError, match="a step of ChatEnv reads 'query', which a reset writes: it is missing"
    ):
        chats_in().step(data)


def test_tokens_of_another_width_than_the_models() -> None:
    """What is written is to be of the width that specs tell."""
    kl = RetrieveKL(**pair(pad_to=64))
    env = TransformedEnv(chats_in(), kl)
    with pytest.raises(
        ValueError, match=r"are \d+ wide, and pad_to=64: give it to the wrapper that writes them, too"
    ):
        env.rollout(1, answering())
    assert env.rollout(1, answering(pad_to=64))["next", "kl_penalty"].shape == (4, 1, 64)


@pytest.mark.parametrize("made", [RetrieveLogProb, lambda model, **given: RetrieveKL(**pair(), **given)])
def test_what_rows_without_answers_are(made: Any) -> None:
    with pytest.raises(ValueError, match="empty is 'error' or 'zero', got 'skip'"):
        made(wrapped(0), empty="skip")


@pytest.mark.parametrize("given", [None, ["good"] * 4])
def test_rewards_that_are_no_numbers(given: Any) -> None:
    with pytest.raises(TypeError, match=r"gave 'reward' .* expected 4 numbers"):
        chats_in(reward=lambda answers, rows: given).rollout(1, answering())


@pytest.mark.parametrize("said", ["5", {"role": "tool", "content": "5"}])
def test_tools_that_give_no_list(said: Any) -> None:
    with pytest.raises(TypeError, match="tools give a list of messages, or None"):
        chats_in(tools=lambda chat, row: said, max_turns=2).rollout(2, answering())
    with pytest.raises(ValueError, match=r"tools gave \[\{'text': 'x'\}\]: .* needs a 'role'"):
        chats_in(tools=lambda chat, row: [{"text": "x"}], max_turns=2).rollout(2, answering())


class Add:
    name, schema_in, schema_out = "add", {"a": int}, {"sum": int}

    def __call__(self, a: int) -> dict[str, int]:
        return {"sum": a + 1}


def test_what_is_no_tool() -> None:
    for wrong in (Add, lambda a: a):
        with pytest.raises(TypeError, match="a tool is an object with a name"):
            ToolRegistry([wrong])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="by a ToolRegistry and a ToolParser"):
        CallTools([Add()], XMLBlockParser())  # type: ignore[arg-type]


def test_what_is_no_reward_model() -> None:
    with pytest.raises(TypeError, match=r"model is a module, .*from_pretrained\(path\), got './rewards'"):
        RewardModel("./rewards", tokenizer())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="give its tokenizer"):
        RewardModel(model(0), None)


def test_several_answers_to_a_conversation() -> None:
    with pytest.raises(RuntimeError, match=r"8 conversations, the batch \[4\]: .*group=.*num_samples"):
        chats_in().rollout(1, answering(num_samples=2))


@pytest.mark.parametrize("rows", [1, 4])
def test_advantages_of_other_shapes(rows: int) -> None:
    """One without its last dimension would be multiplied with all others, where there is one row."""
    env = ChatEnv(["Hello", "42"], group=rows, batch_size=(rows,))
    data = env.rollout(1, answering())[:, 0]
    width = data["tokens", "full"].shape[-1]
    loss = GRPOLoss(wrapped(0, log_probs_key="log_probs"))
    for shape in [(rows,), (rows, width), (rows, 2), (rows, width, 2)]:
        if shape == (1,):
            continue  # one number
        said = rf"the advantage has the shape {[*shape]}, where samples make it {[rows, width, 1]}, or {[rows, 1]}"
        with pytest.raises(ValueError, match=said.replace("[", r"\[")):
            loss(data.copy().set("advantage", torch.zeros(shape)))
    for shape in [(rows, 1), (rows, width, 1)]:
        assert loss(data.copy().set("advantage", torch.ones(shape)))["loss_objective"].isfinite()


def test_a_storage_of_tensors_says_what_keeps_conversations() -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(8))
    with pytest.raises(TypeError, match=r"ListStorage and LazyStackStorage keep objects"):
        buffer.extend(TensorDict({"chat": as_rows(CHATS, (2,))}, (2,)))


def test_masks_of_other_tokens() -> None:
    kl = RetrieveKL(**pair(), mask_key="counted")
    with pytest.raises(KeyError, match=r"there is no mask of .* at 'counted'"):
        kl(conversations(after=False))
    with pytest.raises(ValueError, match=r"mask at 'counted' is \[2, 3\], the tokens \[2, "):
        kl(conversations(after=False).set("counted", torch.ones(2, 3).bool()))


def test_penalties_of_log_probs_that_nobody_observes() -> None:
    reference = RetrieveLogProb(wrapped(1, pad_to=64), log_probs_full_key=("ref_log_probs", "full"))
    env = TransformedEnv(TransformedEnv(chats_in(), reference), KLComputation())
    with pytest.raises(KeyError, match=r"does not observe: put RetrieveLogProb in front.*KLRewardTransform"):
        env.rollout(1, answering(pad_to=64))
    silent = answering(return_log_probs=False)
    with pytest.raises(KeyError, match="a policy writes it with return_log_probs=True"):
        TransformedEnv(chats_in(), KLRewardTransform(wrapped(1))).rollout(1, silent)


def test_models_that_are_not_wrapped() -> None:
    with pytest.raises(
        TypeError, match=r"wrap it, specgen_runtime.llm.TransformersWrapper\(model, tokenizer="
    ):
        chats_in().rollout(1, tiny_model("gpt2"))


@pytest.mark.parametrize("transform", [RetrieveLogProb, KLRewardTransform])
def test_transforms_of_models_that_are_not_wrapped(transform: Any) -> None:
    said = (
        r"model is a TransformersWrapper, got transformers.*LlamaForCausalLM: wrap it, .*, generate=False\)"
    )
    with pytest.raises(TypeError, match=said):
        transform(model(0))


@pytest.mark.parametrize("loss", [GRPOLoss, SFTLoss])
def test_losses_of_models_that_are_not_wrapped(loss: Any) -> None:
    said = r"LlamaForCausalLM.*rap it, specgen_runtime.llm.TransformersWrapper\(model, tokenizer=tokenizer, generate=False\)"
    with pytest.raises(TypeError, match=said):
        loss(model(0))(conversations(after=False))


def test_groups_that_never_become_full() -> None:
    """An environment gives 4 answers to each prompt, where 8 are waited for."""

    def trajectory(group: int) -> TensorDict:
        after = {"reward": torch.ones(1, 1), "done": torch.ones(1, 1, dtype=torch.bool)}
        return TensorDict(group=torch.tensor([[group]]), next=after, batch_size=(1,))

    transform = MCAdvantage(8, prompt_key="group")
    for number in range(799):
        assert transform.inv(trajectory(number // 4)) is None
    said = (
        r"waits for 8 trajectories of a group, and none of the first 800 has completed one: there are 200 groups at "
        r"'group', of 4 at most. .*ChatEnv\(group=4\)"
    )
    with pytest.warns(UserWarning, match=said):
        assert transform.inv(trajectory(199)) is None
    transform.inv(trajectory(200))  # a second warning would be an error


def test_coefficients_that_follow_nothing() -> None:
    for target in (0.0, -1.0):
        with pytest.raises(ValueError, match=f"target_kl is above 0, got {target}"):
            RetrieveKL(**pair(), target_kl=target)
    with pytest.raises(ValueError, match="coeff=0 stays 0, since target_kl multiplies it"):
        KLComputation(coeff=0.0, target_kl=0.1)
    kl: Any = KLComputation()
    for wrong in ("0.1", None):
        with pytest.raises(TypeError, match=f"coeff is a number, got {wrong!r}"):
            kl.coeff = wrong
        with pytest.raises(TypeError, match=f"coeff is a number, got {wrong!r}"):
            KLComputation(coeff=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("cls", [Tokens, LogProbs, Masks])
def test_lists_of_rows(cls: Any) -> None:
    rows = [torch.arange(3), torch.arange(5)]
    name = "all_attention_mask" if cls is Masks else "full"
    with pytest.raises(TypeError, match=rf"lazy_stack\(\[{cls.__name__}\({name}=row\) for row in rows\]\)"):
        cls(**{name: rows}, batch_size=[2])
    stacked = lazy_stack([cls(**{name: row}) for row in rows])
    assert [len(row) for row in stacked.get(name, as_list=True)] == [3, 5]
