"""`RetrieveKL` and `KLRewardTransform` whose models run in Ray actors: alone, in environments, with new weights."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.llm import (
    ChatHistory,
    KLRewardTransform,
    RayKLRewardTransform,
    RayRetrieveKL,
    RetrieveKL,
    TransformersWrapper,
)
from tensordict import TensorDict
from torch import Tensor

from tests.llm.conversations import conversations, model, tokenizer, wrapped
from tests.llm.models import tiny_model
from tests.llm.test_kl_environments import chat_env, sampling_policy
from tests.ray.processes import process_of

policy, reference = partial(wrapped, 0, pad_to=40), partial(wrapped, 1, pad_to=40)
PAIR: dict[str, Any] = {"gen_model_factory": policy, "ref_model_factory": reference}


def same(left: TensorDict, right: TensorDict, keys: Any) -> None:
    for key in keys:
        torch.testing.assert_close(left["next", *key], right["next", *key], rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_use_ray_service_and_actor_name_and_faults_6_and_15(ray_cluster: None) -> None:
    """The row of the contract; fault 6, factories are enough; fault 15, weights can be updated."""
    options: dict[str, Any] = {"use_ray_service": True, "actor_name": "kl", "replicas": 2, "timeout": 300.0}
    transform = RetrieveKL(**PAIR, coeff=0.5, **options)
    assert isinstance(transform, RayRetrieveKL)
    local = RetrieveKL(policy(), reference(), coeff=0.5)

    # alone
    found, wanted = (each(conversations(torch.ones(2, 1))) for each in (transform, local))
    same(found, wanted, [("kl_penalty",), ("log_probs", "full"), ("ref_log_probs", "full"), ("reward",)])
    assert not found["next", "kl_penalty"].requires_grad
    for name, value in local.penalty.metrics.items():
        torch.testing.assert_close(transform.penalty.metrics[name], value)
    data = conversations()
    data["history"] = ChatHistory(full=[[{"role": "user", "content": "Hello"}]] * 2, batch_size=(2,))
    with pytest.raises(ValueError, match="has no token of the assistant"):
        transform(data)

    # in an environment
    env = chat_env(transform)
    check_env_specs(env)
    data = env.rollout(2, sampling_policy(), break_when_any_done=False)
    kl = data["next", "kl_penalty"]
    assert kl.shape == (4, 2, 40)
    torch.testing.assert_close(data["next", "reward"], 1 - 0.5 * kl.sum(-1, keepdim=True))
    assert torch.equal(data["masks", "all_assistant_mask"] | (kl == 0), torch.ones_like(kl).bool())

    # the same name, the same actors, whoever makes or unpickles it; another penalty is computed here
    again = RetrieveKL(**PAIR, coeff=2.0, estimator="k2", **options)
    assert isinstance(again, RayRetrieveKL)
    copy = pickle.loads(pickle.dumps(again))
    exact = RetrieveKL(**PAIR, estimator="full", **options)
    exact_here = RetrieveKL(policy(), reference(), estimator="full")
    same(exact(conversations()), exact_here(conversations()), [("kl_penalty",)])
    with pytest.raises(
        ValueError, match=r"'kl' is another RetrieveKL: ref_model is .*wrapped\(1, .*, not .*wrapped\(2, "
    ):
        RetrieveKL(gen_model_factory=policy, ref_model_factory=partial(wrapped, 2, pad_to=40), **options)
    with pytest.raises(ValueError, match="'kl' is another RetrieveKL: assistant_only is True, not False"):
        RetrieveKL(**PAIR, assistant_only=False, **options)

    # new weights
    weights = model(1).state_dict()
    assert transform.weight_versions() == {"gen_model": 0, "ref_model": 0}
    assert transform.update_weights(weights) == 1
    for _ in range(2):  # in both replicas
        assert not again(conversations())["next", "kl_penalty"].any()
    assert copy.weight_versions() == {"gen_model": 1, "ref_model": 0}
    assert copy.update_weights(TensorDict.from_module(model(0)), which="ref_model", version=7) == 7
    assert torch.equal(
        RetrieveKL(**PAIR, **options)(conversations())["next", "kl_penalty"], -found["next", "kl_penalty"]
    )
    with pytest.raises(ValueError, match="ref_model has weights of version 7, newer than version 6"):
        again.update_weights(weights, which="ref_model", version=6)
    assert again.update_weights(weights, which="ref_model", version=7) == 7  # which are there
    with pytest.raises(ValueError, match="there is no model 'policy', only gen_model, ref_model"):
        again.update_weights(weights, which="policy")  # type: ignore[arg-type]
    with pytest.raises(KeyError, match=r"the weights lack 'lm_head\.weight'"):
        again.update_weights({name: each for name, each in weights.items() if name != "lm_head.weight"})
    assert transform.weight_versions() == {"gen_model": 1, "ref_model": 7}

    # the end
    env.close()
    with pytest.raises(RuntimeError, match="this RetrieveKL in a Ray actor is closed"):
        transform(conversations())
    again(conversations())
    again.service.kill()
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="the actor of this RetrieveKL is gone"):
        copy(conversations())
    assert time.monotonic() - begin < 30


@pytest.mark.slow
def test_the_reference_of_a_kl_reward(ray_cluster: None) -> None:
    transform = KLRewardTransform(
        ref_model_factory=partial(wrapped, 1, pad_to=40, input_mode="tokens"),
        coef=0.5,
        use_ray_service=True,
        num_cpus=0,
        timeout=300.0,
    )
    assert isinstance(transform, RayKLRewardTransform)
    env = chat_env(transform)
    data = env.rollout(2, sampling_policy(), break_when_any_done=False)
    wanted = KLRewardTransform(wrapped(1, pad_to=40, input_mode="tokens"), coef=0.5)
    for t in range(2):
        step = data[:, t].exclude(("next", "kl_penalty"), ("next", "ref_log_probs"))
        step["next", "reward"] = torch.ones(4, 1)
        same(data[:, t], wanted(step), [("kl_penalty",), ("ref_log_probs",), ("reward",)])
    only_tokens = data[:, 0].select("tokens", "log_probs", ("masks", "all_attention_mask"))
    for each in (transform, wanted):
        with pytest.raises(ValueError, match="it is not known where answers begin"):
            each(only_tokens.copy())
    ids = torch.arange(80).reshape(2, 40) + 5
    behind = TensorDict(
        {"tokens": {"full": ids, "prompt": ids[:, :30]}}, [2]
    )  # answers are behind the prompt
    behind["log_probs"] = {"full": torch.full((2, 40), -1.0)}
    both = [each(behind.copy())["kl_penalty"] for each in (transform, wanted)]
    assert (both[1] != 0).sum(-1).tolist() == [10, 10]
    torch.testing.assert_close(*both, rtol=1e-5, atol=1e-5)
    assert transform.update_weights(model(0).state_dict()) == 1
    kl = transform(data[:, 0].clone())["next", "kl_penalty"]
    torch.testing.assert_close(kl, torch.zeros_like(kl), rtol=0, atol=1e-4)
    os.kill(process_of(transform.service), signal.SIGKILL)
    with pytest.raises(RuntimeError, match="the actor of this KLRewardTransform is gone"):
        transform(data[:, 0].clone())
    env.close()


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"detach": False}, "detach=False with use_ray_service=True: gradients do not cross"),
        ({"coeff": -1.0}, "rewards distance"),
        ({"estimator": "k4"}, "estimator is one of"),
        ({"kl_key": ("log_probs", "full")}, "keys of their own"),
        ({"replicas": 0}, "replicas is a whole number from 1 on"),
        ({"lifetime": "detached"}, "needs actor_name"),
        ({"gen_model_factory": None}, "gen_model is 'from_collector', but .* give gen_model_factory"),
        ({"ref_model_factory": None}, "ref_model is missing"),
        ({"gen_model_factory": None, "gen_model": "policy"}, "is a model or 'from_collector', got 'policy'"),
        ({"actor_name": "kl", "use_ray_service": False}, "actor_name: only with use_ray_service=True"),
    ],
)
def test_arguments_are_checked_before_anything_starts(
    keywords: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specgen_runtime.llm.kl.scoring_models.RayService", None)
    with pytest.raises(ValueError, match=text):
        RetrieveKL(**{**PAIR, "use_ray_service": True, **keywords})


@pytest.mark.parametrize("create", [RetrieveKL, KLRewardTransform])
def test_models_are_not_sent(create: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specgen_runtime.llm.kl.scoring_models.RayService", None)
    factory = {"gen_model_factory": policy} if create is RetrieveKL else {}
    with pytest.raises(ValueError, match=r"ref_model is a model, but .* give ref_model_factory"):
        create(ref_model=reference(), **factory, use_ray_service=True)
    with pytest.raises(TypeError, match="ref_model_factory is a function that makes a model, got str"):
        create(ref_model_factory="reference", **factory, use_ray_service=True)


@pytest.mark.parametrize("base", [RetrieveKL, KLRewardTransform])
def test_classes_of_ones_own_derive_from_that_in_ray(base: Any) -> None:
    own = type("Own", (base,), {})
    with pytest.raises(ValueError, match=f"Own works here: derive it from Ray{base.__name__}"):
        own(**({} if base is KLRewardTransform else PAIR), use_ray_service=True)


def test_weights_of_models_that_are_here() -> None:
    transform = RetrieveKL(
        TransformersWrapper(
            tiny_model("llama", tokenizer(), seed=0), tokenizer=tokenizer(), generate=False, pad_output=True
        ),
        TransformersWrapper(
            tiny_model("llama", tokenizer(), seed=1), tokenizer=tokenizer(), generate=False, pad_output=True
        ),
    )

    def penalty() -> Tensor:
        result: Tensor = transform(conversations())["next", "kl_penalty"]
        return result

    assert penalty().any()
    assert (
        transform.update_weights(
            tiny_model("llama", tokenizer(), seed=1).state_dict(), which="gen_model", version=3
        )
        == 3
    )
    assert not penalty().any()
    assert transform.weight_versions() == {"gen_model": 3, "ref_model": 0}
