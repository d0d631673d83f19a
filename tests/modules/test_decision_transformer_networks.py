"""`DecisionTransformer`, `DTActor` and `OnlineDTActor`: TorchRL's numbers and states; what they see; learning from them."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest
import torch
from specgen_runtime import modules
from specgen_runtime.modules import (
    DecisionTransformer,
    DecisionTransformerInferenceWrapper,
    DTActor,
    OnlineDTActor,
    ProbabilisticActor,
    TanhNormal,
)
from specgen_std.losses import DTLoss, OnlineDTLoss
from tensordict import TensorDict
from tensordict.nn import TensorDictModule

pytest.importorskip("transformers")

SMALL = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 32, "n_positions": 36}
N_OBS, N_ACT = 3, 2
READS = ["observation", "action", "return_to_go"]


def inputs(*batch: int, time: int = 6) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*batch, time, size, generator=generator) for size in (N_OBS, N_ACT, 1)]


def small(cls: Any, **changed: Any) -> Any:
    torch.manual_seed(0)
    return cls(N_OBS, N_ACT, {**SMALL, **changed})


def test_making_one_says_nothing() -> None:
    """They have no text whose first and last token `transformers` would miss."""
    said: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = said.append  # type: ignore[assignment]
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    try:
        small(modules.DTActor)
    finally:
        logger.removeHandler(handler)
    assert not said


@pytest.mark.parametrize("shape", [(0, 6), (2, 0), (2, 0, 6), (0,)], ids=str)
@pytest.mark.parametrize("cls", [DecisionTransformer, DTActor, OnlineDTActor])
def test_no_rows_and_no_steps_give_none(cls: Any, shape: tuple[int, ...]) -> None:
    made = small(cls)(*inputs(*shape[:-1], time=shape[-1]))
    size = SMALL["n_embd"] if cls is DecisionTransformer else N_ACT
    for each in made if isinstance(made, tuple) else (made,):
        assert each.shape == (*shape, size)


@pytest.mark.peers
@pytest.mark.parametrize("name", ["DecisionTransformer", "DTActor", "OnlineDTActor"])
@pytest.mark.parametrize("batch", [(4,), (2, 3), ()], ids=str)
def test_numbers_and_states_are_torchrls(name: str, batch: tuple[int, ...]) -> None:
    theirs_of = getattr(pytest.importorskip("torchrl.modules"), name)
    theirs, mine = (
        small(theirs_of, activation="relu", resid_pdrop=0.1, attn_pdrop=0.1),
        small(getattr(modules, name)),
    )
    assert {key: value.shape for key, value in mine.state_dict().items()} == {
        key: value.shape for key, value in theirs.state_dict().items()
    }
    for key, value in theirs.state_dict().items():  # drawn in the same order
        torch.testing.assert_close(mine.state_dict()[key], value)
    mine.eval(), theirs.eval()
    given = inputs(*batch)
    wanted = theirs(*([one.unsqueeze(0) for one in given] if not batch else given))
    got = mine(*given)
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, wanted)), strict=True):
        assert one.shape == (*batch, 6, N_ACT if name != "DecisionTransformer" else 16)
        torch.testing.assert_close(one, other.reshape(one.shape), rtol=1e-5, atol=1e-6)
        found, expected = (
            torch.autograd.grad(x.square().sum(), net.parameters(), retain_graph=True, allow_unused=True)
            for x, net in ((one, mine), (other, theirs))
        )
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.peers
@pytest.mark.parametrize("name", ["DecisionTransformer", "DTActor", "OnlineDTActor"])
def test_forms_are_torchrls(name: str) -> None:
    theirs = getattr(pytest.importorskip("torchrl.modules"), name).default_config()
    assert vars(getattr(modules, name).default_config()) == vars(theirs)


def test_a_step_sees_its_observation_and_what_was_before() -> None:
    network = small(DTActor).eval()
    observation, action, to_go = inputs(2)
    before = network(observation, action, to_go)
    for place, own in ((observation, True), (action, False), (to_go, True)):
        changed = [one.clone() for one in (observation, action, to_go)]
        changed[[observation is place, action is place, to_go is place].index(True)][:, 3] += 1.0
        moved = (network(*changed) - before).abs().amax((0, 2)) > 1e-6
        assert moved.tolist() == [False] * 3 + [own, True, True]


def test_actions_are_learned_from_recorded_ones() -> None:
    """The action is the sign of what is still to come: of the return to go alone."""
    policy = TensorDictModule(small(DTActor, resid_pdrop=0.0, attn_pdrop=0.0), READS, ["action"])
    loss = DTLoss(policy)
    optimizer = torch.optim.Adam(loss.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(0)
    values: list[float] = []
    for _ in range(80):
        data = TensorDict(
            {
                name: torch.randn(32, 6, n, generator=generator)
                for name, n in zip(READS, (N_OBS, N_ACT, 1), strict=True)
            },
            [32, 6],
        )
        data["action"] = data["return_to_go"].sign().expand(-1, -1, N_ACT)
        value = loss(data)["loss"]
        values.append(value.item())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    assert values[-1] < 0.15 < 0.8 < values[0]
    acting = DecisionTransformerInferenceWrapper(policy, inference_context=6)
    sign = torch.tensor([1.5, -1.5, 1.0, -1.0])
    given = TensorDict(
        {"observation": torch.randn(4, 6, N_OBS, generator=generator), "action": torch.zeros(4, 6, N_ACT)},
        [4],
    )
    given["return_to_go"] = sign[:, None, None].expand(4, 6, 1)
    assert torch.equal(acting(given)["action"].sign(), sign.sign()[:, None].expand(4, N_ACT))


def test_the_online_loss_trains_all_of_the_network() -> None:
    head = TensorDictModule(small(OnlineDTActor), READS, ["loc", "scale"])
    policy = ProbabilisticActor(head, ["loc", "scale"], distribution_class=TanhNormal)
    loss = OnlineDTLoss(policy, target_entropy=-2.0)
    data = TensorDict(dict(zip(READS, inputs(5), strict=True)), [5, 6])
    data["action"] = data["action"].tanh()
    out = loss(data)
    (out["loss_log_likelihood"] + out["loss_entropy"] + out["loss_alpha"]).backward()
    still = [name for name, one in loss.named_parameters() if one.grad is None]
    assert all("wte" in name for name in still)  # GPT-2's table of words, which nothing reads


def test_what_does_not_fit_is_refused() -> None:
    network = small(DecisionTransformer)
    observation, action, to_go = inputs(2)
    with pytest.raises(ValueError, match=r"action must have the shape \[2, 6, 2\], got \[2, 5, 2\]"):
        network(observation, action[:, 1:], to_go)
    with pytest.raises(ValueError, match=r"observation must have the shape \[\*batch, time, 3\], got \[3\]"):
        network(observation[0, 0], action, to_go)
    with pytest.raises(ValueError, match="13 steps are 39 tokens, and n_positions is 36"):
        network(*inputs(2, time=13))
    with pytest.raises(TypeError, match="a DTConfig has no 'n_heads'"):
        DTActor(N_OBS, N_ACT, {"n_heads": 2})
    with pytest.raises(TypeError, match="a DTConfig or a mapping, got int"):
        DTActor(N_OBS, N_ACT, 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="state_dim"):
        DTActor(0, N_ACT)


def test_only_they_need_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, specgen_runtime.modules; assert 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"specgen-rl\[llm\]"):
        DTActor(N_OBS, N_ACT)
