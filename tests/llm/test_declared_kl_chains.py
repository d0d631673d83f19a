"""Chains with language models: the generated classes against the same transforms put together by hand."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.llm import (
    ChatEnv,
    KLComputation,
    KLRewardTransform,
    RetrieveKL,
    RetrieveLogProb,
    TransformersWrapper,
)
from specgen_runtime.testing import check_env
from specgen_runtime.transforms import Compose, Transform, TransformedEnv
from specgen_std.transforms import RewardSum
from tensordict import TensorDict

from tests.llm.models import tiny_model, tiny_tokenizer
from tests.support import generate, imported

MODELS = """
specgen: 1
models:
  policy:
    causal_lm: {{path: {folder}/policy}}
    generate: {{max_new_tokens: 3, temperature: 0.7}}
    pad_output: true
    pad_to: 48
  Reference: {{like: policy, causal_lm: {{path: {folder}/reference}}, frozen: true, log_probs_key: ref_log_probs}}
"""

CHAINS = """
specgen: 1
import: [models, specgen_std/transforms/reward_sum]
envs:
  Chat: {chat: {group: 2, max_turns: 2}}
  Texts: {chat: {input: text, template: chatml_format}}
chains:
  Penalised:
    env: Chat
    transforms: [{RetrieveKL: {gen_model: policy, ref_model: Reference, coeff: 0.5, kl_key: kl.tokens}}, RewardSum]
  Collected: {env: Chat, transforms: [{RetrieveKL: {ref_model: Reference, coeff: 0.5}}]}
  Computed:
    env: Chat
    transforms:
      - {RetrieveLogProb: {model: policy}}
      - {RetrieveLogProb: {model: Reference}}
      - {KLComputation: {estimator: k3, add_to_reward: false}}
  Sampled: {env: Chat, transforms: [{KLRewardTransform: {ref_model: Reference, coef: 0.5, spread: tokens}}]}
  Chosen:
    env: Chat
    transforms:
      - RetrieveKL:
          gen_model: policy
          ref_model: Reference
          roles: [user, assistant]
          exclude_tokens: ["<|im_end|>", 35]
  Shared:
    env: Chat
    transforms:
      - KLRewardTransform:
          ref_model: Reference
          exclude_tokens: [4]
          mask_key: masks.all_attention_mask
          use_ray_service: true
          actor_name: kl
          num_gpus: 0.5
          replicas: 2
          lifetime: detached
          timeout: 30
  Scored: {env: Texts, transforms: [{RetrieveLogProb: {model: texts, assistant_only: false}}]}
models:
  texts: {like: policy, input: text, frozen: true}
"""

SOURCE = [
    {"query": f"{word} {number}"} for number in range(4) for word in ("Hello", "What's the weather?", "42")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(("policy", "reference")):
        model: Any = tiny_model("llama", tiny_tokenizer(), seed=seed)
        model.save_pretrained(folder / name)
        tiny_tokenizer().save_pretrained(folder / name)
    return folder


@pytest.fixture(scope="module")
def made(folder: Path) -> Iterator[ModuleType]:
    texts = {"models.yaml": MODELS.format(folder=folder), "chains.yaml": CHAINS}
    with imported(generate(texts, "kl_chains"), "kl_chains", folder):
        yield importlib.import_module("kl_chains.chains")


@pytest.fixture(scope="module")
def policy(made: ModuleType) -> TransformersWrapper:
    wrapper: TransformersWrapper = importlib.import_module("kl_chains.models").policy_model()
    return wrapper


def by_hand(folder: Path, name: str, **keywords: Any) -> TransformersWrapper:
    """A model that scores, with the settings of the declaration."""
    settings = {"temperature": 0.7, "top_k": 0, "top_p": 1.0, "do_sample": True}
    return TransformersWrapper.from_pretrained(
        str(folder / name), generate=False, generate_kwargs=settings, pad_output=True, pad_to=48, **keywords
    )


def rolled_out(env: Any, policy: TransformersWrapper) -> TensorDict:
    """Two steps with seeded answers; temperature and draws are the policy's."""
    torch.manual_seed(5)
    data: TensorDict = env.rollout(2, policy, break_when_any_done=False)
    return data


def assert_same(declared: Any, transforms: list[Transform], policy: TransformersWrapper) -> TensorDict:
    """The generated chain has the specs and the data of transforms that were put together by hand."""
    chat = ChatEnv(SOURCE, group=2, max_turns=2, batch_size=(4,), seed=3)
    plain = TransformedEnv(chat, Compose(*transforms))
    assert declared.specs == plain.specs
    data, other = rolled_out(declared, policy), rolled_out(plain, policy)
    for key in data.keys(True, True):
        one, two = data[key], other[key]
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(one, two, msg=f"{key}: {{}}".format)
        else:
            assert one == two, key
    return data


def test_a_penalty_in_the_reward(made: ModuleType, folder: Path, policy: TransformersWrapper) -> None:
    env = made.Penalised(policy=policy, source=SOURCE, batch_size=(4,), seed=3)
    kl = RetrieveKL(
        by_hand(folder, "policy"), by_hand(folder, "reference"), coeff=0.5, kl_key=("kl", "tokens")
    )
    data = assert_same(env, [kl, RewardSum()], policy)
    penalty = data["next", "kl", "tokens"]
    assert penalty.shape == (4, 2, 48)
    assert penalty.any(-1).all()
    torch.testing.assert_close(data["next", "reward"], -0.5 * penalty.sum(-1, keepdim=True))


def test_log_probs_and_a_penalty_of_them(made: ModuleType, folder: Path, policy: TransformersWrapper) -> None:
    env = made.Computed(policy=policy, source=SOURCE, batch_size=(4,), seed=3)
    transforms: list[Transform] = [
        RetrieveLogProb(by_hand(folder, "policy")),
        RetrieveLogProb(by_hand(folder, "reference", log_probs_key="ref_log_probs")),
        KLComputation(estimator="k3", add_to_reward=False),
    ]
    data = assert_same(env, transforms, policy)
    assert bool((data["next", "kl_penalty"] >= 0).all())
    assert not data["next", "reward"].any()


def test_a_penalty_of_what_was_sampled(made: ModuleType, folder: Path, policy: TransformersWrapper) -> None:
    env = made.Sampled(source=SOURCE, batch_size=(4,), seed=3)
    kl = KLRewardTransform(by_hand(folder, "reference"), coef=0.5, spread="tokens")
    data = assert_same(env, [kl], policy)
    assert data["next", "reward"].shape == (4, 2, 48, 1)


def test_which_tokens_count(made: ModuleType, folder: Path, policy: TransformersWrapper) -> None:
    env = made.Chosen(policy=policy, source=SOURCE, batch_size=(4,), seed=3)
    which: Any = {"roles": ("user", "assistant"), "exclude_tokens": ("<|im_end|>", 35)}
    kl = RetrieveKL(by_hand(folder, "policy"), by_hand(folder, "reference"), **which)
    data = assert_same(env, [kl], policy)
    elsewhere = ~data["masks", "all_assistant_mask"]
    assert data["next", "kl_penalty"][elsewhere].any(), "what the user said counts, too"


def test_the_actors_of_declared_models(made: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    class Service:
        def __init__(self, create: Any, **options: Any) -> None:
            asked.update(options, made=create())

        def call(self, name: str, *args: Any) -> Any:
            return getattr(asked["made"], name)(*args)

    monkeypatch.setattr("specgen_runtime.llm.kl.scoring_models.RayService", Service)
    made.Shared(source=SOURCE, batch_size=(2,))
    options = {name: asked[name] for name in ("actor_name", "num_gpus", "replicas", "lifetime", "timeout")}
    assert options == {
        "actor_name": "kl",
        "num_gpus": 0.5,
        "replicas": 2,
        "lifetime": "detached",
        "timeout": 30,
    }
    assert asked["made"].which.exclude_tokens == (4,)
    assert asked["made"].which.mask_key == ("masks", "all_attention_mask")


def test_the_policy_of_a_collector(made: ModuleType, policy: TransformersWrapper) -> None:
    class Collector:
        def __init__(self) -> None:
            self.policy = policy

    env, collector = made.Collected(source=SOURCE, batch_size=(4,), seed=3), Collector()
    env.register_collector(collector)
    given = made.Penalised(policy=policy, source=SOURCE, batch_size=(4,), seed=3)
    found, expected = rolled_out(env, policy), rolled_out(given, policy)
    torch.testing.assert_close(found["next", "kl_penalty"], expected["next", "kl", "tokens"])


def test_the_contract(made: ModuleType, policy: TransformersWrapper) -> None:
    reference = importlib.import_module("kl_chains.models").reference_model()
    check_env(
        lambda: made.Penalised(policy=policy, reference=reference, source=SOURCE, batch_size=(2,)), steps=4
    )
    check_env(lambda: made.Scored(source=list("abcdefghijkl"), batch_size=(2,)), steps=4)


def test_models_are_run_as_they_are_declared(made: ModuleType, policy: TransformersWrapper) -> None:
    """Whatever else the wrapper that is given was made for: it generates, and its rows are wider."""
    env = made.Penalised(policy=policy.get_new_version(pad_to=200), source=SOURCE, batch_size=(2,))
    assert env.observation_spec["kl", "tokens"].shape == (2, 48)
    assert policy.generate
    with pytest.raises(TypeError, match="policy"):
        made.Penalised(source=SOURCE)
    said = "is a TransformersWrapper, got transformers.*LlamaForCausalLM: wrap it, .*tokenizer=tokenizer"
    with pytest.raises(TypeError, match=f"^policy {said}"):
        made.Penalised(policy=policy.model, source=SOURCE)
    with pytest.raises(TypeError, match=f"^reference {said}"):
        made.Penalised(policy=policy, reference=policy.model, source=SOURCE)
