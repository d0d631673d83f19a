"""What is given wrongly to models, transforms and losses: a clear error each, before numbers come out.

Of what the contract names: batches of different sizes, roles, templates, devices, and log-probabilities that are no
numbers, under the mask and outside it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.llm import (
    ChatEnv,
    ChatHistory,
    History,
    KLComputation,
    KLRewardTransform,
    Masks,
    RetrieveKL,
    RetrieveLogProb,
    Tokens,
    TransformersWrapper,
    as_rows,
    group_advantage,
)
from specgen_std.losses.grpo import DAPO, CISPOLoss, GRPOLoss
from tensordict import TensorDict, lazy_stack
from torch import Tensor

from tests.llm.conversations import CHATS, conversations, model, pair, tokenizer, wrapped
from tests.llm.models import tiny_tokenizer

USER, ANSWER = {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "I'm well"}
NAN = float("nan")


def data(**entries: Any) -> TensorDict:
    return TensorDict(entries, batch_size=(2,))


def values(gen: Tensor, ref: Any) -> TensorDict:
    full = ref if not isinstance(ref, Tensor) else TensorDict(full=ref, batch_size=ref.shape[:1])
    whole = {"log_probs": TensorDict(full=gen, batch_size=gen.shape[:1]), "ref_log_probs": full}
    return TensorDict(whole, batch_size=[])


def ids(*shape: int) -> Tokens:
    return Tokens(full=torch.full(shape, 5), batch_size=shape[:1])


RAGGED = lazy_stack([TensorDict(full=torch.zeros(3)), TensorDict(full=torch.zeros(4))])

SIZES: dict[str, tuple[Callable[[], Any], str]] = {
    "prompts and answers": (
        lambda: ChatHistory(prompt=[[USER]] * 3, full=[[USER, ANSWER]] * 2),
        r"a batch of \[3\] has 3 rows, got 2 conversations",
    ),
    "conversations and their batch": (
        lambda: as_rows([[USER, ANSWER]] * 2, (3,)),
        r"a batch of \[3\] has 3 rows, got 2 objects",
    ),
    "log-probabilities of two models, in rows": (
        lambda: KLComputation()(values(torch.zeros(2, 4), torch.zeros(3, 4))),
        r"is \[2, 4\], \('ref_log_probs', 'full'\) is \[3, 4\]",
    ),
    "in tokens": (
        lambda: KLComputation()(values(torch.zeros(2, 4), torch.zeros(2, 5))),
        r"is \[2, 4\], \('ref_log_probs', 'full'\) is \[2, 5\]",
    ),
    "padded and ragged": (
        lambda: KLComputation()(values(torch.zeros(2, 4), RAGGED)),
        "rows of different lengths, the other is padded",
    ),
    "a mask of what counts": (
        lambda: KLComputation(mask_key="counted")(
            values(torch.zeros(2, 4), torch.zeros(2, 4)).set("counted", torch.ones(2, 3).bool())
        ),
        r"'full'\) is \[2, 4\], 'counted' is \[2, 3\]: they are not of the same tokens",
    ),
    "tokens and their mask": (
        lambda: wrapped(0, input_mode="tokens")(
            data(tokens=ids(2, 5), attention_mask=torch.ones(2, 4).bool())
        ),
        r"are \[2, 5\], their mask \[2, 4\]",
    ),
    "the reward": (
        lambda: RetrieveKL(**pair())(conversations(torch.zeros(2, 3, 1))),
        r"the reward is \[2, 3, 1\]: neither",
    ),
    "what comes after": (
        lambda: RetrieveKL(**pair())(
            TensorDict(
                {
                    "history": ChatHistory(full=CHATS),
                    "next": TensorDict(reward=torch.zeros(3, 1), batch_size=(3,)),
                },
                [],
            )
        ),
        r"\('log_probs', 'full'\) is of 2 rows, but is to be written to data of the batch \[3\]",
    ),
    "groups of rewards": (
        lambda: group_advantage(torch.zeros(4, 1), torch.zeros(3, 1).long()),
        r"groups \[3, 1\] of rewards \[4, 1\]",
    ),
}


@pytest.mark.parametrize("which", SIZES)
def test_batches_of_different_sizes(which: str) -> None:
    wrong, said = SIZES[which]
    with pytest.raises(ValueError, match=said):
        wrong()


NO_TOOLS = "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}{{ m.content }}{% endfor %}"

ROLES: dict[str, tuple[Callable[[], Any], str]] = {
    "a string": (
        lambda: RetrieveKL(**pair(), roles="assistant"),
        r"roles are names such as \['assistant', 'tool'\]",
    ),
    "none": (lambda: RetrieveKL(**pair(), roles=[]), "roles are names such as"),
    "all tokens": (
        lambda: RetrieveKL(**pair(), roles=["user"], assistant_only=False),
        "with assistant_only=True",
    ),
    "nobody's": (
        lambda: RetrieveKL(**pair(), roles=["asistant"])(conversations()),
        r"row 0 \(\d+ tokens\) has no token of 'asistant'",
    ),
    "no answer": (
        lambda: RetrieveKL(**pair())(data(history=ChatHistory(full=[[USER]] * 2))),
        r"row 0 .* has no token of the assistant",
    ),
    "missing": (
        lambda: History.from_chats([{"content": "x"}]),
        "message 0 needs a 'role', a string, got None",
    ),
    "no string": (
        lambda: History.from_chats([{"role": 3, "content": "x"}]),
        "message 0 needs a 'role', a string, got 3",
    ),
    "of no template": (
        lambda: wrapped(0, tokenizer=tiny_tokenizer(NO_TOOLS))(
            data(history=ChatHistory(full=[[USER, ANSWER, {"role": "tool", "content": "x"}]] * 2))
        ),
        "the chat template refuses the conversation: no tools here",
    ),
}


@pytest.mark.parametrize("which", ROLES)
def test_wrong_roles(which: str) -> None:
    wrong, said = ROLES[which]
    with pytest.raises(ValueError, match=said):
        wrong()


def test_an_answer_of_another_role() -> None:
    env = ChatEnv(["Hello"])
    full = as_rows([[USER, {"role": "user", "content": "x"}]], (1,))
    with pytest.raises(
        RuntimeError, match=r"row 0 ends with a message of 'user', expected one of 'assistant'"
    ):
        env.step(env.reset().set(("history", "full"), full))


@pytest.mark.parametrize(
    "given",
    [
        lambda name: wrapped(0, chat_template_name=name)(conversations(after=False)),
        lambda name: wrapped(0, tokenizer_kwargs={"chat_template_name": name})(conversations(after=False)),
        lambda name: RetrieveKL(**pair(), tokenizer_kwargs={"chat_template_name": name}),
        lambda name: RetrieveLogProb(wrapped(0), tokenizer_kwargs={"chat_template_name": name})(
            conversations()
        ),
        lambda name: History.from_chats(CHATS).apply_chat_template(
            tokenizer=tokenizer(), chat_template_name=name
        ),
        lambda name: History.from_text("<|im_start|>user\nHello<|im_end|>", name),
        lambda name: ChatHistory(full=CHATS).to_text(tokenizer(), name),
        lambda name: ChatEnv(["x"], input_mode="text", template_kwargs={"chat_template_name": name}),
        lambda name: ChatEnv.with_tokenizer(
            ["x"], tokenizer=tokenizer(), template_kwargs={"chat_template_name": name}
        ).reset(),
    ],
)
def test_an_unknown_template(given: Callable[[str], Any]) -> None:
    with pytest.raises(ValueError, match="no chat template 'lama'; did you mean 'llama'"):
        given("lama")


def test_models_without_weights() -> None:
    """The device of each model is its own, and data go there and back; one that computes nothing is named."""
    bare = copy.deepcopy(model(1)).to("meta")
    options: dict[str, Any] = {"tokenizer": tokenizer(), "pad_output": True}
    reference = TransformersWrapper(bare, generate=False, log_probs_key="r", **options)
    said = "LlamaForCausalLM has no weights, its parameters are on the meta device"
    with pytest.raises(ValueError, match=said):
        RetrieveKL(wrapped(0), reference)(conversations())
    with pytest.raises(ValueError, match=said):
        TransformersWrapper(bare, generate_kwargs={"max_new_tokens": 2}, **options)(
            data(history=ChatHistory(prompt=[[USER]] * 2))
        )


# --------------------------------------------------------------- no numbers


def sampled(where: str) -> tuple[TensorDict, TransformersWrapper]:
    """What a policy wrote, with NaN where the assistant said something or where it did not."""
    policy = wrapped(
        0,
        generate=True,
        generate_kwargs={"max_new_tokens": 3, "do_sample": True},
        log_probs_key="log_probs",
    )
    torch.manual_seed(0)
    made = policy(data(history=ChatHistory(prompt=[[USER], [USER, ANSWER, USER]])))
    said, found = made["masks", "all_assistant_mask"], made["log_probs", "full"].clone()
    if where != "nowhere":
        found[~said if where == "outside" else said] = NAN
    made["log_probs", "full"] = found
    made["next"] = data(reward=torch.zeros(2, 1))
    return made.set("advantage", torch.tensor([[1.0], [-1.0]])), policy.get_new_version(generate=False)


def test_no_numbers_outside_of_answers_have_no_effect() -> None:
    plain, scores = sampled("nowhere")
    changed, _ = sampled("outside")
    for loss in (GRPOLoss, DAPO, CISPOLoss):
        for (name, one), other in zip(
            loss(scores)(plain).items(), loss(scores)(changed).values(), strict=True
        ):
            assert torch.equal(one, other), name
    penalty = [KLRewardTransform(wrapped(1))(each)["next"] for each in (plain, changed)]
    assert torch.equal(penalty[0]["reward"], penalty[1]["reward"])
    assert torch.equal(penalty[0]["kl_penalty"], penalty[1]["kl_penalty"])
    mask = torch.tensor([[True, False, True], [True, True, True]])
    gen, ref = torch.tensor([[1.0, NAN, 2.0], [0.5, 0.5, 0.5]], requires_grad=True), torch.ones(2, 3)
    made = KLComputation(mask_key="counted", add_to_reward=False, estimator="k3")(
        data(log_probs=data(full=gen), ref_log_probs=data(full=ref), counted=mask)
    )["kl_penalty"]
    made.sum().backward()
    assert made.isfinite().all()
    assert gen.grad is not None
    assert gen.grad.isfinite().all()


@pytest.mark.parametrize("wrong", [NAN, float("inf"), -float("inf")])
def test_no_numbers_in_answers_are_reported(wrong: float) -> None:
    changed, scores = sampled("inside")
    with pytest.raises(ValueError, match=r"the policy gives row 0, token \d+ a log-probability of nan"):
        KLRewardTransform(wrapped(1))(changed)
    found = torch.tensor([[1.0, 2.0], [wrong, 0.5]])
    for gen, ref, who in ((found, torch.ones(2, 2), "policy"), (torch.ones(2, 2), found, "reference")):
        with pytest.raises(ValueError, match=rf"the {who} gives row 1, token 0 a log-probability of {wrong}"):
            KLComputation()(data(log_probs=data(full=gen), ref_log_probs=data(full=ref)))
    broken: Any = copy.deepcopy(model(1))
    broken.lm_head.weight.data.fill_(NAN)
    reference = TransformersWrapper(
        broken, tokenizer=tokenizer(), generate=False, pad_output=True, log_probs_key="r"
    )
    with pytest.raises(ValueError, match=r"the reference gives row 0, token \d+ a log-probability of nan"):
        RetrieveKL(wrapped(0), reference)(conversations())
    answers = reference.get_new_version(
        generate=True, generate_kwargs={"max_new_tokens": 2, "do_sample": True}
    )
    with pytest.raises(RuntimeError, match="LlamaForCausalLM gives logits that are NaN"):
        answers(data(history=ChatHistory(prompt=[[USER]] * 2)))
    masks = Masks(all_assistant_mask=torch.ones(2, 4).bool(), batch_size=(2,))
    assert masks.all_assistant_mask.all()
    assert not loss_counts(changed, scores).any(), "losses leave such tokens out, as TorchRL's do"


def loss_counts(made: TensorDict, scores: TransformersWrapper) -> Tensor:
    losses = GRPOLoss(scores, reduction="none")(made)
    found: Tensor = losses["loss_objective"]
    return found


def test_a_mask_that_is_not_there() -> None:
    """It is not what counts where nobody names a mask. One that the policy wrote is beside its action."""
    after = values(torch.full((2, 4), -1.0), torch.full((2, 4), -2.0))
    after.batch_size = [2]
    mask = torch.tensor([[True, False, False, True]] * 2)
    made = KLComputation(mask_key=("masks", "all_assistant_mask"))(
        data(masks=data(all_assistant_mask=mask), next=after)
    )
    assert torch.equal(made["next", "kl_penalty"], mask.float())
    with pytest.raises(KeyError, match="KLComputation reads 'counted', which is not in the tensordict"):
        KLComputation(mask_key="counted")(values(torch.zeros(2, 4), torch.zeros(2, 4)))


def test_answers_whose_beginning_nobody_tells() -> None:
    """Prompts and whole sequences of one width, without the mask of the assistant: no token was an answer's."""
    policy = wrapped(
        0,
        generate=True,
        generate_kwargs={"max_new_tokens": 3, "do_sample": True},
        pad_to=40,
        log_probs_key="log_probs",
    )
    made = policy(data(history=ChatHistory(prompt=[[USER], [USER, ANSWER, USER]])))
    made = made.exclude(("masks", "all_assistant_mask")).set("advantage", torch.ones(2, 1))
    made["next"] = data(reward=torch.zeros(2, 1))
    said = r"\('tokens', 'prompt'\) is 40 tokens wide, and the whole sequences are 40: it is not known where answers begin"
    with pytest.raises(ValueError, match=said):
        GRPOLoss(policy.get_new_version(generate=False, input_mode="tokens"))(made)
    with pytest.raises(ValueError, match=said):
        KLRewardTransform(wrapped(1, input_mode="tokens", pad_to=40))(made)
