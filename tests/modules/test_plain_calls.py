"""Sequences of tensordict modules give what tensordict's own give, however they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime import modules as ours
from specgen_runtime.specs import Bounded, Categorical
from tensordict import TensorDict
from tensordict.nn import (
    InteractionType,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
    set_interaction_type,
    set_skip_existing,
)
from tensordict.nn.probabilistic import interaction_type
from torch import Tensor, nn


def data(*batch: int) -> TensorDict:
    torch.manual_seed(1)
    return TensorDict({"observation": torch.randn(*batch, 4)}, batch)


def trunk(size: int = 4) -> TensorDictModule:
    torch.manual_seed(0)
    return TensorDictModule(nn.Linear(4, size), in_keys=["observation"], out_keys=["features"])


def head() -> TensorDictModule:
    torch.manual_seed(0)
    return TensorDictModule(ours.NormalParamExtractor(), in_keys=["features"], out_keys=["loc", "scale"])


DRAW: dict[str, Any] = {
    "in_keys": ["loc", "scale"],
    "out_keys": ["action"],
    "distribution_class": ours.TanhNormal,
    "return_log_prob": True,
}


def mine() -> Any:
    return ours.SafeProbabilisticTensorDictSequential(trunk(), head(), ours.SafeProbabilisticModule(**DRAW))


def tensordicts() -> Any:
    return ProbabilisticTensorDictSequential(trunk(), head(), ProbabilisticTensorDictModule(**DRAW))


CALLS: dict[str, Callable[[Any], Any]] = {
    "a tensordict": lambda policy: policy(data(5)),
    "no batch": lambda policy: policy(data()),
    "two dimensions of batch": lambda policy: policy(data(2, 3)),
    "tensors by keyword": lambda policy: policy(observation=data(5)["observation"]),
    "tensors": lambda policy: policy(data(5)["observation"]),
    "another output": lambda policy: policy(data(5), tensordict_out=TensorDict({}, [5])),
    "part of the outputs": lambda policy: policy.select_out_keys("action")(data(5)),
    "part of the modules": lambda policy: policy[:2](data(5)),
    "what is locked": lambda policy: policy(data(5).lock_().unlock_()),
    "where it is mapped": lambda policy: torch.vmap(policy, randomness="different")(data(5)),
    "without a draw": lambda policy: policy.get_dist(data(5)).loc,
    "a log-probability": lambda policy: policy.log_prob(data(5).set("action", torch.full((5, 2), 0.3))),
}


@pytest.mark.parametrize("mode", [None, InteractionType.RANDOM, InteractionType.DETERMINISTIC])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_gives_what_tensordicts_own_give(call: Callable[[Any], Any], mode: Any) -> None:
    results = []
    for policy in (mine(), tensordicts()):
        with set_interaction_type(mode):
            torch.manual_seed(5)
            result = call(policy)
        if not isinstance(result, TensorDict):
            result = dict(enumerate(result if isinstance(result, tuple) else (result,)))
        results.append(result)
    assert list(results[0].keys()) == list(results[1].keys())
    for key, value in results[0].items():
        torch.testing.assert_close(value, results[1][key])


def test_writes_into_the_tensordict_that_it_was_given() -> None:
    for policy in (
        mine(),
        ours.SafeSequential(trunk(), head()),
        ours.QValueActor(nn.Linear(4, 3), spec=Categorical(3)),
    ):
        given = data(5)
        assert policy(given) is given


def test_hooks_are_called() -> None:
    policy = mine()
    seen: list[str] = []
    for name, module in (
        ("sequence", policy),
        ("module", policy[0]),
        ("network", policy[0].module),
        ("draw", policy[2]),
    ):
        module.register_forward_hook(lambda *_, name=name: seen.append(name))
    policy(data(5))
    assert seen == ["network", "module", "draw", "sequence"]
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, *_: seen.append(type(module).__name__)
    )
    seen.clear()
    policy(data(5))
    handle.remove()
    assert "TensorDictModule" in seen


def test_a_forward_in_place_of_the_class_is_called() -> None:
    policy = ours.SafeSequential(trunk(), head())
    policy[0].forward = lambda tensordict: tensordict.set("features", torch.zeros(5, 4))
    assert (policy(data(5))["loc"] == 0).all()


def test_what_exists_can_be_skipped() -> None:
    network = nn.Linear(4, 4)
    policy = ours.SafeSequential(TensorDictModule(network, in_keys=["observation"], out_keys=["features"]))
    given = data(5).set("features", torch.ones(5, 4))
    with set_skip_existing(True):
        assert (policy(given.clone())["features"] == 1).all()
    assert torch.equal(policy(given)["features"], network(given["observation"]))


def test_modules_in_front_see_the_interaction_type_of_the_draw() -> None:
    seen = []

    def network(x: Tensor) -> tuple[Tensor, Tensor]:
        seen.append(interaction_type())
        return x, x.exp()

    for mode in (InteractionType.RANDOM, InteractionType.DETERMINISTIC):
        front = TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"])
        policy = ours.ProbabilisticActor(
            front, ["loc", "scale"], distribution_class=ours.TanhNormal, default_interaction_type=mode
        )
        policy(data(5))
        assert interaction_type() is None
        with set_interaction_type(InteractionType.MEDIAN), pytest.raises(NotImplementedError):
            policy(data(5))
    assert seen == [
        InteractionType.RANDOM,
        InteractionType.MEDIAN,
        InteractionType.DETERMINISTIC,
        InteractionType.MEDIAN,
    ]


def test_outputs_by_key_and_outputs_that_go() -> None:
    def network(x: Tensor) -> dict[str, Tensor]:
        return {"second": x + 2, "first": x + 1}

    policy = ours.SafeSequential(
        TensorDictModule(network, in_keys=["observation"], out_keys=["first", "second"]),
        TensorDictModule(lambda x: (x, x), in_keys=["first"], out_keys=["_", "third"]),
        TensorDictModule(lambda x: None, in_keys=["first"], out_keys=[]),
        TensorDictModule(lambda x: x - 1, in_keys=[("first")], out_keys=[("deep", "fourth")]),
    )
    out = policy(data(5))
    assert set(out.keys(True, True)) == {"observation", "first", "second", "third", ("deep", "fourth")}
    assert torch.equal(out["deep", "fourth"], out["first"] - 1)
    for key, number in (("first", 1), ("second", 2), ("third", 1)):
        assert torch.equal(out[key], out["observation"] + number)


def test_refuses_as_tensordict_does() -> None:
    policy = ours.SafeSequential(trunk(), head())
    for one in (policy, TensorDictSequential(trunk(), head())):
        with pytest.raises(KeyError, match=r"the following inputs are None: \{'observation'\}") as missing:
            one(TensorDict({}, [5]))
        assert missing.value.__notes__ == ["Failed while executing module '0'."]
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as found:
        policy(TensorDict({"observation": torch.zeros(5, 3)}, [5]))
    assert found.value.__notes__ == [
        "TensorDictModule from ['observation'] to ['features']",
        "Failed while executing module '0'.",
    ]
    with pytest.raises(RuntimeError, match="There are more out_keys than tensors"):
        ours.SafeModule(nn.Linear(4, 4), ["observation"], ["a", "b"])(data(5))
    unknown = ours.SafeProbabilisticModule(["loc", "width"], ["action"], distribution_class=ours.TanhNormal)
    with pytest.raises(TypeError, match="distribution keywords and tensordict keys"):
        unknown(TensorDict({"loc": torch.zeros(5, 2), "width": torch.ones(5, 2)}, [5]))


def test_actions_are_projected_where_that_is_asked_for() -> None:
    module = nn.Linear(4, 2)
    actor = ours.Actor(module, spec=Bounded(-0.1, 0.1, (2,)), safe=True)
    assert actor.spec["action"].is_in(ours.SafeSequential(actor)(data(50))["action"])


@pytest.mark.parametrize("make", [mine, lambda: ours.QValueActor(nn.Linear(4, 3), spec=Categorical(3))])
def test_compiles_whole(make: Callable[[], Any]) -> None:
    policy = make()
    compiled = torch.compile(policy, backend="eager", fullgraph=True)
    assert torch.equal(compiled(data(5))["action"], policy(data(5))["action"])
