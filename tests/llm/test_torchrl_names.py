"""TorchRL's public names for language models: where they are here, their keywords, and which are not there."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest
import specgen_runtime.llm
import specgen_runtime.transforms
import specgen_std.losses

from tests.llm.models import tiny_model, tiny_tokenizer

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

MODULES = (
    "torchrl.data.llm",
    "torchrl.modules.llm",
    "torchrl.envs.llm",
    "torchrl.envs.llm.transforms",
    "torchrl.objectives.llm",
)
HERE = (specgen_runtime.llm, specgen_std.losses, specgen_runtime.transforms)

SERVERS = {
    "AsyncSGLang",
    "AsyncVLLM",
    "RLSGLangEngine",
    "SGLangWrapper",
    "make_async_vllm_engine",
    "make_vllm_worker",
    "stateless_init_process_group",
    "stateless_init_process_group_async",
    "vLLMWrapper",
}
"""Of vLLM and SGLang, which are no extra here."""

OF_DATA_SETS = {
    "CountdownEnv",
    "CountdownRewardParser",
    "DatasetChatEnv",
    "GSM8KEnv",
    "GSM8KPrepareQuestion",
    "GSM8KRewardParser",
    "IFEvalData",
    "IFEvalEnv",
    "IFEvalScoreData",
    "IfEvalScorer",
    "MATHEnv",
    "MATHRewardParser",
    "MLGymWrapper",
    "make_gsm8k_env",
    "make_mlgym",
}
"""Environments of certain data sets: `ChatEnv` takes any source, and a function as its reward."""

BEFORE_CHATS = {
    "AdaptiveKLController",
    "ConstantKLController",
    "PairwiseDataset",
    "PromptData",
    "PromptTensorDictTokenizer",
    "RewardData",
    "RolloutFromModel",
    "TensorDictTokenizer",
    "TokenizedDatasetLoader",
    "create_infinite_iterator",
    "get_dataloader",
}
"""Of data that are texts with labels; `target_kl` of penalties adapts their coefficient."""

OTHERWISE = {
    "AddThinkingPrompt": "messages that `tools` give",
    "DataLoadingPrimer": "`ChatEnv(source)`, `Prompts`",
    "LLMEnv": "`ChatEnv`",
    "LLMHashingEnv": "`ChatEnv`",
    "RayDataLoadingPrimer": "`RayEnv`",
    "SimpleToolTransform": "`CallTools`, `ExecuteToolsInOrder`",
    "TemplateTransform": "`ChatEnv(input_mode='text')`",
    "as_nested_tensor": "`data.get(key, as_nested_tensor=True)`",
    "as_padded_tensor": "`data.get(key, as_padded_tensor=True)`",
}
"""What is said in another way."""

OPEN = {
    "BrowserTransform",
    "ContentBase",
    "DAPOLossOutput",
    "HFRewardModelWrapper",
    "LLMLossOutput",
    "LLMWrapperBase",
    "MCPToolTransform",
    "PythonExecutorService",
    "PythonInterpreter",
    "RemoteTransformersWrapper",
    "TorchRLBufferDataset",
}
"""What is not there: a tool is a `ToolService`, and what a loss returns a tensordict."""

LEFT_OUT = SERVERS | OF_DATA_SETS | BEFORE_CHATS | OTHERWISE.keys() | OPEN

NOT_TAKEN = {
    "CISPOLoss": {"clip_value", "ref_log_prob_padding_side", "ref_log_prob_padding_value"},
    "ChatEnv": {"with_tokenizer"},
    "DAPO": {"clip_value", "ref_log_prob_padding_side", "ref_log_prob_padding_value"},
    "DistillationLoss": {"tokenizer", "tokenizer_kwargs"},
    "GRPOLoss": {"clip_value", "ref_log_prob_padding_side", "ref_log_prob_padding_value"},
    "KLRewardTransform": {"service_backend", "service_backend_options"},
    "RayMCAdvantage": {"ray_init_config", "remote_config"},
    "RetrieveKL": {"service_backend", "service_backend_options"},
    "SFTLoss": {"tokenizer", "tokenizer_kwargs"},
}
"""Keywords that mean nothing here, as docs/differences.md says; `ChatEnv.with_tokenizer` is a method, Ray has its own words."""


ATTRIBUTES_LEFT_OUT = {
    "TransformersWrapper": {
        "COMMON_GENERATION_PARAMS",
        "cleanup_batching",
        "collector",
        "dist_params_keys",
        "dist_sample_keys",
        "get_batching_state",
        "log_prob_keys",
        "padding_value",
        "register_collector",
        "repeat_interleave_causal",
        "return_history",
        "return_masks",
        "return_text",
        "return_tokens",
    },
    "RetrieveLogProb": {"device", "padding_side", "tokenizer", "tokenizer_kwargs"},
    "KLRewardTransform": {
        "DEFAULT_IN_KEYS",
        "action_key",
        "assistant_only",
        "device",
        "log_prob_full_key",
        "pad_output",
        "padding_side",
        "ref_model",
        "tokenizer",
    },
    "ChatEnv": {
        # what no environment has, see tests/envs/test_env_attributes.py
        "auto_complete_done_specs",
        "collector",
        "configure_parallel",
        "make_parallel",
        "register_collector",
        "register_gym",
        # entries have the names that `input_mode` says
        "response_key",
        "template_kwargs",
        "text_key",
        "tokenizer",
    },
    "MCAdvantage": {"requires_shared_write_state"},
    "PolicyVersion": {"cal_on_reset"},
}
"""What models and transforms of TorchRL's have and ours have not, as docs/differences.md says."""


def names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in MODULES:
        pytest.importorskip("torchrl")
        module = importlib.import_module(path)
        found |= {name: getattr(module, name, None) for name in module.__all__}
    return found


def here(name: str) -> Any:
    return next((getattr(module, name) for module in HERE if hasattr(module, name)), None)


def keywords_of(kind: type) -> dict[str, inspect.Parameter]:
    """What a class is made with; Python before 3.11.3 shows a `__new__` above the class's own `__init__` instead."""
    found = dict(inspect.signature(kind).parameters)
    if not {*found} - {"args", "kwargs"}:
        found = dict(inspect.signature(kind.__init__).parameters)
        found.pop("self")
    return found


def test_names() -> None:
    missing = {name for name in names() if here(name) is None}
    assert missing == LEFT_OUT


def test_keywords() -> None:
    lacking = {}
    for name, theirs in names().items():
        ours = here(name)
        if not (inspect.isclass(theirs) and inspect.isclass(ours)) or name.endswith("Output"):
            continue
        mine = {*keywords_of(ours)}
        if name == "RayMCAdvantage":  # as `MCAdvantage`, with those of actors
            mine |= {*keywords_of(specgen_runtime.llm.MCAdvantage)}
        wanted = {
            key
            for key, one in keywords_of(theirs).items()
            if one.kind is not one.VAR_KEYWORD and one.kind is not one.VAR_POSITIONAL
        }
        if lack := wanted - {*mine, "gamma", "actor_name"}:
            lacking[name] = lack
    assert lacking == NOT_TAKEN


def test_attributes() -> None:
    modules = pytest.importorskip("torchrl.modules.llm")
    transforms = pytest.importorskip("torchrl.envs.llm.transforms")
    tokenizer = tiny_tokenizer()
    model: Any = tiny_model("llama", tokenizer)
    keywords: dict[str, Any] = {"tokenizer": tokenizer, "generate": False, "pad_output": True}
    made: dict[str, tuple[Any, Any]] = {}
    made["TransformersWrapper"] = (
        modules.TransformersWrapper(model, input_mode="history", return_log_probs=True, **keywords),
        specgen_runtime.llm.TransformersWrapper(model, **keywords),
    )
    scoring = zip((transforms, specgen_runtime.llm), made["TransformersWrapper"], strict=True)
    theirs, ours = (of.RetrieveLogProb(one, tokenizer=tokenizer) for of, one in scoring)
    made["RetrieveLogProb"] = theirs, ours
    reading_tokens = [
        of.TransformersWrapper(model, input_mode="tokens", return_log_probs=True, **keywords)
        for of in (modules, specgen_runtime.llm)
    ]
    scoring = zip((transforms, specgen_runtime.llm), reading_tokens, strict=True)
    made["KLRewardTransform"] = tuple(of.KLRewardTransform(one) for of, one in scoring)
    environments = pytest.importorskip("torchrl.envs.llm")
    losses = pytest.importorskip("torchrl.objectives.llm")
    for name, of, arguments in (
        ("ChatEnv", environments, {"batch_size": (1,)}),
        ("MCAdvantage", losses, {"grpo_size": 2}),
        ("PolicyVersion", transforms, {}),
        (
            "TopKRewardSelector",
            importlib.import_module("torchrl.data.llm"),
            {"total_dialog_turns": 5, "topk_size": 3},
        ),
        ("IncrementalTokenizer", transforms, {"tokenizer": tokenizer}),
    ):
        made[name] = getattr(of, name)(**arguments), getattr(specgen_runtime.llm, name)(**arguments)
    made["RetrieveKL"] = tuple(
        of.RetrieveKL(*(one.get_new_version(log_probs_key=key) for key in ("a", "b")))
        for of, one in zip((transforms, specgen_runtime.llm), made["TransformersWrapper"], strict=True)
    )
    made["KLComputation"] = transforms.KLComputation(), specgen_runtime.llm.KLComputation()
    lacking = {
        name: {one for one in dir(theirs) if not one.startswith("_")} - {*dir(ours)}
        for name, (theirs, ours) in made.items()
    }
    assert {name: names for name, names in lacking.items() if names} == ATTRIBUTES_LEFT_OUT
