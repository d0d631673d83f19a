"""`DecisionTransformerInferenceWrapper`: TorchRL's numbers, and what it does otherwise."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import DecisionTransformerInferenceWrapper
from specgen_runtime.specs import Bounded
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

N_OBS, N_ACT = 3, 2


class Causal(nn.Module):
    """Sums over what came before each step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(N_OBS + N_ACT + 1, N_ACT)

    def forward(self, observation: Tensor, action: Tensor, return_to_go: Tensor) -> tuple[Tensor, Tensor]:
        features = self.layer(torch.cat([observation, action, return_to_go], -1))
        return features.cumsum(-2), features


def policy(names: tuple[str, str, str] = ("observation", "action", "return_to_go")) -> TensorDictModule:
    torch.manual_seed(0)
    return TensorDictModule(Causal(), in_keys=list(names), out_keys=[names[1], "features"])


def data(time: int, batch: tuple[int, ...] = (4,), *, in_batch: bool = False) -> TensorDict:
    torch.manual_seed(1)
    return TensorDict(
        {
            "observation": torch.randn(*batch, time, N_OBS),
            "action": torch.randn(*batch, time, N_ACT),
            "return_to_go": torch.randn(*batch, time, 1),
        },
        (*batch, time) if in_batch else batch,
    )


@pytest.mark.peers
@pytest.mark.parametrize("in_batch", [False, True])
@pytest.mark.parametrize("time", [3, 5, 9])
@pytest.mark.parametrize("context", [2, 5])
def test_the_numbers_are_torchrls(time: int, context: int, in_batch: bool) -> None:
    theirs = pytest.importorskip("torchrl.modules").DecisionTransformerInferenceWrapper
    given = data(time, in_batch=in_batch)
    before = given.clone()
    got = DecisionTransformerInferenceWrapper(policy(), inference_context=context)(given)
    wanted = theirs(policy(), inference_context=context)(given)
    assert got.batch_size == wanted.batch_size
    assert set(got.keys()) == set(wanted.keys())
    for key, value in wanted.items():
        assert torch.equal(got[key], value), key
    assert torch.equal(given["action"], before["action"])
    assert got["action"].shape == (4, N_ACT)


@pytest.mark.peers
def test_a_context_of_one_step_hides_all_actions() -> None:
    """TorchRL hides none then: `action[..., :-0, :]` is empty."""
    theirs = pytest.importorskip("torchrl.modules").DecisionTransformerInferenceWrapper
    seen = {}
    for name, wrapper in (("theirs", theirs), ("ours", DecisionTransformerInferenceWrapper)):
        seen[name] = wrapper(policy(), inference_context=1).mask_context(data(6))["action"].abs().amax((0, 2))
    assert (seen["ours"] == 0).all()
    assert (seen["theirs"][:-1] > 0).all()


def test_what_is_outside_of_the_context_has_no_effect() -> None:
    actor = DecisionTransformerInferenceWrapper(policy(), inference_context=3)
    given, other = data(8), data(8)
    other["observation"][:, :5] += 1
    other["action"][:, :6] += 1  # of three steps two were done, and the third is to be said
    other["return_to_go"][:, :5] += 1
    assert torch.equal(actor(given)["action"], actor(other)["action"])
    other["action"][:, 6] += 1
    assert not torch.equal(actor(given)["action"], actor(other)["action"])


def test_other_keys_and_tensors_by_keyword() -> None:
    actor = DecisionTransformerInferenceWrapper(policy(("o", "a", "r")))
    with pytest.raises(
        ValueError, match=r"the policy writes \['a', 'features'\], and no 'action': say out_action"
    ):
        actor(data(6))
    actor.set_tensor_keys(observation="o", action="a", return_to_go="r", out_action="a")
    given = data(6)
    renamed = TensorDict({"o": given["observation"], "a": given["action"], "r": given["return_to_go"]}, [4])
    wanted = DecisionTransformerInferenceWrapper(policy())(given)["action"]
    assert torch.equal(actor(renamed)["a"], wanted)
    by_keyword = dict(zip(actor.out_keys, actor(**dict(renamed.items())), strict=True))
    assert torch.equal(by_keyword["a"], wanted)
    with pytest.raises(
        TypeError, match="set_tensor_keys takes observation, action, return_to_go and out_action, got act"
    ):
        actor.set_tensor_keys(act="a")


def test_in_double_precision_and_of_integers() -> None:
    """What is added to actions has their dtype."""
    given = data(6).double()
    actor = DecisionTransformerInferenceWrapper(policy().double())
    assert actor(given)["action"].dtype == torch.float64
    given["action"] = given["action"].long()
    assert actor.mask_context(given)["action"].dtype == torch.int64


def test_its_spec() -> None:
    spec = Bounded(-1, 1, (N_ACT,))
    assert DecisionTransformerInferenceWrapper(policy(), spec=spec).spec["action"] == spec
    assert DecisionTransformerInferenceWrapper(policy()).spec["action"] is None


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda data: data.exclude("return_to_go"), KeyError, "'return_to_go'"),
        (
            lambda data: data.set("return_to_go", torch.zeros(4, 5, 1)),
            ValueError,
            r"got \[4, 6, 3\], \[4, 6, 2\], \[4, 5, 1\]",
        ),
    ],
)
def test_data_that_do_not_fit(change: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DecisionTransformerInferenceWrapper(policy())(change(data(6)))
    with pytest.raises(ValueError, match="inference_context must be >= 1, got 0"):
        DecisionTransformerInferenceWrapper(policy(), inference_context=0)
