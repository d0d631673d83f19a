"""Modules that draw do so from the generator that they are given, what they would draw from torch's own."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime import modules
from specgen_runtime.modules import (
    AdditiveGaussianModule,
    EGreedyModule,
    LazygSDEModule,
    OrnsteinUhlenbeckProcessModule,
    ProbabilisticActor,
    gSDEModule,
)
from specgen_runtime.specs import Bounded, Categorical, MultiCategorical, MultiOneHot, OneHot
from tensordict import TensorDict
from tensordict.nn import CompositeDistribution, InteractionType, TensorDictModule
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Normal

SPEC = Bounded(-1.0, 1.0, (3,))
BATCH = 6


def explored(kind: Any, spec: Any, **keywords: Any) -> tuple[Any, TensorDict]:
    data = TensorDict(
        {"action": spec.zero((BATCH,)), "is_init": torch.ones(BATCH, 1, dtype=torch.bool)}, [BATCH]
    )
    data["mask"] = torch.tensor([True, False, True]).expand(BATCH, 3)
    return kind(spec, **keywords), data


def gsde(kind: Any, *sizes: int, **keywords: Any) -> tuple[Any, TensorDict]:
    outputs = ["loc", "scale", "action", "epsilon"]
    module = TensorDictModule(kind(*sizes, **keywords), in_keys=["mean", "state"], out_keys=outputs)
    return module, TensorDict(
        {"mean": torch.zeros(BATCH, 2), "state": torch.arange(24.0).view(BATCH, 4)}, [BATCH]
    )


def actor(distribution: Any, *in_keys: str, **keywords: Any) -> tuple[Any, TensorDict]:
    def parameters(x: torch.Tensor) -> tuple[Any, ...]:
        parts = TensorDict({"move": {"loc": x, "scale": x.exp()}, "turn": {"logits": x}}, x.shape[:1])
        return x, x.exp() + 0.1, x, x, x > -10, parts, x.exp() + 1, x.exp() + 2

    keys = ["loc", "scale", "logits", "scores", "mask", "params", "concentration1", "concentration0"]
    policy = ProbabilisticActor(
        TensorDictModule(parameters, ["observation"], keys),
        in_keys=list(in_keys),
        distribution_class=distribution,
        return_log_prob=True,
        default_interaction_type=InteractionType.RANDOM,
        **keywords,
    )
    torch.manual_seed(1)
    return policy, TensorDict({"observation": torch.randn(BATCH, 3)}, [BATCH])


RELAXED = {"grad_method": modules.ReparamGradientStrategy.RelaxedOneHot}
NVEC = {"nvec": [2, 1]}
PARTS = {"distribution_map": {"move": modules.TanhNormal, "turn": modules.Categorical}}

MAKERS: dict[str, Callable[..., tuple[Any, TensorDict]]] = {
    "greedy, classes": lambda **k: explored(EGreedyModule, Categorical(3), **k),
    "greedy, one-hot": lambda **k: explored(EGreedyModule, OneHot(3), **k),
    "greedy, several classes": lambda **k: explored(EGreedyModule, MultiCategorical([3, 4]), **k),
    "greedy, several one-hot": lambda **k: explored(EGreedyModule, MultiOneHot([3, 4]), **k),
    "greedy, numbers": lambda **k: explored(EGreedyModule, SPEC, **k),
    "greedy, masked": lambda **k: explored(EGreedyModule, Categorical(3), action_mask_key="mask", **k),
    "normal noise": lambda **k: explored(AdditiveGaussianModule, SPEC, **k),
    "drifting noise": lambda **k: explored(OrnsteinUhlenbeckProcessModule, SPEC, **k),
    "gSDE": lambda **k: gsde(gSDEModule, 2, 4, **k),
    "gSDE, lazy": lambda **k: gsde(LazygSDEModule, **k),
    "IndependentNormal": lambda **k: actor(modules.IndependentNormal, "loc", "scale", **k),
    "TanhNormal": lambda **k: actor(modules.TanhNormal, "loc", "scale", **k),
    "ScaledBeta": lambda **k: actor(modules.ScaledBeta, "concentration1", "concentration0", **k),
    "TruncatedNormal": lambda **k: actor(modules.TruncatedNormal, "loc", "scale", **k),
    "Categorical": lambda **k: actor(modules.Categorical, "logits", **k),
    "OneHotCategorical": lambda **k: actor(modules.OneHotCategorical, "logits", **k),
    "relaxed": lambda **k: actor(modules.OneHotCategorical, "logits", distribution_kwargs=RELAXED, **k),
    "MaskedCategorical": lambda **k: actor(modules.MaskedCategorical, "logits", "mask", **k),
    "MaskedOneHotCategorical": lambda **k: actor(modules.MaskedOneHotCategorical, "logits", "mask", **k),
    "MultiCategorical": lambda **k: actor(modules.MultiCategorical, "logits", distribution_kwargs=NVEC, **k),
    "MultiOneHotCategorical": lambda **k: actor(
        modules.MultiOneHotCategorical, "logits", distribution_kwargs=NVEC, **k
    ),
    "IndependentBernoulli": lambda **k: actor(modules.IndependentBernoulli, "logits", **k),
    "Ordinal": lambda **k: actor(modules.Ordinal, "scores", **k),
    "OneHotOrdinal": lambda **k: actor(modules.OneHotOrdinal, "scores", **k),
    "composite": lambda **k: actor(CompositeDistribution, "params", distribution_kwargs=PARTS, **k),
    "torch's Normal": lambda **k: actor(Normal, "loc", "scale", **k),
    "torch's Categorical": lambda **k: actor(TorchCategorical, "logits", **k),
}
made = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def drawn(module: Any, data: TensorDict) -> TensorDict:
    result: TensorDict = module(data.clone()).exclude("params")
    return result


@made
def test_draws_are_those_of_torchs_generator_in_the_same_state(make: Callable[..., Any]) -> None:
    module, data = make()
    generator = torch.Generator()
    own, _ = make(generator=generator)
    torch.manual_seed(7)
    expected = [drawn(module, data) for _ in range(3)]
    generator.manual_seed(7)
    torch.manual_seed(8)
    before = torch.get_rng_state()
    found = [drawn(own, data) for _ in range(3)]
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(generator.get_state(), torch.Generator().manual_seed(7).get_state())
    for a, b in zip(found, expected, strict=True):
        assert bool((a == b).all())
    assert any(bool((a != found[0]).any()) for a in found[1:])


@made
def test_a_generator_goes_with_copies(make: Callable[..., Any]) -> None:
    module, data = make(generator=torch.Generator().manual_seed(3))
    drawn(module, data)
    again = copy.deepcopy(module)
    assert bool((drawn(again, data) == drawn(module, data)).all())


def test_exploration_is_pickled_with_its_generator() -> None:
    module, data = MAKERS["greedy, classes"](generator=torch.Generator().manual_seed(3))
    again = pickle.loads(pickle.dumps(module))
    assert bool((drawn(again, data) == drawn(module, data)).all())


@pytest.mark.parametrize(
    "name", ["greedy, numbers", "normal noise", "drifting noise", "gSDE", "TanhNormal", "Categorical"]
)
def test_a_generator_of_another_device_is_refused(name: str) -> None:
    module, data = MAKERS[name](generator=torch.Generator())
    with pytest.raises(RuntimeError, match="draws on meta, but its generator is on cpu; set `generator`"):
        module.to("meta")(data.to("meta"))


@pytest.mark.parametrize("name", ["greedy, classes", "normal noise", "drifting noise", "gSDE"])
def test_only_generators_are_taken(name: str) -> None:
    with pytest.raises(TypeError, match=r"generator must be a torch\.Generator or None, got int"):
        MAKERS[name](generator=3)


def test_another_generator_can_be_set() -> None:
    module, data = MAKERS["normal noise"]()
    policy, observations = MAKERS["TanhNormal"](generator="seed")
    generator = torch.Generator().manual_seed(5)
    state = generator.get_state()
    module.generator = policy.generator = generator
    assert policy.generator is generator
    first = drawn(module, data), drawn(policy, observations)
    generator.set_state(state)
    assert bool((drawn(module, data) == first[0]).all())
    assert bool((drawn(policy, observations) == first[1]).all())
    with pytest.raises(TypeError, match="generator must be"):
        module.generator = "cpu"
    assert "generator" not in module.state_dict()


def test_generators_are_seeds_and_keys_as_well() -> None:
    policy, data = MAKERS["TanhNormal"](generator=5)
    other, _ = MAKERS["TanhNormal"](generator=torch.Generator().manual_seed(5))
    assert bool((drawn(policy, data) == drawn(other, data)).all())
    keyed, _ = MAKERS["TanhNormal"](generator="seed")
    stream = TensorDict({"observation": data["observation"], "seed": torch.tensor(5)}, [])
    first, second = keyed(stream.clone()), keyed(stream.clone())
    assert torch.equal(first["action"], second["action"])
    assert first["seed"] != 5


@pytest.mark.parametrize(
    ("kind", "name"),
    [(EGreedyModule, "eps"), (AdditiveGaussianModule, "sigma"), (OrnsteinUhlenbeckProcessModule, "eps")],
)
def test_schedules_set_numbers(kind: Any, name: str) -> None:
    module = kind(SPEC)
    buffer = getattr(module, name)
    setattr(module, name, 0.25)
    assert getattr(module, name) is buffer
    assert module.state_dict()[name].item() == 0.25
    setattr(module, name, 1)
    module.step(10**6)
    assert buffer.item() == pytest.approx(0.1)
    other = kind(SPEC)
    setattr(module, name, 0.5)
    other.load_state_dict(module.state_dict())
    assert getattr(other, name).item() == 0.5


@pytest.mark.parametrize("number", [-0.1, 1.5, float("nan")])
def test_an_epsilon_is_a_fraction(number: float) -> None:
    module = EGreedyModule(Categorical(3))
    with pytest.raises(ValueError, match=r"eps must be within \[0, 1\], got"):
        module.eps = number  # type: ignore[assignment]
    assert module.eps.item() == 1.0


def test_epsilon_decides_from_the_next_call_on() -> None:
    data = TensorDict({"action": torch.zeros(1000, dtype=torch.int64)}, [1000])
    module = EGreedyModule(Categorical(5))
    for eps in (0.0, 0.5, 0.0):
        module.eps = eps  # type: ignore[assignment]
        share = (module(data.clone())["action"] != 0).float().mean().item()
        assert share == pytest.approx(0.8 * eps, abs=0.06)
