"""`RetrieveKL` in environments, and with the policy of a collector."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.interop import to_torchrl
from specgen_runtime.llm import ChatEnv, RetrieveKL, TransformersWrapper
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import RewardSum
from tensordict import TensorDict

from tests.llm.conversations import conversations, model, pair, tokenizer, wrapped


def chat_env(transform: Any, **keywords: Any) -> TransformedEnv:
    def reward(answers: Any, rows: Any) -> list[float]:
        return [1.0 for _ in answers]

    source = [{"query": "Hello"}, {"query": "What's the weather?"}]
    base = ChatEnv(source, **{"reward": reward, "batch_size": (4,), "group": 2, **keywords})
    return TransformedEnv(base, transform)


def sampling_policy() -> TransformersWrapper:
    """A policy that writes the log-probabilities of its answers, three tokens each."""
    return TransformersWrapper(
        model(0),
        tokenizer=tokenizer(),
        return_log_probs=True,
        pad_output=True,
        pad_to=40,
        generate_kwargs={"max_new_tokens": 3},
    )


class RandomVersions:
    """A policy whose versions are no language models."""

    def get_new_version(self, **keywords: Any) -> torch.nn.Module:
        return torch.nn.Linear(1, 1)


class Collector:
    """The least that `RetrieveKL` asks of a collector."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy


def test_gen_model_defaults_to_from_collector() -> None:
    transform = RetrieveKL(ref_model=wrapped(1, pad_to=40))
    with pytest.raises(ValueError, match="there is no collector"):
        transform(conversations())
    calls = []

    class Policy:
        def get_new_version(self, **keywords: Any) -> TransformersWrapper:
            calls.append(keywords)
            return wrapped(0, **keywords)

    env = TransformedEnv(ChatEnv([{"query": "Hello"}], batch_size=(2,), group=2), transform)
    collector = Collector(Policy())
    env.register_collector(collector)
    env.rollout(2, break_when_any_done=False)
    assert len(calls) == 1
    assert calls[0]["generate"] is False
    assert calls[0]["pad_to"] == 40


@pytest.mark.parametrize(
    ("collector", "text"),
    [
        (Collector(None), "the policy of this Collector is missing"),
        (
            Collector(torch.nn.Linear(1, 1)),
            "the policy of this Collector is a Linear: give it a Transformers",
        ),
        (Collector(RandomVersions()), "is to give a TransformersWrapper, got torch.nn.modules.linear.Linear"),
    ],
)
def test_collectors_without_such_a_policy(collector: Collector, text: str) -> None:
    env = chat_env(RetrieveKL(ref_model=wrapped(1, pad_to=40)))
    env.register_collector(collector)
    with pytest.raises(TypeError, match=text):
        env.rollout(1)


@pytest.mark.peers
@pytest.mark.parametrize("kind", ["Collector", "LLMCollector"])
def test_collectors_of_torchrl(kind: str) -> None:
    collectors = pytest.importorskip(
        "torchrl.collectors.llm" if kind == "LLMCollector" else "torchrl.collectors"
    )
    transform = RetrieveKL(ref_model=wrapped(1, pad_to=40), coeff=0.5)
    sizes: dict[str, Any] = {"frames_per_batch": 8, "total_frames": 8}
    if kind == "LLMCollector":
        sizes = {"dialog_turns_per_batch": 8, "total_dialog_turns": 8}
    collector = getattr(collectors, kind)(to_torchrl(chat_env(transform)), policy=sampling_policy(), **sizes)
    (data,) = collector
    collector.shutdown()
    assert data.batch_size == (4, 2)
    wanted = RetrieveKL(wrapped(0, pad_to=40), wrapped(1, pad_to=40), add_to_reward=False)
    for t in range(2):
        step = data[:, t]
        kl = wanted(TensorDict({key: step[key] for key in ("history", "tokens", "masks")}, (4,)))[
            "kl_penalty"
        ]
        torch.testing.assert_close(step["next", "kl_penalty"], kl, rtol=1e-4, atol=1e-4)
        assert kl.any(-1).all()
        torch.testing.assert_close(
            step["next", "reward"], 1 - 0.5 * kl.sum(-1, keepdim=True), rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("spread", ["sum", "tokens"])
def test_in_an_environment(spread: Any) -> None:
    transform = RetrieveKL(**pair(pad_to=40), coeff=0.5, spread=spread)
    env = chat_env(transform)
    check_env_specs(env)
    for key in (("log_probs", "full"), ("ref_log_probs", "full"), "kl_penalty"):
        assert env.observation_spec[key].shape == (4, 40)
    assert env.reward_spec.shape == ((4, 1) if spread == "sum" else (4, 40, 1))
    data = env.rollout(2, sampling_policy(), break_when_any_done=False)
    kl, reward = data["next", "kl_penalty"], data["next", "reward"]
    assert kl.any(-1).all()
    if spread == "sum":
        torch.testing.assert_close(reward, 1 - 0.5 * kl.sum(-1, keepdim=True))
    scored = data["masks", "all_assistant_mask"]
    assert torch.equal(scored & (kl != 0), kl != 0)  # the sampled tokens, no others
    torch.testing.assert_close(
        data["next", "log_probs", "full"], data["log_probs", "full"], rtol=1e-4, atol=1e-4
    )


def test_ragged_rows_in_an_environment_are_refused() -> None:
    with pytest.raises(ValueError, match="pad_output=True, and pad_to"):
        chat_env(RetrieveKL(**pair(pad_output=False))).observation_spec  # noqa: B018


def test_fault_13_specs_hold_what_is_written_with_its_shape() -> None:
    env = chat_env(RetrieveKL(**pair(pad_to=40), add_to_reward=False, kl_key=("a", "kl")))
    before = chat_env(Compose())
    added = set(env.observation_spec.keys(True, True)) - set(before.observation_spec.keys(True, True))
    assert added == {("log_probs", "full"), ("ref_log_probs", "full"), ("a", "kl")}
    assert env.reward_spec == before.reward_spec


def test_inherited_members() -> None:
    """The members of transforms that users call, of one that is in an environment."""
    transform = RetrieveKL(**pair(pad_to=40))
    alone = transform.forward(conversations())["next", "kl_penalty"]
    env = chat_env(Compose(RewardSum(), transform))
    found = env.transform[1]
    assert found.container is env
    assert found.parent.transform[0].__class__ is RewardSum
    assert found.collector is None
    env.register_collector(collector := Collector(sampling_policy()))
    assert found.collector is collector
    assert ("next", "kl_penalty") not in found.inv(conversations()).keys(True)
    for name in ("action", "state", "done", "input"):
        spec = getattr(env.base_env, f"full_{name}_spec" if name != "input" else "input_spec").clone()
        assert getattr(found, f"transform_{name}_spec")(spec.clone()) == spec
    observed = found.transform_observation_spec(env.base_env.full_observation_spec.clone())
    assert observed["kl_penalty"].shape == (4, 40)
    reward = env.base_env.full_reward_spec.clone()
    assert found.transform_reward_spec(reward.clone()) == reward
    given = env.base_env.output_spec.clone()
    given.unlock_()
    assert found.transform_output_spec(given)["full_observation_spec", "kl_penalty"].shape == (4, 40)
    assert found.transform_env_batch_size(torch.Size([4])) == (4,)
    assert found.init(TensorDict(batch_size=(4,))) is None
    transform.insert(0, RewardSum())
    assert isinstance(transform[0], RewardSum)
    assert isinstance(transform.pop(0), RewardSum)
    torch.testing.assert_close(transform(conversations())["next", "kl_penalty"], alone)
    env.close()


def test_a_policy_that_is_its_own_reference() -> None:
    """It is told when the two meet; another model of the same weights is a reference."""
    policy = wrapped(0)
    alias, tied = copy.copy(policy.model), copy.deepcopy(policy.model)
    tied.load_state_dict(policy.model.state_dict())
    for mine in (policy.model, alias):
        reference = TransformersWrapper(mine, tokenizer=tokenizer(), generate=False, pad_output=True)
        with pytest.warns(UserWarning, match=r"the KL is 0 whatever .* copy\.deepcopy\(model\)"):
            RetrieveKL(policy, reference)
        later = RetrieveKL(ref_model=reference)
        env = chat_env(later)
        collector = Collector(policy)
        env.register_collector(collector)
        with pytest.warns(UserWarning, match="ref_model has the weights of gen_model"):
            later(conversations())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RetrieveKL(policy, TransformersWrapper(tied, tokenizer=tokenizer(), generate=False, pad_output=True))
