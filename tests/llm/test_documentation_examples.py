"""The examples in TorchRL's docstrings about language models, each statement beside the same one with our classes."""

from __future__ import annotations

import builtins
import contextlib
import doctest
import importlib
import inspect
import io
import types
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import specgen_runtime.data
import specgen_runtime.envs
import specgen_runtime.llm
import specgen_runtime.transforms
import specgen_std.losses
import tensordict
import torch

from tests.llm.models import tiny_model, tiny_tokenizer

pytest.importorskip("torchrl")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

HERE = (
    specgen_runtime.llm,
    specgen_std.losses,
    specgen_runtime.transforms,
    specgen_runtime.envs,
    specgen_runtime.data,
)
MODULES = (
    "torchrl.data.llm",
    "torchrl.modules.llm",
    "torchrl.envs.llm",
    "torchrl.envs.llm.transforms",
    "torchrl.objectives.llm",
)
NAMES = (
    "ChatEnv",
    "ChatEnv.with_tokenizer",
    "DistillationLoss",
    "ExecuteToolsInOrder",
    "GRPOLoss.tensor_keys",
    "History.default_spec",
    "History.from_text",
    "IncrementalTokenizer",
    "JSONCallParser",
    "KLComputation",
    "KLRewardTransform",
    "MCAdvantage",
    "MCAdvantageSelector",
    "RetrieveKL",
    "RetrieveLogProb",
    "SFTLoss",
    "ToolRegistry",
    "TransformersWrapper",
    "XMLBlockParser",
    "add_chat_template",
    "k3_kl_token_estimate",
)

DIFFERENT = {
    ("ChatEnv", "env = ChatEnv("): "`with_tokenizer=True` is `ChatEnv.with_tokenizer`",
    ("DistillationLoss", "loss = DistillationLoss("): "the actor has the tokenizer",
    ("DistillationLoss", "loss_vals = loss("): "the same",
    ("DistillationLoss", "loss_vals.loss_distill"): "the same",
    ("TransformersWrapper", 'print(result["text"]'): "samples are drawn otherwise",
    ("TransformersWrapper", 'print(result["log_probs"]'): "the same",
    ("add_chat_template", "add_chat_template("): "the name is taken",
}
"""Statements that run there and not here, or print something else, as docs/differences.md says."""


class _Ours(types.ModuleType):
    """Stands for any module of TorchRL's."""

    def __getattr__(self, name: str) -> Any:
        if name == "_CHAT_TEMPLATES":
            return importlib.import_module("torchrl.data.llm.history")._CHAT_TEMPLATES
        for module in HERE:
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(name)


def _transformers() -> Any:
    """Stands for `transformers`: nothing is read from a hub, and models are tiny."""
    made: Any = types.ModuleType("transformers")
    made.AutoTokenizer = types.SimpleNamespace(from_pretrained=lambda name: tiny_tokenizer())
    made.AutoModelForCausalLM = types.SimpleNamespace(
        from_pretrained=lambda name: tiny_model("gpt2", tiny_tokenizer())
    )
    made.OPTConfig = lambda: None
    made.OPTForCausalLM = lambda config: tiny_model("opt", tiny_tokenizer())
    return made


def namespace(ours: bool) -> dict[str, Any]:
    """What the examples begin with: names that they take for granted, and what `import` gives them."""

    def imported(name: str, *rest: Any) -> Any:
        if name == "transformers":
            return _transformers()
        if ours and name.split(".")[0] == "torchrl":
            return _Ours(name)
        return builtins.__import__(name, *rest)

    found: dict[str, Any] = {}
    for path in MODULES:
        module = importlib.import_module(path)
        found |= {name: getattr(_Ours(path) if ours else module, name, None) for name in module.__all__}
    tokenizer = tiny_tokenizer()
    found["actor_network"] = found["TransformersWrapper"](
        tiny_model("llama", tokenizer),
        tokenizer=tokenizer,
        input_mode="history",
        generate=False,
        return_log_probs=True,
        pad_output=True,
    )
    basics = {"torch": torch, "TensorDict": tensordict.TensorDict, "lazy_stack": tensordict.lazy_stack}
    return {**found, **basics, "__builtins__": {**vars(builtins), "__import__": imported}}


def statements(name: str) -> Iterator[str]:
    """Those of the docstring of a class or function, or of a method of a class."""
    owner, _, method = name.partition(".")
    modules = map(importlib.import_module, MODULES)
    of_owner = next(getattr(module, owner) for module in modules if owner in module.__all__)
    doc = inspect.getdoc(getattr(of_owner, method) if method else of_owner)
    assert doc is not None
    for example in doctest.DocTestParser().get_examples(doc):
        yield example.source


def run(statement: str, names: dict[str, Any]) -> str | Exception:
    """What a statement prints, or why it fails."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(statement, "<example>", "single"), names)
    except Exception as error:
        return error
    return printed.getvalue()


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Examples add templates, and set how tensordict stacks lists."""
    history = importlib.import_module("torchrl.data.llm.history")
    for name, value in vars(history).items():
        if isinstance(value, dict) and not name.startswith("__"):
            monkeypatch.setattr(history, name, dict(value))
    before = tensordict.list_to_stack()
    yield
    tensordict.set_list_to_stack(before).set()


@pytest.mark.parametrize("name", NAMES)
def test_what_runs_there_runs_here(name: str) -> None:
    theirs, ours = namespace(ours=False), namespace(ours=True)
    differing: Mapping[str, str] = {begin: why for (of, begin), why in DIFFERENT.items() if of == name}
    met = set()
    for statement in statements(name):
        torch.manual_seed(0)
        expected = run(statement, theirs)
        torch.manual_seed(0)
        found = run(statement, ours)
        if isinstance(expected, Exception):  # the docstring is wrong
            continue
        if begin := next((one for one in differing if statement.startswith(one)), None):
            if found != expected:
                met.add(begin)
            continue
        assert not isinstance(found, Exception), f"{statement}: {type(found).__name__}: {found}"
        if expected.count("\n") == 1:  # others are representations of objects
            assert found == expected, statement
    assert met == {*differing}, "a difference that is none"


def test_texts_are_read_back_as_they_are() -> None:
    """White space within the marks of a turn is the message's."""
    text = "<|im_start|>user\nHello\n<|im_end|>\n<|im_start|>assistant\n  Hi<|im_end|>\n"
    contents = {
        who: [one.content for one in names["History"].from_text(text, "qwen")]
        for who, names in {"theirs": namespace(ours=False), "ours": namespace(ours=True)}.items()
    }
    assert contents == {"theirs": ["Hello", "Hi"], "ours": ["Hello\n", "  Hi"]}
    again = specgen_runtime.llm.History.from_text(text, "qwen").apply_chat_template(
        tokenizer=None, chat_template_name="qwen", add_generation_prompt=False
    )
    assert again.endswith(text)  # with a system message before it
