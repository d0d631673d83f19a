"""What holds of every loss of the library: those that are added join by being there."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import LossModule, SoftUpdate
from tensordict import TensorDict
from torch import Tensor, nn

from tests.objectives.every_loss import KEYWORDS, OF_TOKENS, OWN, batch, losses, made, networks, total

pytestmark = [
    pytest.mark.filterwarnings("ignore:No target network updater", "ignore:.*arget.*updater.*"),
    pytest.mark.parametrize("cls", [pytest.param(cls, id=name) for name, cls in losses().items()]),
]


def outputs(loss: Any, data: TensorDict) -> TensorDict:
    """What a loss returns, with the same draws each time."""
    torch.manual_seed(5)
    out: TensorDict = loss(data)
    return out


def gradients(loss: Any, out: TensorDict) -> dict[str, Tensor]:
    loss.zero_grad()
    total(out).backward()
    return {name: p.grad.clone() for name, p in loss.named_parameters() if p.grad is not None}


def assert_same(got: TensorDict, wanted: TensorDict) -> None:
    assert set(got.keys()) == set(wanted.keys())
    for key, value in wanted.items():
        torch.testing.assert_close(got[key], value, msg=lambda text, key=key: f"{key}: {text}")


def test_every_parameter_is_trained_by_some_term(cls: type[LossModule]) -> None:
    loss = made(cls)
    trained = gradients(loss, outputs(loss, batch(cls.__name__, 6)))
    assert trained.keys() == {name for name, p in loss.named_parameters() if p.requires_grad}
    assert all(gradient.isfinite().all() for gradient in trained.values())
    assert all(gradient.any() for gradient in trained.values())


def test_it_compiles_in_one_graph(cls: type[LossModule]) -> None:
    """Also at its first call: what is built on the way was built before."""
    loss, compiled = made(cls), made(cls)
    expected = outputs(loss, batch(cls.__name__, 6))
    torch._dynamo.reset()
    run = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    got = outputs(run, batch(cls.__name__, 6))
    assert_same(got, expected)
    wanted = gradients(loss, expected)
    for name, gradient in gradients(compiled, got).items():
        torch.testing.assert_close(gradient, wanted[name], msg=name)


def test_it_runs_in_bfloat16(cls: type[LossModule]) -> None:
    loss = made(cls)
    expected = outputs(loss, batch(cls.__name__, 32))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = outputs(loss, batch(cls.__name__, 32))
    for key, value in expected.items():
        torch.testing.assert_close(got[key].float(), value, rtol=0.1, atol=0.1)
    trained = gradients(loss, got)
    assert all(gradient.isfinite().all() for gradient in trained.values())
    # casts of parameters that were made without gradients are not those that are trained
    assert trained.keys() == gradients(loss, outputs(loss, batch(cls.__name__, 32))).keys()


def test_all_draws_come_from_its_generator(cls: type[LossModule]) -> None:
    """Torch's own random numbers are left alone, those of dropout in the networks included."""
    given = networks(cls)
    for network in given.values():
        for layers in [part for part in network.modules() if isinstance(part, nn.Sequential)]:
            layers.insert(1, nn.Dropout(0.5))
    loss, found = cls(*given.values(), **KEYWORDS.get(cls.__name__, {})), list[TensorDict]()
    for seed, own in ((0, 9), (1, 9), (1, 10)):
        torch.manual_seed(seed)
        before, loss.generator = torch.get_rng_state(), torch.Generator().manual_seed(own)
        found.append(loss(batch(cls.__name__, 6)))
        assert torch.equal(torch.get_rng_state(), before)
        assert not torch.equal(loss.generator.get_state(), torch.Generator().manual_seed(own).get_state())
    first, again, other = found
    assert_same(again, first)
    assert any(not torch.equal(value, other[key]) for key, value in first.items())


def test_several_sets_of_parameters_at_once(cls: type[LossModule]) -> None:
    """`torch.vmap` over parameters gives what the loss gives for each set of them."""
    loss, data = made(cls), batch(cls.__name__, 6)
    sets = [TensorDict.from_module(made(cls, seed)).detach().clone() for seed in (0, 3, 4)]
    kept = [name for name in loss.out_keys if name in outputs(loss, data.clone())]

    def terms(parameters: TensorDict) -> tuple[Tensor, ...]:
        with parameters.to_module(loss):
            return tuple(loss(data.clone())[name] for name in kept)

    torch.manual_seed(5)
    together = torch.vmap(terms, randomness="same")(torch.stack(sets))
    for number, parameters in enumerate(sets):
        torch.manual_seed(5)
        for name, value, one in zip(kept, together, terms(parameters), strict=True):
            torch.testing.assert_close(value[number], one, msg=f"{name} of set {number}")
    assert_same(outputs(loss, data.clone()), outputs(made(cls), data.clone()))


@pytest.mark.parametrize("how", ["pickle", "deepcopy"])
def test_copies(cls: type[LossModule], how: str) -> None:
    loss = made(cls)
    other = copy.deepcopy(loss) if how == "deepcopy" else pickle.loads(pickle.dumps(loss))
    assert_same(outputs(other, batch(cls.__name__, 6)), outputs(loss, batch(cls.__name__, 6)))
    before = outputs(loss, batch(cls.__name__, 6))
    for parameter in other.parameters():
        parameter.data.add_(1)
    assert_same(outputs(loss, batch(cls.__name__, 6)), before)


def test_the_state_does_not_depend_on_whether_it_was_called(cls: type[LossModule]) -> None:
    loss, fresh = made(cls, 2), made(cls)
    expected = outputs(loss, batch(cls.__name__, 6))
    fresh.load_state_dict(loss.state_dict())
    assert_same(outputs(fresh, batch(cls.__name__, 6)), expected)


def test_the_data_are_not_changed_but_for_what_is_written(cls: type[LossModule]) -> None:
    data = batch(cls.__name__, 6)
    before = data.clone()
    loss = made(cls)
    loss(data)
    written = set(data.keys(True, True)) - set(before.keys(True, True))
    assert written <= {getattr(loss.tensor_keys, "priority", None)}
    assert all(torch.equal(data[key], before[key]) for key in before.keys(True, True))


def test_double_precision_and_keyword_calls(cls: type[LossModule]) -> None:
    loss = made(cls).to(torch.float64)
    data = batch(cls.__name__, 6).apply(lambda x: x.double() if x.is_floating_point() else x)
    out = outputs(loss, data)
    assert all(value.dtype == torch.float64 for key, value in out.items() if key.startswith("loss"))
    inputs = {
        "_".join(key) if isinstance(key, tuple) else key: data[key]
        for key in [*loss.in_keys, *loss._further_keys()]
        if key in data.keys(True)
    }
    torch.manual_seed(5)
    values = loss(**inputs)
    for key, value in zip(loss.out_keys, values if isinstance(values, tuple) else [values], strict=True):
        torch.testing.assert_close(value, out[key], msg=key)


@pytest.mark.peers
def test_a_state_of_torchrls_loss(cls: type[LossModule]) -> None:
    objectives = pytest.importorskip(f"torchrl.objectives{'.llm' if cls.__name__ in OF_TOKENS else ''}")
    keywords = KEYWORDS.get(cls.__name__, {}) | (
        {"tokenizer": object()} if cls.__name__ in ("SFTLoss", "DistillationLoss") else {}
    )
    if cls.__name__ in OWN:
        assert not hasattr(objectives, cls.__name__), "compare it with TorchRL's"
        return
    theirs = getattr(objectives, cls.__name__)(*networks(cls, 7).values(), **keywords)
    loss = made(cls)
    if theirs.default_value_estimator is not None:
        theirs.make_value_estimator()
    getattr(theirs, "target_entropy", None)  # which the peer makes at first use, as well
    state = theirs.state_dict()
    loss.load_state_dict(state)
    mine = loss.state_dict()
    assert mine.keys() == state.keys()
    for name, value in state.items():
        if isinstance(value, Tensor):
            torch.testing.assert_close(mine[name], value, msg=name)


def test_an_updater_moves_what_it_has(cls: type[LossModule]) -> None:
    loss = made(cls)
    if not loss.target_networks():
        with pytest.raises(RuntimeError, match="has no target parameters"):
            SoftUpdate(loss, tau=0.5)
        return
    for parameter in loss.parameters():
        parameter.data.add_(1)
    before = {name: getattr(loss, f"target_{name}_params").data.clone() for name in loss.target_networks()}
    SoftUpdate(loss, tau=0.5).step()
    for name, targets in before.items():
        now, source = getattr(loss, f"target_{name}_params").data, getattr(loss, f"{name}_params").data
        for key, value in targets.items(True, True):
            if value.is_floating_point():
                torch.testing.assert_close(now.get(key), (value + source.get(key)) / 2)


def test_terms_train_what_they_say(cls: type[LossModule]) -> None:
    loss = made(cls)
    terms = [name for name in loss.out_keys if name.startswith("loss")]
    assert set(loss.trained) >= set(terms)
    for term in terms:
        loss.zero_grad()
        value = outputs(loss, batch(cls.__name__, 6))[term]
        if not loss.parameters_of(term):
            assert not value.requires_grad, term
            continue
        value.backward()
        reached = {parameter for parameter in loss.parameters() if parameter.grad is not None}
        assert reached == set(loss.parameters_of(term)), term
    assert set(loss.parameters_of(*terms)) == {p for p in loss.parameters() if p.requires_grad}
    with pytest.raises(ValueError, match=r"parameters_of takes some of loss.*; got 'lost'"):
        loss.parameters_of("lost")


def test_metrics_have_no_gradients(cls: type[LossModule]) -> None:
    """Kept over many steps, they would keep the graphs of all of them."""
    loss, data = made(cls), batch(cls.__name__, 6)
    out = outputs(loss, data)
    assert [key for key, value in out.items() if value.requires_grad and not key.startswith("loss")] == []
    assert [key for key, value in data.items(True, True) if value.requires_grad] == []
