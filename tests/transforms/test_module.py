"""`ModuleTransform`: modules in environments, offline and on the way in."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.envs import ParallelEnv, SerialEnv, check_env_specs
from specgen_runtime.specs import Bounded, Composite, Unbounded
from specgen_runtime.transforms import Compose, ModuleTransform, TransformedEnv
from specgen_std.transforms import RewardSum
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torch.testing import assert_close

from tests.transforms.envs import Team, Walk


def encoder(out_key: Any = "feature", outputs: int = 2) -> TensorDictModule:
    torch.manual_seed(3)
    return TensorDictModule(nn.Linear(3, outputs), in_keys=["position"], out_keys=[out_key])


def halved() -> TensorDictModule:
    return TensorDictModule(lambda action: action / 2, in_keys=["action"], out_keys=["action"])


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_fault_16_runs_at_reset_and_at_step(batch: tuple[int, ...]) -> None:
    module = encoder()
    env = TransformedEnv(Walk(*batch), ModuleTransform(module=module))
    check_env_specs(env)
    assert env.observation_spec["feature"] == Unbounded((*batch, 2))
    data = env.rollout(12, break_when_any_done=False)
    with torch.no_grad():
        for moment in (data, data["next"]):
            # products of matrices of other numbers of rows may be rounded otherwise
            assert_close(moment["feature"], module.module(moment["position"]))


def test_partial_resets_run_it() -> None:
    env = TransformedEnv(Walk(3), ModuleTransform(module=encoder()))
    data = env.rollout(30, break_when_any_done=False)
    done = data["next", "done"].squeeze(-1)
    assert done.any()
    again = data["feature"][:, 1:][done[:, :-1]]
    assert not torch.equal(again, data["next", "feature"][:, :-1][done[:, :-1]])
    assert torch.allclose(again, encoder()(data[:, 1:][done[:, :-1]].copy())["feature"])


def test_either_a_module_or_a_factory() -> None:
    made = []

    def factory() -> TensorDictModule:
        made.append(encoder())
        return made[-1]

    assert ModuleTransform(module_factory=factory).module is made[0]
    assert len(made) == 1
    for both in ({}, {"module": encoder(), "module_factory": factory}):
        with pytest.raises(ValueError, match="either `module` or `module_factory`"):
            ModuleTransform(**both)
    with pytest.raises(TypeError):
        ModuleTransform(encoder())  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="got Linear, which does not say what it reads"):
        ModuleTransform(module=nn.Linear(3, 2))
    with pytest.raises(ValueError, match="actor_name, num_cpus: only with use_ray_service=True"):
        ModuleTransform(module=encoder(), actor_name="a", num_cpus=1)


def test_calls() -> None:
    module = encoder()
    transform = ModuleTransform(module=module)
    position = torch.randn(5, 3)
    expected = module.module(position)
    data = TensorDict(position=position, batch_size=[5])
    assert transform(data) is data
    assert torch.equal(data["feature"], expected)
    assert torch.equal(transform(position=position), expected)
    assert torch.equal(transform(position), expected)
    assert torch.equal(Compose(transform)(TensorDict(position=position))["feature"], expected)
    with pytest.raises(KeyError, match="ModuleTransform reads 'position'"):
        transform(TensorDict(a=position))
    transform.set_missing_tolerance(True)
    assert set(transform(TensorDict(a=position)).keys()) == {"a"}


def test_transitions() -> None:
    """Offline it gives what it gave in the environment: at the root and under `next`."""
    env = TransformedEnv(Walk(3), ModuleTransform(module=encoder(), no_grad=True))
    data = env.rollout(10, break_when_any_done=False)
    raw = data.exclude("feature", ("next", "feature"))
    again = env.transform(raw.copy())
    assert torch.allclose(again["feature"], data["feature"])
    assert torch.allclose(again["next", "feature"], data["next", "feature"])
    rewards = TensorDictModule(torch.neg, in_keys=["reward"], out_keys=["cost"])
    costs = ModuleTransform(module=rewards)(raw.copy())
    assert torch.equal(costs["next", "cost"], -data["next", "reward"])
    assert "cost" not in costs


@pytest.mark.parametrize("no_grad", [False, True])
def test_gradients(no_grad: bool) -> None:
    transform = ModuleTransform(module=encoder(), no_grad=no_grad)
    assert transform(position=torch.zeros(3)).requires_grad is not no_grad
    env = TransformedEnv(Walk(2), transform)
    data = env.rollout(3)
    assert not data["feature"].requires_grad
    assert not data["next", "feature"].requires_grad
    # someone differentiates through the environment
    root = env.reset()
    root["action"] = torch.zeros(2, 3, requires_grad=True)
    assert env.step(root)["next", "feature"].requires_grad is not no_grad


def test_inverse() -> None:
    transform = ModuleTransform(module=halved(), inverse=True)
    assert (transform.in_keys, transform.out_keys) == ([], [])
    assert (transform.in_keys_inv, transform.out_keys_inv) == (["action"], ["action"])
    data = TensorDict(action=torch.ones(3))
    assert transform(data) is data
    assert data["action"].tolist() == [1.0] * 3
    assert transform.inv(data)["action"].tolist() == [0.5] * 3
    assert data["action"].tolist() == [1.0] * 3
    assert transform.inv(action=torch.ones(1)).item() == 0.5
    env = TransformedEnv(Walk(2), transform)
    check_env_specs(env)
    root = env.reset().set("action", torch.ones(2, 3))
    after = env.step(root)
    assert torch.equal(after["next", "position"], root["position"] * 1.25 + 0.5)
    assert torch.equal(after["action"], torch.ones(2, 3))


def test_inverse_under_another_key() -> None:
    module = TensorDictModule(nn.Linear(2, 3), in_keys=["latent"], out_keys=["action"])
    with pytest.raises(ValueError, match="reads 'latent' from the policy; say what they are"):
        _ = TransformedEnv(Walk(4), ModuleTransform(module=module, inverse=True)).action_spec
    latent = Composite(latent=Bounded(-1.0, 1.0, (4, 2)), shape=(4,))
    env = TransformedEnv(Walk(4), ModuleTransform(module=module, inverse=True, action_spec_transform=latent))
    assert env.action_keys == ["latent"]
    check_env_specs(env)
    data = env.rollout(3)
    assert not data["next", "position"].requires_grad
    moved = data["position"] * 1.25 + module.module(data["latent"])
    assert_close(data["next", "position"], moved.detach())


def test_spec_transforms() -> None:
    box = Bounded(0.0, 1.0, (2, 2))
    squash = TensorDictModule(
        nn.Sequential(nn.Linear(3, 2), nn.Sigmoid()), in_keys=["position"], out_keys=["feature"]
    )

    def add(specs: Composite) -> Composite:
        return specs.set("feature", box.clone())

    whole = Composite(position=Unbounded((2, 3)), feature=box, shape=(2,))
    for change in (box, add, whole, lambda specs: box):
        env = TransformedEnv(Walk(2), ModuleTransform(module=squash, observation_spec_transform=change))
        assert env.observation_spec["feature"] == box
        assert env.observation_spec["position"] == Unbounded((2, 3))
        check_env_specs(env)
    seen: list[str] = []

    def noted(name: str, specs: Composite) -> Composite:
        seen.append(name)
        return specs

    names = ["observation", "action", "reward", "done", "state"]
    changes: dict[str, Any] = {f"{name}_spec_transform": partial(noted, name) for name in names}
    halves = ModuleTransform(module=halved(), inverse=True, **changes)
    check_env_specs(TransformedEnv(Walk(2), halves))
    assert set(seen) == set(names)


def test_specs_are_inferred() -> None:
    whole = Bounded(-10.0, 10.0, (2, 3))
    env = TransformedEnv(Walk(2, bounded=True), ModuleTransform(module=encoder("position", 3)))
    assert env.base_env.observation_spec["position"] == whole
    assert env.observation_spec["position"] == Unbounded((2, 3))  # who knows what a module does to bounds
    check_env_specs(env)
    many = TensorDictModule(
        lambda x: ((x * 2).int(), x > 0, x.sum(-1, keepdim=True)),
        ["position"],
        ["i", ("n", "flag"), "reward"],
    )
    env = TransformedEnv(Walk(2), Compose(ModuleTransform(module=many), RewardSum()))
    assert env.observation_spec["i"] == Unbounded((2, 3), dtype=torch.int32)
    assert env.observation_spec["n", "flag"].dtype == torch.bool
    assert env.reward_keys == ["reward"]
    data = env.rollout(4)
    assert torch.equal(data["next", "reward"], data["next", "position"].sum(-1, keepdim=True))
    bare = ModuleTransform(module=encoder())
    assert bare.transform_observation_spec(Composite(position=Unbounded(3)))["feature"].shape == (2,)


def test_lazy_and_random_modules() -> None:
    lazy = ModuleTransform(
        module_factory=partial(TensorDictModule, nn.LazyLinear(7), ["position"], ["feature"])
    )
    env = TransformedEnv(Walk(2), lazy)
    assert env.observation_spec["feature"].shape == (2, 7)
    assert env.rollout(2)["feature"].shape == (2, 2, 7)
    noisy = TensorDictModule(torch.rand_like, in_keys=["position"], out_keys=["noise"])
    env = TransformedEnv(Walk(2), ModuleTransform(module=noisy))
    torch.manual_seed(0)
    expected = torch.rand(2, 3)
    torch.manual_seed(0)
    _ = env.observation_spec  # draws nothing of the user's
    assert torch.equal(torch.rand(2, 3), expected)


def test_what_a_reward_gives_is_zero_after_a_reset() -> None:
    module = TensorDictModule(lambda r, x: r + x, in_keys=["reward", "position"], out_keys=["both"])
    env = TransformedEnv(Walk(2), ModuleTransform(module=module))
    check_env_specs(env)
    assert env.reset()["both"].eq(0).all()
    data = env.rollout(3)["next"]
    assert torch.equal(data["both"], data["reward"] + data["position"])


def test_device() -> None:
    transform = ModuleTransform(module=encoder(), device="cpu")
    env = TransformedEnv(Walk(2), transform)
    assert transform.to("meta").module.module.weight.device.type == "cpu"
    assert env.rollout(2)["feature"].device.type == "cpu"
    there = ModuleTransform(module=encoder(), device="meta")
    assert there.module.module.weight.device.type == "meta"
    seen = []
    there.module.register_forward_pre_hook(lambda module, args: seen.append(args[0].device))
    with pytest.raises(NotImplementedError):  # meta tensors have no values that could be brought back
        there(TensorDict(position=torch.zeros(3)))
    assert [each.type for each in seen] == ["meta"]


def test_environments_put_it_in_eval_mode() -> None:
    module = TensorDictModule(nn.Dropout(0.5), in_keys=["position"], out_keys=["dropped"])
    transform = ModuleTransform(module=module)
    _ = transform.transform_observation_spec(Composite(position=Unbounded(3)))
    assert transform.training
    data = TransformedEnv(Walk(2), transform).rollout(3)
    assert torch.equal(data["position"], data["dropped"])


@pytest.mark.parametrize("kind", [SerialEnv, ParallelEnv])
def test_in_batches(kind: Any) -> None:
    def make() -> TransformedEnv:
        return TransformedEnv(Walk(), ModuleTransform(module_factory=encoder))

    env = kind(2, make)
    try:
        check_env_specs(env)
        data = env.rollout(4)
        assert torch.allclose(data["feature"], encoder().module(data["position"]))
    finally:
        env.close(raise_if_closed=False)
    outer = TransformedEnv(SerialEnv(2, Walk), ModuleTransform(module_factory=encoder))
    check_env_specs(outer)
    assert outer.observation_spec["feature"].shape == (2, 2)


def test_groups() -> None:
    module = TensorDictModule(nn.Linear(1, 4), in_keys=[("agents", "x")], out_keys=[("agents", "feature")])
    env = TransformedEnv(Team(3), ModuleTransform(module=module))
    assert env.observation_spec["agents", "feature"].shape == (3, 2, 4)
    check_env_specs(env)


def test_update_weights() -> None:
    transform = ModuleTransform(module=encoder())
    source = encoder()
    nn.init.constant_(source.module.weight, 0.0)
    nn.init.constant_(source.module.bias, 1.0)
    parameters = transform.module.module.weight
    transform.update_weights(TensorDict.from_module(source))
    assert transform(position=torch.randn(3)).tolist() == [1.0, 1.0]
    assert transform.module.module.weight is parameters  # optimizers and shared memory keep their tensors
    nn.init.constant_(source.module.bias, 2.0)
    assert transform(position=torch.randn(3)).tolist() == [1.0, 1.0]
    transform.update_weights(source.state_dict())
    assert transform(position=torch.randn(3)).tolist() == [2.0, 2.0]
    with pytest.raises(KeyError, match=r"the weights lack 'module\.bias', 'module\.weight'"):
        transform.update_weights(TensorDict(bias=torch.zeros(2)))
    with pytest.raises(KeyError, match="the weights hold 'c', which the module has not"):
        transform.update_weights({**source.state_dict(), "c": torch.zeros(2)})
    larger = encoder(outputs=5)
    for weights in (larger.state_dict(), TensorDict.from_module(larger)):
        with pytest.raises(
            ValueError, match=r"'module.weight' of the weights is \[5, 3\], the module's \[2, 3\]"
        ):
            transform.update_weights(weights)
    assert transform(position=torch.randn(3)).tolist() == [2.0, 2.0]  # nothing was copied


def test_state_dict() -> None:
    first = TransformedEnv(Walk(2), Compose(ModuleTransform(module=encoder())))
    nn.init.zeros_(first.transform[0].module.module.weight)  # type: ignore[index]
    second = TransformedEnv(Walk(2), Compose(ModuleTransform(module=encoder())))
    second.load_state_dict(first.state_dict())
    assert torch.equal(second.reset()["feature"], first.reset()["feature"])
