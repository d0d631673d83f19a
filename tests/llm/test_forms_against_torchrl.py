"""What TorchRL's classes of language models write, beside ours: entry by entry, with dtypes and shapes.

Where they differ, the entry is in `DIFFERENT` with what ours is, and in docs/differences.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import specgen_runtime.llm
import tensordict
import torch
from tensordict import TensorDict
from torch import Tensor

from tests.llm.models import tiny_model, tiny_tokenizer

pytest.importorskip("torchrl")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

Mode = Literal["history", "text", "tokens"]
Form = Mapping[str, str]

CHATS = [
    [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "Hello, how are you?"},
        {"role": "assistant", "content": "I'm doing well, thank you!"},
    ],
    [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "What's the weather like?"},
        {"role": "assistant", "content": "I can't check the weather for you."},
    ],
]
"""Those of the example of `RetrieveKL`."""

PROMPTS = [chat[:2] for chat in CHATS]
TEXTS = {
    part: specgen_runtime.llm.History.from_chats(chats).apply_chat_template(
        tokenizer=None, chat_template_name="chatml_format", add_generation_prompt=part == "prompt"
    )
    for part, chats in {"prompt": PROMPTS, "full": CHATS}.items()
}


def classes(ours: bool) -> Any:
    names: tuple[str, ...] = (
        "History",
        "ChatHistory",
        "Text",
        "Tokens",
        "Masks",
        "LogProbs",
        "TransformersWrapper",
    )
    names += ("RetrieveLogProb", "RetrieveKL", "KLComputation")
    if ours:
        return SimpleNamespace(**{name: getattr(specgen_runtime.llm, name) for name in names})
    places = (
        "torchrl.data.llm",
        "torchrl.modules.llm.policies",
        "torchrl.modules.llm",
        "torchrl.envs.llm.transforms",
    )
    modules = [importlib.import_module(place) for place in places]
    return SimpleNamespace(
        **{name: next(getattr(one, name) for one in modules if hasattr(one, name)) for name in names}
    )


@pytest.fixture(autouse=True)
def _lists_are_stacks() -> Any:
    before = tensordict.list_to_stack()
    tensordict.set_list_to_stack(True).set()
    yield
    tensordict.set_list_to_stack(before).set()


def said_of(value: Any) -> str:
    """A value as its kind, dtype and shape; objects by their class."""
    if isinstance(value, Tensor) and value.is_nested:
        return f"nested {value.dtype} {[tuple(row.shape) for row in value.unbind(0)]}"
    if isinstance(value, Tensor):
        return f"{value.dtype} {tuple(value.shape)}"
    if isinstance(value, list):
        return f"rows {[said_of(row) for row in value]}"
    return f"{type(value).__name__} {tuple(value.shape)}"


def form_of(data: Any) -> Form:
    """All entries, containers too, by their dotted names."""
    made = {}
    for key in data.keys(True):
        try:
            value = data.get(key)
        except RuntimeError:  # rows of different lengths
            value = data.get(key, as_list=True)
        made[key if isinstance(key, str) else ".".join(key)] = said_of(value)
    return made


TOKENIZER = tiny_tokenizer()


def wrapper(names: Any, seed: int = 0, **given: Any) -> Any:
    whole = {"tokenizer": TOKENIZER, "generate": False, "return_log_probs": True, "pad_output": True, **given}
    return names.TransformersWrapper(tiny_model("llama", TOKENIZER, seed=seed), **whole)


def given(names: Any, mode: Mode, part: str) -> TensorDict:
    """What a wrapper reads."""
    if mode == "history":
        history = names.History.from_chats(PROMPTS if part == "prompt" else CHATS)
        return TensorDict(history=names.ChatHistory(**{part: history}, batch_size=(2,)), batch_size=(2,))
    if mode == "text":
        text = names.Text(**{part: list(TEXTS[part])}, batch_size=(2,))
        return TensorDict(text=text, batch_size=(2,))
    encoded = TOKENIZER(list(TEXTS[part]), padding=True, return_tensors="pt")
    tokens = names.Tokens(**{part: encoded["input_ids"]}, batch_size=(2,))
    masks = names.Masks(all_attention_mask=encoded["attention_mask"].bool(), batch_size=(2,))
    return TensorDict(tokens=tokens, masks=masks, batch_size=(2,))


def after(names: Any) -> TensorDict:
    data = given(names, "history", "full")
    return data.set("next", data.copy())


@torch.no_grad()
def scored(names: Any, mode: Mode, padded: bool) -> Form:
    return form_of(wrapper(names, input_mode=mode, pad_output=padded)(given(names, mode, "full")))


@torch.no_grad()
def generated(names: Any, mode: Mode, padded: bool) -> Form:
    how: dict[str, Any] = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    if names.History is specgen_runtime.llm.History:
        how = {
            "max_new_tokens": 4,
            "do_sample": False,
            "eos_token_id": [],
        }  # the same without a changed distribution
    policy = wrapper(names, input_mode=mode, pad_output=padded, generate=True, generate_kwargs=how)
    return form_of(policy(given(names, mode, "prompt")))


def log_probs(names: Any, padded: bool, **options: Any) -> Form:
    return form_of(names.RetrieveLogProb(wrapper(names, pad_output=padded), **options)(after(names))["next"])


def penalty(names: Any, padded: bool, **options: Any) -> Form:
    policy = wrapper(names, pad_output=padded, log_probs_key="gen_log_probs")
    reference = wrapper(names, 1, pad_output=padded, log_probs_key="ref_log_probs")
    made = names.RetrieveKL(gen_model=policy, ref_model=reference, **options)(after(names))
    return form_of(made["next"])


def of_log_probs(names: Any) -> Form:
    values = {"log_probs": {"full": torch.rand(2, 3)}, "ref_log_probs": {"full": torch.rand(2, 3)}}
    keys = ("log_probs", "full"), ("ref_log_probs", "full")
    made = names.KLComputation(*keys, add_to_reward=False)(
        TensorDict(next=TensorDict(values, (2,)), batch_size=(2,))
    )
    return form_of(made["next"])


def of_mode(run: Callable[..., Form], mode: str, padded: bool) -> Callable[[Any], Form]:
    return lambda names: run(names, mode, padded)


CASES: dict[str, Callable[[Any], Form]] = {
    **{
        f"{verb} {mode} {'padded' if padded else 'ragged'}": of_mode(run, mode, padded)
        for verb, run in {"score": scored, "generate": generated}.items()
        for mode in ("history", "text", "tokens")
        for padded in (True, False)
    },
    "RetrieveLogProb": lambda names: log_probs(names, True),
    "RetrieveLogProb ragged": lambda names: log_probs(names, False),
    "RetrieveLogProb of all tokens": lambda names: log_probs(names, True, assistant_only=False),
    "RetrieveLogProb at another key": lambda names: log_probs(
        names, True, log_probs_full_key=("said", "full")
    ),
    "RetrieveKL": lambda names: penalty(names, True),
    "RetrieveKL of all tokens": lambda names: penalty(names, True, assistant_only=False),
    "RetrieveKL at a nested key": lambda names: penalty(names, True, kl_key=("a", "kl"), add_to_reward=False),
    "RetrieveKL at other keys": lambda names: penalty(
        names, True, gen_log_probs_full_key=("gen", "full"), ref_log_probs_full_key=("ref", "full")
    ),
    "KLComputation": of_log_probs,
}

HISTORY = ("history.prompt", "history.response", "history.full")


def differing(case: str, theirs: Form, ours: Form) -> dict[str, str | None]:
    """What ours has otherwise, by a rule of docs/differences.md."""
    said: dict[str, str | None] = {}
    for name in (one for one in HISTORY if one in theirs):  # an entry is a list of messages for each row
        said |= dict.fromkeys(one for one in theirs if one.startswith(f"{name}."))
        said[name] = "NonTensorStack (2,)"
    if case.startswith("score history"):  # nobody asked for the texts
        said |= {"text": None, "text.full": None}
    if case.startswith("generate"):  # what was sampled is known of whole sequences, too
        said["masks.all_assistant_mask"] = ours["masks.all_attention_mask"]
        said["log_probs.full"] = ours["tokens.full"].replace("int64", "float32")
    for name in ("kl_penalty", "a.kl"):  # rows of one width are one tensor
        if name in theirs:
            said[name] = f"torch.float32 (2, {3 if case == 'KLComputation' else 59})"
    return said


@pytest.mark.parametrize("case", CASES)
def test_entries(case: str) -> None:
    torch.manual_seed(0)
    theirs, ours = (CASES[case](classes(mine)) for mine in (False, True))
    expected: dict[str, str] = dict(theirs)
    for name, value in differing(case, theirs, ours).items():
        assert theirs.get(name) != value, f"{name}: a difference that is none"
        expected.pop(name, None)
        if value is not None:
            expected[name] = value
    if case.startswith("Retrieve"):  # theirs are of this class where the key is the model's own
        results = [name for name, value in ours.items() if value == "LogProbs (2,)"]
        assert results
        expected |= dict.fromkeys(results, "LogProbs (2,)")
        expected |= {f"{name}.padded": ours.get(f"{name}.padded", "") for name in results}
    assert {**ours} == {name: value for name, value in expected.items() if value}


OPTIONS: list[dict[str, Any]] = [
    {"tokenize": True},
    {"return_tensors": "pt", "padding": True},
    {"return_dict": True, "return_tensors": "pt", "padding": True},
    {
        "return_dict": True,
        "return_tensors": "pt",
        "return_assistant_tokens_mask": True,
        "add_generation_prompt": False,
    },
    {"truncation": True, "max_length": 5, "return_tensors": "pt"},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("one", [True, False], ids=["one", "two"])
def test_tokens_of_a_history(one: bool, options: dict[str, Any]) -> None:
    """The numbers are the same; a conversation is a row without a dimension for one, and padded rows are a tensor."""

    def made(names: Any) -> Any:
        return names.History.from_chats(CHATS[0] if one else CHATS).apply_chat_template(
            tokenizer=TOKENIZER, **options
        )

    theirs, ours = (made(classes(mine)) for mine in (False, True))
    if options.get("return_dict"):
        keys = [*theirs.keys()]
        assert {*keys} == {*ours.keys()}
        for key in keys:
            rows = theirs.get(key) if one else theirs.get(key, as_list=True)
            found = ours.get(key) if one else ours.get(key, as_list=True)
            for row, other in zip([rows] if one else rows, [found] if one else found, strict=True):
                assert torch.equal(
                    row, other[-len(row) :]
                )  # theirs are not padded, though they are asked to be
        return
    rows = [theirs] if one else theirs
    assert all(row.shape[0] == 1 for row in rows), "a dimension for one"
    width = max(row.shape[1] for row in rows)
    for row, other in zip(rows, [ours] if one else ours, strict=True):
        assert torch.equal(row[0], other[-row.shape[1] :])
    if options.get("padding") and not one:
        assert isinstance(ours, Tensor)
        assert ours.shape == (2, width)


def test_a_generation_prompt_is_no_message() -> None:
    text = TEXTS["prompt"][0]
    roles = {
        mine: list(classes(mine).History.from_text(text, "chatml_format").role) for mine in (False, True)
    }
    assert roles == {False: ["system", "user", "assistant"], True: ["system", "user"]}


def test_texts_get_no_further_tokens() -> None:
    """A template writes the special tokens that a conversation has; a tokenizer that adds some would write them twice."""
    tokenizer = tiny_tokenizer(end_of_answer=True)
    found = {}
    for mine in (False, True):
        names = classes(mine)
        data = TensorDict(text=names.Text(full=["Hello", "42"], batch_size=(2,)), batch_size=(2,))
        rows = wrapper(names, input_mode="text", tokenizer=tokenizer)(data)["tokens", "full"]
        found[mine] = rows[0].tolist()
    assert found[False] == [*found[True], tokenizer.eos_token_id]
    adds = wrapper(
        classes(True), input_mode="text", tokenizer=tokenizer, tokenizer_kwargs={"add_special_tokens": True}
    )
    data = TensorDict(text=specgen_runtime.llm.Text(full=["Hello"], batch_size=(1,)), batch_size=(1,))
    assert adds(data)["tokens", "full"][0].tolist() == found[False]
