"""`RayModuleTransform`: modules in actors of a Ray cluster. One cluster for all tests: it takes seconds to start."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.services import RayService
from specgen_runtime.transforms import ModuleTransform, RayModuleTransform, TransformedEnv
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from tests.transforms.envs import Walk

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_cluster")]


def encoder(bias: float = 1.0) -> TensorDictModule:
    linear = nn.Linear(3, 2)
    nn.init.constant_(linear.weight, 0.5)
    nn.init.constant_(linear.bias, bias)
    return TensorDictModule(linear, in_keys=["position"], out_keys=["feature"])


def other() -> TensorDictModule:
    return encoder(7.0)


def broken() -> TensorDictModule:
    raise FileNotFoundError("no weights here")


class Counter:
    """Counts; fails when it is told to."""

    def __init__(self, start: int) -> None:
        self.count = start

    def add(self, by: int = 1) -> int:
        self.count += by
        return self.count

    def fail(self) -> None:
        raise KeyError("such a thing")

    def same(self, data: Any) -> Any:
        return data


def test_a_service() -> None:
    service = RayService(partial(Counter, 3), what="counter")
    assert service.call("add") == 4
    assert service.call("add", by=5) == 9
    data = TensorDict(
        a=torch.arange(3), b=TensorDict(c=torch.ones(3, dtype=torch.bfloat16), batch_size=[3]), batch_size=[3]
    )
    back = service.call("same", data)
    assert back.batch_size == (3,)
    assert torch.equal(back["b", "c"], data["b", "c"])
    with pytest.raises(KeyError, match="such a thing") as raised:
        service.call("fail")
    assert "the Ray actor of this counter" in raised.value.__notes__[0]
    assert service.call("add") == 10
    with pytest.raises(AttributeError, match="nothing"):
        service.call("nothing")
    with pytest.raises(TypeError, match="has no name by which another process could find it"):
        pickle.dumps(service)
    service.close()
    with pytest.raises(RuntimeError, match="this counter in a Ray actor is closed"):
        service.call("add")


def test_a_named_service() -> None:
    first = RayService(partial(Counter, 0), what="counter", name="shared_counter", settings={"start": "0"})
    second = RayService(partial(Counter, 0), what="counter", name="shared_counter", settings={"start": "0"})
    assert first.call("add") == 1
    assert second.call("add") == 2
    with pytest.raises(ValueError, match="'shared_counter' is another counter: start is 0, not 5"):
        RayService(partial(Counter, 5), what="counter", name="shared_counter", settings={"start": "5"})
    third = pickle.loads(pickle.dumps(second))
    second.close()
    assert third.call("add") == 3
    first.kill()
    with pytest.raises(RuntimeError, match="the actor of this counter is gone"):
        third.call("add")


def test_what_can_not_start() -> None:
    with pytest.raises(FileNotFoundError, match="no weights here"):
        ModuleTransform(module_factory=broken, use_ray_service=True)
    with pytest.raises(TimeoutError, match=r"did not start within 1 seconds; free in the cluster: .* 0 GPUs"):
        RayService(partial(Counter, 0), what="counter", num_gpus=5, timeout=1.0)
    with pytest.raises(ValueError, match="either `module` or `module_factory`"):
        ModuleTransform(use_ray_service=True)


def test_in_an_environment() -> None:
    transform = ModuleTransform(
        module_factory=encoder, use_ray_service=True, num_cpus=0, actor_name="encoder"
    )
    assert isinstance(transform, RayModuleTransform)
    assert isinstance(transform, ModuleTransform)
    assert (transform.in_keys, transform.out_keys) == (["position"], ["feature"])
    env = TransformedEnv(Walk(2), transform)
    check_env_specs(env)
    data = env.rollout(4)
    with torch.no_grad():
        for moment in (data, data["next"]):
            assert torch.allclose(moment["feature"], encoder().module(moment["position"]))
    assert torch.allclose(transform(position=torch.ones(3)), torch.full((2,), 2.5))
    # the same name, the same actor: new weights are seen by both
    again = ModuleTransform(module_factory=encoder, use_ray_service=True, actor_name="encoder")
    transform.update_weights(TensorDict.from_module(encoder(4.0)))
    assert torch.allclose(again(position=torch.ones(3)), torch.full((2,), 5.5))
    again.update_weights(encoder(0.0).state_dict())
    assert torch.allclose(env.reset()["feature"], encoder(0.0)(env.reset())["feature"])
    with pytest.raises(KeyError, match="the weights hold bias"):
        again.update_weights(TensorDict(bias=torch.zeros(2)))
    with pytest.raises(
        ValueError, match=r"the actor 'encoder' is another ModuleTransform: module is .*encoder, not .*other"
    ):
        ModuleTransform(module_factory=other, use_ray_service=True, actor_name="encoder")
    with pytest.raises(RuntimeError, match="gradients do not cross to the Ray actor"):
        transform(position=torch.ones(3, requires_grad=True))
    env.close()
    assert torch.allclose(again(position=torch.ones(3)), torch.full((2,), 1.5))
    again.service.kill()  # type: ignore[attr-defined]


def test_a_module_that_is_there() -> None:
    dropout = TensorDictModule(nn.Dropout(0.5), in_keys=["position"], out_keys=["dropped"])
    transform = ModuleTransform(module=dropout, use_ray_service=True, no_grad=True)
    data = TransformedEnv(Walk(2), transform).rollout(4)
    assert torch.equal(data["position"], data["dropped"])  # in eval mode, there too
    transform.train()
    assert (transform(position=torch.ones(100)) == 0).any()
    transform.close()
    with pytest.raises(RuntimeError, match="closed"):
        transform(position=torch.ones(3))


def test_inverse() -> None:
    halve = TensorDictModule(torch.nn.Hardtanh(-0.5, 0.5), in_keys=["action"], out_keys=["action"])
    transform = ModuleTransform(module=halve, inverse=True, use_ray_service=True)
    env = TransformedEnv(Walk(2), transform)
    root = env.reset().set("action", torch.ones(2, 3))
    after = env.step(root)
    assert torch.equal(after["next", "position"], root["position"] * 1.25 + 0.5)
    env.close()
