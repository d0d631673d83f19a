"""Numbers that a loss learns beside its networks: parameters or buffers, their bounds, gradients and states."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import moved_between, read_between

from tests.objectives.nets import batch, critic
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
losses:
  TemperedLoss:
    networks: {critic: {in: [observation], out: {state_value: "float32[1]"}}}
    keys: {reward: reward}
    params: {alpha_init: {default: 1.0, above: 0}, lowest: -2.0, highest: 0.5, fixed_alpha: false}
    learnable:
      log_alpha: {init: log(alpha_init), low: lowest, high: highest, fixed: fixed_alpha}
      offset: {init: 2, low: 0, high: 1, bound: pass}
      fixed: {init: 0.25, fixed: true}
    let:
      alpha: stop_grad(exp(log_alpha))
      error: reward - critic(now)
    terms:
      loss_critic: alpha * error**2
      loss_alpha: -log_alpha * (stop_grad(error) + fixed)
      loss_offset: offset**2 * stop_grad(error)
    metrics: {alpha: alpha}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"tempered": SCHEMA}, "learned")
    with imported(files, "learned", tmp_path_factory.mktemp("learned")) as package:
        yield package


def reference(loss: Any, data: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The error of each sample, and its value without gradient."""
    error = (data["next", "reward"] - loss.get_stateful_net("critic")(data.clone())["state_value"]).squeeze(
        -1
    )
    return error, error.detach()


def test_values_and_gradients_are_those_of_the_formula(module: ModuleType) -> None:
    loss, data = module.TemperedLoss(critic(), alpha_init=0.5), batch(6)
    out = loss(data)
    error, known = reference(loss, data)
    log_alpha = torch.tensor(math.log(0.5), requires_grad=True)
    offset = torch.tensor(1.0, requires_grad=True)  # what 2 is at its upper bound
    wanted = {
        "loss_critic": 0.5 * (error**2).mean(),
        "loss_alpha": (-log_alpha * (known + 0.25)).mean(),
        "loss_offset": (offset**2 * known).mean(),
        "alpha": torch.tensor(0.5),
    }
    for name, value in wanted.items():
        torch.testing.assert_close(out[name], value, check_dtype=False)
    got = torch.autograd.grad(out["loss_alpha"] + out["loss_offset"], [loss.log_alpha, loss.offset])
    expected = torch.autograd.grad(wanted["loss_alpha"] + wanted["loss_offset"], [log_alpha, offset])
    torch.testing.assert_close(got, expected)
    # no gradient of the critic's term reaches the temperature
    assert torch.autograd.grad(out["loss_critic"], loss.log_alpha, allow_unused=True) == (None,)


def test_a_moved_number_is_brought_back_and_a_passed_one_is_read_there(module: ModuleType) -> None:
    loss, data = module.TemperedLoss(critic()), batch(6)
    with torch.no_grad():
        loss.log_alpha.fill_(3.0)
        loss.offset.fill_(-4.0)
    out = loss(data)
    assert loss.log_alpha.item() == 0.5
    assert loss.offset.item() == -4.0
    assert out["loss_offset"] == 0.0
    torch.testing.assert_close(out["alpha"], torch.tensor(0.5).exp())


def test_the_gradient_of_the_identity() -> None:
    low, high = torch.tensor(-1.0), torch.tensor(1.0)
    for at, value in ((-3.0, -1.0), (0.5, 0.5), (2.0, 1.0)):
        number = torch.tensor(at, requires_grad=True)
        read = read_between(number, low, high)
        assert read.item() == value
        assert torch.autograd.grad(3 * read, number)[0] == 3.0
    assert read_between(number, None, None) is number
    assert moved_between(number, None, None) is number
    assert moved_between(number, None, torch.tensor(1.5)).item() == 1.5


def test_what_is_fixed_is_a_buffer(module: ModuleType) -> None:
    free, fixed = module.TemperedLoss(critic()), module.TemperedLoss(critic(), fixed_alpha=True)
    learned = {name for name, _ in free.named_parameters() if "." not in name}
    assert learned == {"log_alpha", "offset"}
    assert {name for name, _ in fixed.named_parameters() if "." not in name} == {"offset"}
    names = {"log_alpha", "min_log_alpha", "max_log_alpha", "offset", "min_offset", "max_offset", "fixed"}
    for loss in (free, fixed):
        assert {name for name in loss.state_dict() if "." not in name} == names
    assert not fixed(batch(4))["loss_alpha"].requires_grad


def test_states_copies_and_dtypes(module: ModuleType) -> None:
    loss = module.TemperedLoss(critic(), alpha_init=0.75)
    other = module.TemperedLoss(critic(1))
    other.load_state_dict(loss.state_dict())
    data = batch(5)
    for twin in (other, copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert twin.log_alpha.item() == loss.log_alpha.item()
        torch.testing.assert_close(twin(data)["loss_critic"], loss(data)["loss_critic"])
    assert loss.to(torch.float64).log_alpha.dtype == torch.float64
    assert loss.max_log_alpha.dtype == torch.float64


@pytest.mark.parametrize("name", ["forward", "parts", "offset", "critic", "mine_loss"])
def test_an_exponential_takes_no_name_of_another_attribute(name: str) -> None:
    schema = SCHEMA.replace("log_alpha", f"log_{name}")
    files = generate({"logarithms": schema + "    methods: {mine_loss: loss_alpha}\n"}, "logarithms")
    (text,) = (text for path, text in files.items() if path.startswith("logarithms"))
    assert f"self.log_{name}" in text
    assert "exponential_of" not in text


def test_bounds_in_the_wrong_order_are_refused(module: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"lower bound of log_alpha is 2.0, above its upper bound, 0.5"):
        module.TemperedLoss(critic(), lowest=2.0)


def test_compiled(module: ModuleType) -> None:
    loss, data = module.TemperedLoss(critic(), alpha_init=0.5), batch(6)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for name, value in loss(data).items():
        torch.testing.assert_close(compiled(data)[name], value)
