"""`RetrieveLogProb`, `KLComputation` and `KLRewardTransform`."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.llm import (
    ChatEnv,
    KLComputation,
    KLRewardTransform,
    RetrieveKL,
    RetrieveLogProb,
    TransformersWrapper,
)
from specgen_runtime.llm.kl.options import PenaltyOptions
from specgen_runtime.ragged import rows_at, stacked_rows
from specgen_runtime.transforms import Compose, TransformedEnv
from tensordict import TensorDict
from torch import Tensor

from tests.llm.conversations import CHATS, conversations, left, model, pair, plain, tokenizer, wrapped

CHANGEABLE = ("add_to_reward", *PenaltyOptions.__annotations__)
"""What transforms that are a penalty read at each call."""


@pytest.mark.parametrize("name", ["RetrieveKL", "KLRewardTransform", "KLComputation"])
def test_a_coefficient_that_is_assigned(name: str) -> None:
    """It counts from then on, wherever it is assigned, and has the limits of the constructor."""
    made: dict[str, Any] = {
        "RetrieveKL": lambda coeff: RetrieveKL(**pair(), coeff=coeff),
        "KLRewardTransform": lambda coeff: KLRewardTransform(wrapped(1), coef=coeff),
        "KLComputation": lambda coeff: KLComputation(coeff=coeff),
    }
    transform, other = made[name](0.25), made[name](3.0)
    word = "coef" if name == "KLRewardTransform" else "coeff"
    setattr(transform, word, 3.0)
    assert float(getattr(transform, word)) == 3.0
    assert transform.state_dict() == other.state_dict()
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError, match=f"coeff={wrong}: "):
            setattr(transform, word, wrong)
    assert float(getattr(transform, word)) == 3.0
    data = scores(torch.zeros(2, 1))
    if name == "KLComputation":
        found, wanted = (one(data.clone())["next", "reward"] for one in (transform, other))
        torch.testing.assert_close(found, wanted)
        assert (wanted != 0).any()


def test_settings_that_can_not_be_assigned() -> None:
    """An assignment without an effect is no assignment."""
    model = wrapped(0)
    transform = RetrieveLogProb(model)
    assert (transform.assistant_only, transform.detach) == (True, True)
    assert transform.log_probs_full_key == ("log_probs_0", "full")
    assert transform.model.model is model.model
    for one in ("assistant_only", "detach", "log_probs_full_key"):
        with pytest.raises(AttributeError):
            setattr(transform, one, False)
    with pytest.raises(AttributeError, match="no effect on a RetrieveLogProb that is made"):
        transform.model = wrapped(1)  # type: ignore[misc]
    greedy = model.get_new_version(generate=True, generate_kwargs={"do_sample": False})
    assert greedy.generate_kwargs == {"do_sample": False}
    with pytest.raises(AttributeError):
        greedy.generate_kwargs = {}


@pytest.mark.parametrize(
    ("make", "changeable"),
    [
        (lambda: RetrieveKL(**pair()), {"coeff"}),
        (lambda: KLRewardTransform(wrapped(1)), {*CHANGEABLE, "coef", "in_keys", "out_keys"}),
        (lambda: RetrieveLogProb(wrapped(0)), set()),
        (lambda: KLComputation(), {*CHANGEABLE, "coeff", "mask_key", "padding_side"}),
    ],
    ids=["RetrieveKL", "KLRewardTransform", "RetrieveLogProb", "KLComputation"],
)
def test_arguments_have_an_effect_where_they_are_assigned(make: Any, changeable: set[str]) -> None:
    """Each argument of a constructor is held where it is read, or can't be assigned."""
    transform = make()
    names = {*inspect.signature(type(transform)).parameters} - {"options", "penalty"}
    if not isinstance(transform, RetrieveLogProb):
        names |= {*CHANGEABLE}
    for name in names - changeable:
        with pytest.raises(AttributeError):
            setattr(transform, name, wrapped(0) if name.endswith("model") else True)


def test_keys_that_are_assigned() -> None:
    """As if they had been given; or, where they follow from other arguments, it is an error that names these."""
    reward = torch.ones(2, 1)
    changed, given = KLComputation(), KLComputation("p", "q", kl_key="kl")
    changed.in_keys, changed.out_keys = ["p", "q"], ["kl"]
    for one in (changed, given):
        assert (one.gen_log_probs_full_key, one.ref_log_probs_full_key, one.kl_key) == ("p", "q", "kl")
        data = TensorDict({"next": {"p": torch.ones(2, 3), "q": torch.zeros(2, 3), "reward": reward}}, [2])
        assert set(one(data)["next"].keys()) == {"p", "q", "reward", "kl"}
    rewards = KLRewardTransform(wrapped(1))
    rewards.in_keys, rewards.out_keys = ["score"], ["whole", "kl"]
    data = sampled()
    data["next", "score"] = reward
    assert set(rewards(data)["next"].keys()) == {"history", "score", "whole", "kl"}
    wrong: list[tuple[Any, str, list[str]]] = [
        (changed, "in_keys", ["p"]),
        (changed, "in_keys", ["p", "p"]),
        (changed, "out_keys", ["kl", "p"]),
        (rewards, "in_keys", ["a", "b"]),
        (rewards, "out_keys", ["whole"]),
        (rewards, "out_keys", ["whole", "whole"]),
        (RetrieveKL(**pair()).penalty, "out_keys", ["kl"]),
    ]
    for transform, name, keys in wrong:
        before = getattr(transform, name)
        with pytest.raises(ValueError, match=r"key|log-probabilities are read"):
            setattr(transform, name, keys)
        assert getattr(transform, name) == before
    fixed: list[tuple[Any, str, str]] = [
        (RetrieveKL(**pair()), "in_keys", "history_key"),
        (RetrieveKL(**pair()), "out_keys", "kl_key"),
        (RetrieveKL(**pair()).penalty, "in_keys", "history_key"),
        (RetrieveLogProb(wrapped(0)), "in_keys", "history_key"),
        (RetrieveLogProb(wrapped(0)), "out_keys", "log_probs_full_key"),
    ]
    for transform, name, instead in fixed:
        with pytest.raises(AttributeError, match=f"{name} can't be assigned: .*{instead}"):
            setattr(transform, name, ["a"])


def test_settings_of_a_penalty_that_are_assigned() -> None:
    transform = KLComputation()
    transform.estimator, transform.add_to_reward = "k2", False
    found, expected = (
        one(scores(torch.zeros(2, 1)))["next"]
        for one in (transform, KLComputation(estimator="k2", add_to_reward=False))
    )
    torch.testing.assert_close(found["kl_penalty"], expected["kl_penalty"])
    assert torch.equal(found["reward"], torch.zeros(2, 1))


# ---------------------------------------------------------- RetrieveLogProb


@pytest.mark.parametrize("assistant_only", [True, False])
def test_log_probs_of_a_model(assistant_only: bool) -> None:
    transform = RetrieveLogProb(wrapped(0), assistant_only=assistant_only)
    assert transform.out_keys == [("log_probs_0", "full")]
    found = transform(conversations())["next", "log_probs_0", "full"]
    torch.testing.assert_close(found, left(plain(0, assistant_only)), rtol=1e-5, atol=1e-5)
    assert not found.requires_grad
    assert not list(transform.parameters())


def test_log_probs_at_a_key_at_the_root_and_with_gradients() -> None:
    transform = RetrieveLogProb(wrapped(0), log_probs_full_key="p", detach=False)
    found = transform(conversations(after=False))["p"]
    torch.testing.assert_close(found, left(plain(0)), rtol=1e-5, atol=1e-5)
    assert found.requires_grad


def test_a_model_that_does_not_score_is_refused() -> None:
    with pytest.raises(ValueError, match="model generates"):
        RetrieveLogProb(wrapped(0, generate=True))
    with pytest.raises(ValueError, match="model has 'text'"):
        RetrieveLogProb(wrapped(0, input_mode="text"))
    with pytest.raises(KeyError, match="'history', 'full'"):
        RetrieveLogProb(wrapped(0))(TensorDict(batch_size=(2,)))


def test_two_of_them_and_a_computation_are_retrieve_kl() -> None:
    reward = torch.randn(2, 1, generator=torch.Generator().manual_seed(0))
    parts = Compose(
        RetrieveLogProb(wrapped(0), log_probs_full_key=("log_probs", "full")),
        RetrieveLogProb(wrapped(1), log_probs_full_key=("ref_log_probs", "full")),
        KLComputation(coeff=0.7),
    )
    ours, whole = parts(conversations(reward)), RetrieveKL(**pair(), coeff=0.7)(conversations(reward))
    for key in ("kl_penalty", "reward", ("log_probs", "full"), ("ref_log_probs", "full")):
        torch.testing.assert_close(ours["next"].get(key), whole["next"].get(key))


# ------------------------------------------------------------ KLComputation

P, Q = (
    torch.tensor([[0.0, -1.0, -2.0], [0.0, 0.0, -0.5]]),
    torch.tensor([[0.0, -3.0, -1.0], [0.0, 0.0, -2.0]]),
)


def scores(reward: Any = None, mask: Any = None) -> TensorDict:
    after = TensorDict(batch_size=(2,))
    after["log_probs", "full"], after["ref_log_probs", "full"] = P.clone(), Q.clone()
    if reward is not None:
        after["reward"] = reward
    if mask is not None:
        after["mask"] = mask
    return TensorDict(next=after, batch_size=(2,))


def test_the_difference_of_log_probs() -> None:
    after = KLComputation(coeff=2.0)(scores(torch.ones(2, 1)))["next"]
    assert torch.equal(after["kl_penalty"], P - Q)
    assert after["reward"].flatten().tolist() == [1 - 2 * (2.0 - 1.0), 1 - 2 * 1.5]
    assert "kl" in KLComputation(kl_key="kl")(scores())["next"]


def test_what_is_masked_is_not_looked_at() -> None:
    data = scores(torch.ones(2, 1), torch.tensor([[False, True, False], [False, False, True]]))
    data["next", "log_probs", "full"][0, 0] = float("nan")
    data["next", "ref_log_probs", "full"][0, 2] = float("inf")
    after = KLComputation(mask_key="mask")(data)["next"]
    assert after["kl_penalty"].tolist() == [[0.0, 2.0, 0.0], [0.0, 0.0, 1.5]]
    assert after["reward"].flatten().tolist() == [-1.0, -0.5]
    with pytest.raises(ValueError, match="the policy gives row 0, token 0 a log-probability of nan"):
        KLComputation()(data)
    assert KLComputation(check_finite=False)(data)["next", "kl_penalty"][0, 0].isnan()


def test_what_is_not_finite_is_refused_in_one_compiled_graph() -> None:
    computation = KLComputation()

    def penalty(policy: Tensor) -> Tensor:
        data = scores(torch.ones(2, 1))
        data["next", "log_probs", "full"] = policy
        found: Tensor = computation(data)["next", "kl_penalty"]
        return found

    compiled = torch.compile(penalty, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(P.clone()), P - Q)
    with pytest.raises(RuntimeError, match="the policy gives a token a log-probability that is not finite"):
        compiled(P * torch.tensor([[torch.nan], [1.0]]))


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_of_different_lengths(side: Any) -> None:
    p, q = ([row[-2:] if k else row for k, row in enumerate(each)] for each in (P, Q))
    after = TensorDict(log_probs=stacked_rows(full=p), ref_log_probs=stacked_rows(full=q), batch_size=(2,))
    after["reward"] = torch.ones(2, 1)
    after["tokens"] = stacked_rows(reward=[torch.ones(3, 1), torch.ones(2, 1)])
    KLComputation(padding_side=side)(after)
    rows = rows_at(after, "kl_penalty")
    assert isinstance(rows, list)
    assert [row.tolist() for row in rows] == [[0.0, 2.0, -1.0], [0.0, 1.5]]
    assert after["reward"].flatten().tolist() == [0.0, -0.5]


@pytest.mark.parametrize("shape", [(2, 1), (2, 1, 1)])
def test_one_reward_for_each_conversation(shape: tuple[int, ...]) -> None:
    reward = torch.tensor([1.0, 2.0]).reshape(shape)
    data = TensorDict(
        {"p": torch.full((2, 3), -1.0), "q": torch.full((2, 3), -2.0), "reward": reward.clone()}, [2]
    )
    found = KLComputation("p", "q", coeff=0.5)(data)
    assert torch.equal(found["reward"], reward - 1.5)


@pytest.mark.peers
@pytest.mark.parametrize("lazy", [False, True])
def test_rows_of_different_lengths_in_a_buffer(lazy: bool) -> None:
    buffers = pytest.importorskip("torchrl.data")
    data = conversations()
    data = RetrieveKL(**pair(pad_output=False))(data.to_lazystack(0) if lazy else data)
    wanted = rows_at(data["next"], "kl_penalty")
    assert isinstance(wanted, list)
    buffer = buffers.ReplayBuffer(storage=buffers.LazyStackStorage(4), batch_size=2)
    buffer.extend(data)
    for row, expected in zip(buffer[:]["next"].get("kl_penalty", as_list=True), wanted, strict=True):
        assert torch.equal(row, expected)


def test_fault_5_a_missing_log_prob_key() -> None:
    with pytest.raises(
        KeyError, match=r"reads \('log_probs', 'full'\), which is not in the tensordict \(it holds 'x'\)"
    ):
        KLComputation()(TensorDict(x=torch.zeros(2), batch_size=(2,)))


def test_log_probs_of_other_tokens_are_refused() -> None:
    data = scores()
    data["next", "ref_log_probs", "full"] = torch.zeros(2, 4)
    with pytest.raises(
        ValueError, match=r"'full'\) is \[2, 3\], .* is \[2, 4\]: they are not of the same tokens"
    ):
        KLComputation()(data)
    data["next", "ref_log_probs"] = stacked_rows(full=[torch.zeros(3), torch.zeros(2)])
    with pytest.raises(ValueError, match="the other is padded"):
        KLComputation()(data)
    with pytest.raises(ValueError, match="both log-probabilities are read at"):
        KLComputation("p", "p")


@pytest.mark.parametrize("key", [("log_probs", "full"), ("ref_log_probs", "full")], ids=str)
def test_a_penalty_in_the_place_of_log_probs_is_refused(key: tuple[str, str]) -> None:
    """Of which a second call would make another penalty."""
    match = r"the penalty would stand in the place of log-probabilities, at "
    with pytest.raises(ValueError, match=match):
        KLComputation(kl_key=key)
    transform = KLComputation()
    with pytest.raises(ValueError, match=match):
        transform.out_keys = [key]
    with pytest.raises(ValueError, match=match):
        transform.in_keys = ["kl_penalty", key]
    assert transform.kl_key == "kl_penalty"


# -------------------------------------------------------- KLRewardTransform


def sampled(**reward: Any) -> TensorDict:
    """Conversations with the log-probabilities that the policy wrote."""
    data = conversations(**reward)
    return RetrieveLogProb(wrapped(0), log_probs_full_key=("log_probs", "full"))(data.exclude("next")).update(
        {} if "next" not in data else {"next": data["next"]}
    )


@pytest.mark.parametrize("after", [True, False])
def test_fault_14_outside_an_environment(after: bool) -> None:
    reward = torch.randn(2, 1, generator=torch.Generator().manual_seed(0))
    data = KLRewardTransform(wrapped(1), coef=0.5)(sampled(reward=reward, after=after))
    place = data["next"] if after else data
    kl = left(plain(0)) - left(plain(1))
    torch.testing.assert_close(place["kl_penalty"], kl, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(place["ref_log_probs"], left(plain(1)), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(place["reward"], reward - 0.5 * kl.sum(-1, keepdim=True), rtol=1e-5, atol=1e-5)


def test_keys_of_the_reward() -> None:
    transform = KLRewardTransform(wrapped(1), in_keys=["score"], out_keys=["whole", "kl"], add_to_reward=True)
    data = sampled()
    data["next", "score"] = torch.ones(2, 1)
    after = transform(data)["next"]
    assert set(after.keys()) == {"history", "score", "whole", "kl"}
    torch.testing.assert_close(after["whole"], 1 - after["kl"].sum(-1, keepdim=True))
    wrong: list[dict[str, Any]] = [{"in_keys": ["a", "b"]}, {"out_keys": ["a"]}]
    for keywords in wrong:
        with pytest.raises(ValueError, match="in_keys is the reward's key"):
            KLRewardTransform(wrapped(1), **keywords)


def test_a_reference_that_is_missing_or_given_twice() -> None:
    with pytest.raises(ValueError, match="ref_model is missing"):
        KLRewardTransform()
    with pytest.raises(ValueError, match="both given"):
        KLRewardTransform(wrapped(1), ref_model_factory=lambda: wrapped(1))
    with pytest.raises(KeyError, match="KLRewardTransform reads"):
        KLRewardTransform(wrapped(1))(conversations())


@pytest.mark.parametrize("mode", ["history", "tokens"])
def test_the_reward_in_an_environment(mode: Any) -> None:
    """Only what the policy sampled counts; the same penalty as `RetrieveKL`."""
    policy = TransformersWrapper(
        model(0),
        tokenizer=tokenizer(),
        return_log_probs=True,
        pad_output=True,
        pad_to=40,
        generate_kwargs={"max_new_tokens": 3},
    )
    reference = wrapped(1, input_mode=mode, pad_to=40)
    base = ChatEnv([{"query": "Hello"}], batch_size=(2,), group=2)
    env = TransformedEnv(base, KLRewardTransform(reference, coef=0.5))
    data = env.rollout(2, policy, break_when_any_done=False)
    kl, said = data["next", "kl_penalty"], data["masks", "all_assistant_mask"]
    assert torch.equal(kl != 0, said)
    torch.testing.assert_close(data["next", "reward"], -0.5 * kl.sum(-1, keepdim=True))
    step = RetrieveKL(wrapped(0, pad_to=40), wrapped(1, pad_to=40))(
        data[:, 0].exclude(("next", "reward"), ("next", "ref_log_probs"))
    )
    torch.testing.assert_close(step["next", "kl_penalty"], kl[:, 0], rtol=1e-4, atol=1e-4)


def test_log_probs_in_an_environment() -> None:
    base = ChatEnv([{"query": "Hello"}], batch_size=(2,), group=2)
    chain = Compose(
        RetrieveLogProb(wrapped(0, pad_to=30), log_probs_full_key=("log_probs", "full")),
        RetrieveLogProb(wrapped(1, pad_to=30), log_probs_full_key=("ref_log_probs", "full")),
        KLComputation(),
    )
    env = TransformedEnv(base, chain)
    check_env_specs(env)
    assert env.observation_spec["kl_penalty"].shape == (2, 30)
    chain[2].out_keys = ["kl"]
    check_env_specs(env)
    assert env.observation_spec["kl"].shape == (2, 30)
    assert "kl_penalty" not in env.observation_spec
    assert len(CHATS) == 2
