"""`RayModuleTransform`: modules in actors of a Ray cluster."""

from __future__ import annotations

import pickle

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import ModuleTransform, RayModuleTransform, TransformedEnv
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from tests.ray.processes import process_of, wait_for_end
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


def test_what_can_not_be_made() -> None:
    with pytest.raises(FileNotFoundError, match="no weights here"):
        ModuleTransform(module_factory=broken, use_ray_service=True)
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
    with pytest.raises(KeyError, match=r"the weights lack 'module\.bias'"):
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


def test_a_module_that_is_there_as_an_inverse() -> None:
    limit = nn.Sequential(nn.Hardtanh(-0.5, 0.5), nn.Dropout(0.5))
    module = TensorDictModule(limit, in_keys=["action"], out_keys=["action"])
    transform = ModuleTransform(module=module, inverse=True, no_grad=True, use_ray_service=True)
    env = TransformedEnv(Walk(2), transform)
    root = env.reset().set("action", torch.ones(2, 3))
    after = env.step(root)  # in eval mode, there too
    assert torch.equal(after["next", "position"], root["position"] * 1.25 + 0.5)
    transform.train()
    action = torch.ones(100)
    assert (transform.inv(TensorDict(action=action))["action"] == 0).any()

    # without a name nobody else can use the actor, and it ends here
    assert isinstance(transform, RayModuleTransform)
    with pytest.raises(TypeError, match="has no name by which another process could find it"):
        pickle.dumps(transform.service)
    process = process_of(transform.service)
    env.close()
    with pytest.raises(RuntimeError, match="this ModuleTransform in a Ray actor is closed"):
        transform.inv(TensorDict(action=action))
    wait_for_end(process)
