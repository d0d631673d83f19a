"""Transforms that are written by hand, in environments: checks, devices, batch sizes, ends, times."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, SerialEnv, check_env_specs
from specgen_runtime.specs import Bounded, Composite, Unbounded
from specgen_runtime.transforms import (
    BatchSizeTransform,
    Compose,
    DeviceCastTransform,
    FiniteTensorDictCheck,
    PinMemoryTransform,
    RemoveEmptySpecs,
    TerminateTransform,
    Timer,
    Transform,
    TransformedEnv,
)
from specgen_std.transforms import StepCounter
from tensordict import TensorDict, TensorDictBase

from tests.transforms.envs import Team, Walk


class TestFiniteTensorDictCheck:
    def test_names_what_is_not_finite(self) -> None:
        check = FiniteTensorDictCheck()
        data = TensorDict(
            a=torch.zeros(3), b=torch.ones(3, dtype=torch.int64), n=TensorDict(c=torch.zeros(2)), t="text"
        )
        assert check(data) is data
        data["n", "c"] = torch.tensor([0.0, torch.inf])
        data["a"] = torch.tensor([0.0, torch.nan, 0.0])
        for call in (check, check._call, Compose(check)):
            with pytest.raises(ValueError, match=r"Encountered a non-finite tensor: 'a', \('n', 'c'\)"):
                call(data)

    def test_in_an_environment(self) -> None:
        class Broken(Transform):
            def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
                return next_tensordict.set("position", next_tensordict["position"] / 0)

        check_env_specs(TransformedEnv(Walk(2), FiniteTensorDictCheck()))
        env = TransformedEnv(Walk(2), Compose(Broken(), FiniteTensorDictCheck()))
        with pytest.raises(ValueError, match="'position'"):
            env.rollout(2)


class AnySize(EnvBase):
    """Takes any batch size; each row starts at another place."""

    def __init__(self) -> None:
        super().__init__(batch_locked=False)
        self.observation_spec = Composite(observation=Unbounded(3))
        self.state_spec = Composite(observation=Unbounded(3))
        self.action_spec = Bounded(-1.0, 1.0, (3,))
        self.reward_spec = Unbounded(1)

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        size = () if tensordict is None else tensordict.batch_size
        return TensorDict(observation=torch.rand(*size, 3), batch_size=size)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        following = tensordict["observation"] + tensordict["action"]
        entries = {"observation": following, "reward": following.sum(-1, keepdim=True)}
        done = torch.zeros(*tensordict.batch_size, 1, dtype=torch.bool)
        return TensorDict({**entries, "terminated": done, "done": done.clone()}, tensordict.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        del seed


class TestBatchSizeTransform:
    @pytest.mark.parametrize(
        ("make", "reshape", "size"),
        [
            (Walk, lambda x: x.reshape(1, 1), (1, 1)),
            (Walk, lambda x: x.unsqueeze(0), (1,)),
            (lambda: Walk(6), lambda x: x.unflatten(0, (2, 3)), (2, 3)),
            (lambda: Walk(1), lambda x: x.squeeze(0), ()),
            (lambda: Walk(2, 3), lambda x: x.flatten(0, 1), (6,)),
            (lambda: SerialEnv(2, Walk), lambda x: x.reshape(1, 2), (1, 2)),
        ],
    )
    def test_reshapes(self, make: Any, reshape: Any, size: tuple[int, ...]) -> None:
        transform = BatchSizeTransform(reshape_fn=reshape)
        env = TransformedEnv(make(), Compose(transform, StepCounter(max_steps=7)))
        assert env.batch_size == size
        check_env_specs(env)
        torch.manual_seed(0)
        data = env.rollout(12, break_when_any_done=False)
        assert data.batch_size == (*size, 12)
        torch.manual_seed(0)
        plain = make()
        root, expected = plain.reset(), []
        for moment in data.unbind(-1)[:2]:
            root["action"] = moment["action"].reshape(*plain.batch_size, 3)
            root = plain.step(root)["next"]
            expected.append(root["position"].reshape(*size, 3))
        assert torch.equal(data["next", "position"][..., :2, :], torch.stack(expected, -2))

    def test_partial_resets(self) -> None:
        env = TransformedEnv(Walk(6), BatchSizeTransform(reshape_fn=lambda x: x.unflatten(0, (2, 3))))
        data = env.rollout(20, break_when_any_done=False)
        done = data["next", "done"][..., :-1, 0]
        assert done.any()
        start = env.reset()["position"].unsqueeze(-2).expand(2, 3, 19, 3)
        assert torch.equal(data["position"][..., 1:, :][done], start[done])

    def test_sets_the_size(self) -> None:
        env = TransformedEnv(AnySize(), BatchSizeTransform(batch_size=[4, 5]))
        assert env.batch_size == (4, 5)
        check_env_specs(env)
        assert env.reset()["observation"].unique().numel() == 60
        assert env.rollout(3).batch_size == (4, 5, 3)

    def test_a_reset_of_its_own(self) -> None:
        def start(
            tensordict: TensorDictBase, tensordict_reset: TensorDictBase, env: EnvBase
        ) -> TensorDictBase:
            return env.observation_spec.zero().update(env.full_done_spec.zero())

        transform = BatchSizeTransform(batch_size=[4], reset_func=start, env_kwarg=True)
        assert TransformedEnv(AnySize(), transform).reset()["observation"].eq(0).all()

    def test_refusals(self) -> None:
        for both in ({}, {"batch_size": [2], "reshape_fn": torch.squeeze}):
            with pytest.raises(ValueError, match="either batch_size or reshape_fn"):
                BatchSizeTransform(**both)
        with pytest.raises(ValueError, match=r"this one is locked to \[3\]: give a reshape_fn"):
            _ = TransformedEnv(Walk(3), BatchSizeTransform(batch_size=[4])).observation_spec

    def test_offline(self) -> None:
        data = BatchSizeTransform(reshape_fn=lambda x: x.reshape(2, 3))(
            TensorDict(a=torch.arange(6), batch_size=[6])
        )
        assert data.batch_size == (2, 3)


class Nests(Walk):
    """The walk, with nests that hold nothing."""

    def __init__(self) -> None:
        super().__init__(2)
        nest = Composite(inner=Composite(shape=(2,)), shape=(2,))
        self.observation_spec = self.observation_spec.clone().set("nest", nest)
        self.state_spec = self.state_spec.clone().set("input", nest.clone())

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        made = super()._reset(tensordict, **kwargs)
        made.create_nested(("nest", "inner"))
        return made

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        assert ("input", "inner") in tensordict.keys(True)
        made = super()._step(tensordict)
        made.create_nested(("nest", "inner"))
        return made


def test_remove_empty_specs() -> None:
    env = TransformedEnv(Nests(), RemoveEmptySpecs())
    assert set(env.observation_spec.keys(True)) == {"position"}
    assert set(env.state_spec.keys(True)) == {"position"}
    check_env_specs(env)
    assert "nest" not in env.rollout(2)["next"]
    data = TensorDict(a=TensorDict(b=TensorDict()), c=TensorDict(d=torch.zeros(1)), e="text")
    assert set(RemoveEmptySpecs()(data).keys(True)) == {"c", ("c", "d"), "e"}


class TestTerminateTransform:
    @pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
    def test_ends_episodes(self, batch: tuple[int, ...]) -> None:
        def far(data: TensorDictBase) -> torch.Tensor:
            return data["position"].abs().amax(-1) > 1.5

        env = TransformedEnv(Walk(*batch), TerminateTransform(far))
        check_env_specs(env)
        data = env.rollout(30, break_when_any_done=False)
        after = data["next"]
        assert torch.equal(after["terminated"][..., 0], far(after))
        assert torch.equal(after["done"], after["terminated"])
        assert after["done"].any()

    def test_truth_values_and_keys(self) -> None:
        env = TransformedEnv(Walk(2), TerminateTransform(lambda data: True))
        assert env.rollout(5).batch_size == (2, 1)
        assert not env.reset()["done"].any()
        column = TransformedEnv(Walk(2), TerminateTransform(lambda data: torch.tensor([[True], [False]])))
        assert column.rollout(1)["next", "terminated"][:, 0, 0].tolist() == [True, False]

    def test_done_can_be_left(self) -> None:
        env = TransformedEnv(Walk(2), TerminateTransform(lambda data: True, write_done=False))
        data = env.rollout(2, break_when_any_done=False)
        assert data["next", "terminated"].all()
        assert not data["next", "done"].any()

    def test_flags_of_agents(self) -> None:
        """TorchRL fails where the team has one flag and the function tells one of each agent."""
        said = torch.tensor([[[True], [False]], [[False], [False]], [[True], [True]]])
        for flags in (said, said.squeeze(-1)):
            env = TransformedEnv(Team(3), TerminateTransform(lambda data, flags=flags: flags))
            after = env.rollout(1)["next"]
            assert after["terminated"][:, 0, 0].tolist() == [True, False, True]
            assert after["done"][:, 0, 0].tolist() == [True, False, True]
            assert after["agents", "terminated"][0].all()  # what ends at the root, ends for all
            assert not after["agents", "terminated"][1].any()

    def test_refusals(self) -> None:
        with pytest.raises(TypeError, match="stop is a function of a tensordict, got 3"):
            TerminateTransform(3)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"returned the shape \[5, 1\], and the flags are \[2, 1\]"):
            TransformedEnv(Walk(2), TerminateTransform(lambda data: torch.ones(5))).rollout(1)
        with pytest.raises(NotImplementedError, match="recorded ones have ended already"):
            TerminateTransform(lambda data: True)(TensorDict())


class TestDeviceCastTransform:
    def test_everything(self) -> None:
        env = TransformedEnv(Walk(2), DeviceCastTransform("cpu"))
        assert env.device == torch.device("cpu")
        assert env.base_env.device is None
        check_env_specs(env)
        assert env.rollout(2).device == torch.device("cpu")
        assert env.observation_spec["position"].device == torch.device("cpu")

    def test_specs_go_there(self) -> None:
        whole = TransformedEnv(Walk(2), DeviceCastTransform("meta", "cpu"))
        assert whole.device == torch.device("meta")
        assert {spec.device for spec in whole.full_action_spec.values(True, True)} == {torch.device("meta")}
        some = DeviceCastTransform(
            "meta",
            "cpu",
            in_keys=["position"],
            out_keys=["there"],
            in_keys_inv=["action"],
            out_keys_inv=["plan"],
        )
        env = TransformedEnv(Walk(2), some)
        assert env.device is None
        assert env.observation_spec["there"].device == torch.device("meta")
        assert env.observation_spec["position"].device == torch.device("cpu")
        assert env.full_action_spec["plan"].device == torch.device("meta")
        assert env.action_keys == ["plan"]
        data = env.reset()
        assert data["there"].device == torch.device("meta")
        assert data["position"].device == torch.device("cpu")

    def test_offline(self) -> None:
        data = TensorDict(a=torch.zeros(2), b=torch.zeros(2), device="cpu")
        moved = DeviceCastTransform("meta")(data)
        assert moved.device == torch.device("meta")
        part = DeviceCastTransform("meta", in_keys=["a"])(data)
        assert part["a"].device == torch.device("meta")
        assert part["b"].device == torch.device("cpu")
        assert data["a"].device == torch.device("cpu")
        back = DeviceCastTransform("cpu", "meta", in_keys_inv=["b"]).inv(data)
        assert back["b"].device == torch.device("meta")
        with pytest.raises(KeyError, match="reads 'c'"):
            DeviceCastTransform("meta", in_keys=["c"])(data)

    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    def test_on_a_gpu(self) -> None:
        for base in (Walk(2), Walk(2).to("cpu")):
            env = TransformedEnv(base, Compose(PinMemoryTransform(), DeviceCastTransform("cuda:0")))
            check_env_specs(env)
            data = env.rollout(5)
            assert data.device == torch.device("cuda:0")
            position, action = data["position"], data["action"]
            assert torch.allclose(data["next", "position"], position * 1.25 + action)
        keys = DeviceCastTransform("cuda:0", in_keys=["position"], in_keys_inv=["action"])
        some = TransformedEnv(Walk(2).to("cpu"), keys)
        check_env_specs(some)
        assert some.rollout(3)["next", "position"].is_cuda
        assert some.rollout(3)["next", "reward"].device.type == "cpu"


class TestTimer:
    def test_times(self) -> None:
        class Slow(Walk):
            def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
                time.sleep(0.01)
                return super()._step(tensordict)

        env = TransformedEnv(Slow(2), Timer())
        check_env_specs(env)

        def policy(data: TensorDictBase) -> TensorDictBase:
            time.sleep(0.02)
            return data.set("action", torch.zeros(2, 3))

        data = env.rollout(3, policy)
        assert data["next", "time_step"].shape == (2, 3)
        assert (data["next", "time_step"] >= 0.01).all()
        assert (data["next", "time_policy"] >= 0.02).all()
        assert data["next", "time_reset"].eq(0).all()
        assert data["time_reset"][:, 0].gt(0).all()
        assert data["time_policy"][:, 0].eq(0).all()
        assert torch.equal(data["time_policy"][:, 1:], data["next", "time_policy"][:, :-1])

    def test_keys(self) -> None:
        assert Timer(time_key="t").out_keys == ["t_step", "t_policy", "t_reset"]
        env = TransformedEnv(Walk(), Timer(["a", ("n", "b"), "c"]))
        check_env_specs(env)
        with pytest.raises(ValueError, match=r"three entries, got the keys \['a'\]"):
            Timer(["a"])
        with pytest.raises(NotImplementedError, match="recorded data took no time"):
            Timer()(TensorDict())


def test_pinning_without_a_gpu() -> None:
    if torch.cuda.is_available():
        pytest.skip("pins")
    data = TensorDict(a=torch.zeros(2))
    assert PinMemoryTransform()(data) is data
    check_env_specs(TransformedEnv(Walk(2), PinMemoryTransform()))
