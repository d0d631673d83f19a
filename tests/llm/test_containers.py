"""`History` and the containers: shapes, stacking, conversion to texts and tokens and back, specs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.llm import ChatHistory, History, LogProbs, Masks, Text, Tokens, chats_of
from specgen_runtime.llm.conversations.messages import Chat
from specgen_runtime.ragged import Ragged, rows_at, stacked_rows
from specgen_runtime.specs import NonTensor
from tensordict import NonTensorStack, TensorDict, set_list_to_stack

from tests.llm.models import tiny_tokenizer

LONG: Chat = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "I'm well"}]
SHORT: Chat = LONG[:1]
CALL: Any = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "1"}],
    "name": "m",
    "is_complete": False,
}


# ------------------------------------------------------------------- history


def test_shapes() -> None:
    assert History.from_chats(LONG).shape == (2,)
    assert History.from_chats([LONG, LONG, LONG]).shape == (3, 2)
    assert History.from_chats([LONG, SHORT]).shape == (2, -1)
    assert History.from_chats([[LONG, SHORT], [SHORT, SHORT]]).shape[:2] == (2, 2)


@pytest.mark.parametrize(
    "chats", [LONG, [LONG, SHORT], [[LONG, LONG], [SHORT, SHORT]], [[CALL, *LONG], [*LONG, CALL]]]
)
def test_messages_are_kept(chats: Any) -> None:
    assert History.from_chats(chats).to_chats() == chats
    assert chats_of(History.from_chats(chats)) == chats_of(chats)


def test_columns_and_index() -> None:
    history = History.from_chats([[*LONG, CALL], LONG])
    assert history[..., -1].content == [None, "I'm well"]
    assert history[0].role == ["user", "assistant", "assistant"]
    assert history[0, 2].tool_calls == [{"id": "1"}]
    assert history[0].is_complete == [True, True, False]
    assert history[1, 0].extra is None


def test_messages_made_one_by_one() -> None:
    history: Any = torch.stack(
        [History(role="user", content="a"), History(role="tool", content="b", tool_calls=[{"id": "1"}])]
    )
    assert history.shape == (2,)
    assert history.to_chats() == [
        {"role": "user", "content": "a"},
        {"role": "tool", "content": "b", "tool_calls": [{"id": "1"}]},
    ]
    assert History(role=["user", "tool"], content=["a", "b"], batch_size=(2,)).to_chats()[1]["role"] == "tool"
    with pytest.raises(TypeError, match="list of messages"):
        chats_of(History(role="user", content="a"))


def test_placeholders_are_no_messages() -> None:
    history = History.from_chats([*LONG, {"role": "<none>", "content": ""}])
    assert chats_of(history) == [LONG]


@pytest.mark.parametrize("inplace", [False, True])
def test_append_and_extend(inplace: bool) -> None:
    one = History(role="user", content="x")
    history = History.from_chats(LONG)
    grown = history.append(one, inplace=inplace)
    assert grown.content == ["Hello", "I'm well", "x"]
    assert history.shape == ((3,) if inplace else (2,))
    rows = History.from_chats([LONG, SHORT]).append(History.from_chats([SHORT[0], LONG[1]]), inplace=inplace)
    assert rows.to_chats() == [[*LONG, SHORT[0]], [*SHORT, LONG[1]]]
    assert History.from_chats([LONG]).extend(History.from_chats([SHORT, LONG])).to_chats() == [
        LONG,
        SHORT,
        LONG,
    ]
    assert History.from_chats([LONG, SHORT]).extend(History.from_chats([LONG, LONG]), dim=1)[0].shape == (4,)
    assert History.from_chats([LONG]).append(History.from_chats(SHORT), dim=0).to_chats() == [LONG, SHORT]


def test_equal_messages() -> None:
    """Comparisons are columns of truth values, of one row of conversations as of a single message."""
    rows = History.from_chats([[*LONG, CALL]])
    assert bool((rows == rows.copy()).all())
    assert not bool((rows[:, :2] == rows[:, 1:]).all())
    assert bool((rows[0, 1] == History(role="assistant", content="I'm well")).all())
    chats = ChatHistory(full=[LONG, SHORT], batch_size=[2])
    assert bool((chats == chats.copy()).all())
    assert not bool((chats == ChatHistory(full=[LONG, LONG], batch_size=[2])).all())


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(RuntimeError, match="unsqueeze"):
        History(role="user", content="a").append(History(role="user", content="b"))
    with pytest.raises(RuntimeError, match=r"shape \[2\] cannot be added to one of shape \[2\]"):
        History.from_chats(LONG).append(History.from_chats(LONG))
    with pytest.raises(RuntimeError, match="2 rows cannot be added to 1 rows"):
        History.from_chats([LONG]).append(History.from_chats(LONG), dim=1)


def test_what_is_no_conversation_is_refused() -> None:
    with pytest.raises(
        ValueError, match="message 1 needs a 'role', a string, got None; it has 'rol', 'content'"
    ):
        History.from_chats([LONG[0], {"rol": "user", "content": "a"}])
    with pytest.raises(ValueError, match="message 0 needs a 'content'; it has 'role'"):
        History.from_chats([[{"role": "user"}]])
    wrong: Any
    for wrong in ("a", [LONG, 3], [[LONG, "ab"]]):
        with pytest.raises(TypeError, match="a list of messages, or of such lists, is needed, got"):
            History.from_chats(wrong)
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": {}}}]}
    assert History.from_chats([call]).to_chats() == [{**call, "content": None}]


def test_texts_and_tokens_of_a_history() -> None:
    tokenizer = tiny_tokenizer()
    one, rows = History.from_chats(LONG), History.from_chats([LONG, SHORT])
    text = tokenizer.apply_chat_template(LONG, tokenize=False)
    assert one.apply_chat_template(tokenizer=tokenizer, add_generation_prompt=False) == text
    texts = rows.apply_chat_template(tokenizer=tokenizer)
    assert texts[0] == text + "<|im_start|>assistant\n"
    assert History.from_text(texts, tokenizer=tokenizer).to_chats() == [LONG, SHORT]
    options = {"tokenizer": tokenizer, "add_generation_prompt": False, "return_assistant_tokens_mask": True}
    said = rows.apply_chat_template(padding=True, **options)["assistant_masks"].any(-1)
    assert said.tolist() == [True, False], "nobody of the assistant's says anything in the second one"
    with pytest.raises(ValueError, match=r"row 0 .* has no token of assistant"):
        rows.apply_chat_template(truncation=True, max_length=3, **options)
    both = History.from_chats([LONG, [*SHORT, *LONG]])
    data = both.apply_chat_template(padding=True, **options)
    ids = tokenizer(text)["input_ids"]
    assert data.batch_size == (2,)
    assert data["input_ids"][0][data["attention_mask"][0].bool()].tolist() == ids
    assert data["input_ids"][0, 0] == tokenizer.pad_token_id
    assert tokenizer.decode(data["input_ids"][0][data["assistant_masks"][0].bool()]) == "I'm well<|im_end|>"
    ragged = both.apply_chat_template(**options)
    assert ragged.get("input_ids", as_list=True)[0].tolist() == ids
    assert one.apply_chat_template(**options)["input_ids"].tolist() == ids
    tokens = one.apply_chat_template(
        tokenizer=tokenizer, tokenize=True, return_dict=False, add_generation_prompt=False
    )
    assert tokens.tolist() == ids


# ---------------------------------------------------------------- containers

WAYS: dict[str, Callable[[Any], Any]] = {
    "index": lambda data: data[[1, 0]][[1, 0]],
    "mask": lambda data: data[torch.tensor([True, True])],
    "clone": lambda data: data.clone(),
    "pickle": lambda data: pickle.loads(pickle.dumps(data)),
    "device": lambda data: data.to("cpu"),
    "stack": lambda data: torch.stack([data, data])[1],
    "concatenate": lambda data: torch.cat([data, data])[:2],
    "expand": lambda data: data.expand(3, 2)[2],
    "reshape": lambda data: data.reshape(2, 1).reshape(-1),
    "unbind": lambda data: torch.stack(list(data.unbind(0))),
}


@pytest.mark.parametrize("way", WAYS)
def test_attributes_are_histories_and_entries_are_rows(way: str) -> None:
    history = History.from_chats([LONG, SHORT])
    data = TensorDict(
        history=ChatHistory(full=history), next=TensorDict(history=ChatHistory(full=history)), batch_size=(2,)
    )
    for place in ("history", ("next", "history")):
        after = WAYS[way](data)[place]
        assert isinstance(after, ChatHistory)
        assert after.batch_size == (2,)
        assert isinstance(after.full, History)
        assert after.full.shape == (2, -1)
        assert after.full.to_chats() == [LONG, SHORT]
        assert isinstance(after.get("full"), NonTensorStack)
        assert after.prompt is None
    assert data[1]["history"].full.to_chats() == SHORT


def test_what_is_assigned() -> None:
    chat = ChatHistory(prompt=[LONG, SHORT], batch_size=(2,))
    chat.full = History.from_chats([LONG, LONG])
    chat.response = [SHORT, SHORT]
    assert chat.prompt.to_chats() == [LONG, SHORT]
    assert chat.full.to_chats() == [LONG, LONG]
    assert chats_of(chat.get("response")) == [SHORT, SHORT]
    assert ChatHistory(full=LONG).full.shape == (2,)
    with pytest.raises(ValueError, match="2 rows, got 1"):
        chat.full = LONG


def test_one_message_for_each_row() -> None:
    rows = History.from_chats([LONG, [CALL, *SHORT]])
    data = ChatHistory(prompt=rows[:, 0], batch_size=(2,))
    assert chats_of(data.get("prompt")) == [SHORT, [CALL]]
    data.response = rows[:, 1]
    assert data.response.shape == (2, 1)


def test_lists_of_texts_have_a_batch() -> None:
    with set_list_to_stack(True):
        text = Text(prompt=["Hello"], full=["Hello you"])
    assert text.batch_size == (1,)
    tokens = text.to_tokens(tiny_tokenizer())
    assert tokens.padded is False
    assert tokens.to_text(tiny_tokenizer()).full == ["Hello you"]


def test_conversations_as_texts_and_tokens_and_back() -> None:
    tokenizer = tiny_tokenizer()
    prompts, fulls = [SHORT, [*LONG, *SHORT]], [LONG, [*LONG, *LONG]]
    chat = ChatHistory(prompt=prompts, full=fulls, batch_size=(2,))
    text = chat.to_text(tokenizer)
    assert text.full == [tokenizer.apply_chat_template(each, tokenize=False) for each in fulls]
    assert text.response == ["I'm well<|im_end|>\n"] * 2
    tokens = chat.to_tokens(tokenizer)
    prompt, response, full = (rows_at(tokens._tensordict, name) for name in ("prompt", "response", "full"))
    assert prompt is not None
    assert full is not None
    assert response is not None
    for k in range(2):
        assert torch.equal(torch.cat([prompt[k], response[k]]), full[k])
        assert full[k].tolist() == tokenizer(text.full[k])["input_ids"]
    assert tokens.to_text(tokenizer).full == text.full
    back = tokens.to_history(tokenizer)
    assert back.full.to_chats() == fulls
    assert back.prompt.to_chats() == prompts
    assert back.response.to_chats() == [[LONG[1]], [LONG[1]]]
    padded = text.to_tokens(tokenizer, padding=True)
    assert padded.full.shape == (2, len(full[1]))
    with pytest.raises(ValueError, match="row 0: the rendering of full does not begin"):
        ChatHistory(prompt=[LONG], full=[SHORT], batch_size=(1,)).to_text(tokenizer)
    with pytest.raises(ValueError, match="padding from what was said"):
        Tokens(full=padded.full, padded=True, batch_size=(2,)).to_text(tokenizer)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_specs(shape: tuple[int, ...]) -> None:
    for kind, key in ((ChatHistory, "full"), (Text, "prompt")):
        spec = kind.default_spec(shape)
        value = spec.rand()
        assert isinstance(value, kind)
        assert value.batch_size == shape
        assert spec.is_in(value)
        assert isinstance(spec[key], NonTensor)
        assert list(kind.default_spec(shape, [key]).keys()) == [key]
    ids = TensorDict(full=torch.zeros(*shape, 5, dtype=torch.int64), batch_size=shape)
    assert Tokens.default_spec(shape, ["full"]).is_in(Tokens._from_tensordict(ids))
    assert Tokens.default_spec(shape)["prompt"].shape == (*shape, -1)
    assert Masks.default_spec(shape)["all_assistant_mask"].dtype == torch.bool
    assert LogProbs.default_spec(shape)["full"].dtype == torch.float32
    history = History.default_spec((*shape, 4))
    assert history.rand().shape == (*shape, 4)


# -------------------------------------------------------------- ragged rows


def test_ragged_rows() -> None:
    rows = [torch.tensor([1, 2, 3]), torch.tensor([], dtype=torch.int64), torch.tensor([4])]
    ragged = Ragged.of(rows)
    assert ragged.padded(9, "left").tolist() == [[1, 2, 3], [9, 9, 9], [9, 9, 4]]
    assert ragged.padded(9, "right", 4).tolist() == [[1, 2, 3, 9], [9, 9, 9, 9], [4, 9, 9, 9]]
    assert ragged.mask("left").tolist() == [[True] * 3, [False] * 3, [False, False, True]]
    for side in ("left", "right"):
        again = Ragged.of_padded(ragged.padded(0, side, 5), ragged.mask(side, 5))
        assert [row.tolist() for row in again.rows()] == [row.tolist() for row in rows]
    with pytest.raises(ValueError, match="row 0 has 3 tokens"):
        ragged.padded(width=2)
    with pytest.raises(ValueError, match="'left' or 'right', got 'up'"):
        ragged.padded(side="up")
    assert Ragged.of([], torch.bool).padded().shape == (0, 0)


def test_gradients_go_through_padding() -> None:
    values = torch.ones(3, requires_grad=True)
    Ragged(values, torch.tensor([0, 1, 3])).padded(0.0, "left").mul(
        torch.tensor([[5.0, 2.0], [3.0, 4.0]])
    ).sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    assert values.grad.tolist() == [2.0, 3.0, 4.0]


def test_ragged_rows_in_tensordicts_have_a_shape() -> None:
    data = TensorDict(log_probs=stacked_rows(full=[torch.zeros(3), torch.zeros(1)]), batch_size=(2,))
    assert "torch.Size([2, -1])" in repr(data)
    rows = rows_at(data, ("log_probs", "full"))
    assert isinstance(rows, list)
    assert [len(row) for row in rows] == [3, 1]
    assert rows_at(data, "absent") is None
