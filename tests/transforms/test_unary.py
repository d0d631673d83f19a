"""`UnaryTransform` and `Hash`: functions of single entries."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import SerialEnv, check_env_specs
from specgen_runtime.specs import Bounded, Categorical, Composite, NonTensor, Unbounded
from specgen_runtime.transforms import Compose, Hash, TransformedEnv, UnaryTransform
from tensordict import NonTensorStack, TensorDict, TensorDictBase
from torch import Tensor

from tests.transforms.envs import Walk


class Talk(Walk):
    """The walk, told in words as well; takes the name of a direction."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_spec = self.observation_spec.clone().set(
            "text", NonTensor((), example_data="at 0.00")
        )
        self.action_spec = NonTensor((), example_data="stay")

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        return self._told(super()._reset(tensordict, **kwargs))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        words = {"stay": 0.0, "on": 0.5, "back": -0.5}
        action = torch.full((3,), words[tensordict["action"]])
        return self._told(super()._step(tensordict.copy().set("action", action)))

    def _told(self, data: TensorDictBase) -> TensorDictBase:
        return data.set("text", f"at {data['position'].sum():.2f}")


@pytest.mark.parametrize("batch", [(), (3,), (4, 3)])
def test_outputs(batch: tuple[int, ...]) -> None:
    square = UnaryTransform(["position", "reward"], ["square", "doubled"], fn=lambda x: x.double() ** 2)
    env = TransformedEnv(Walk(*batch), square)
    check_env_specs(env)
    assert env.observation_spec["square"] == Unbounded((*batch, 3), dtype=torch.float64)
    assert env.full_reward_spec["doubled"].dtype == torch.float64
    data = env.rollout(4)
    assert torch.equal(data["square"], data["position"].double() ** 2)
    assert torch.equal(data["next", "square"], data["next", "position"].double() ** 2)
    assert torch.equal(data["next", "doubled"], data["next", "reward"].double() ** 2)
    assert "doubled" not in data


def test_calls() -> None:
    norm = UnaryTransform(["a"], ["b"], ["c"], ["d"], fn=lambda x: x + 1, inv_fn=lambda x: x - 1)
    assert norm(TensorDict(a=torch.zeros(2)))["b"].tolist() == [1.0, 1.0]
    assert norm(a=torch.zeros(1)).item() == 1.0
    assert norm.inv(d=torch.zeros(1)).item() == -1.0
    with pytest.raises(KeyError, match="UnaryTransform reads 'a'"):
        norm(TensorDict(d=torch.zeros(1)))
    both = UnaryTransform(["a"], ["a"], ["a"], ["a"], fn=lambda x: x * 3)
    assert both.inv(a=torch.ones(1)).item() == 3.0  # one function both ways


def test_actions() -> None:
    turned = UnaryTransform(
        [], [], ["action"], ["plan"], fn=lambda x: x.double(), inv_fn=lambda x: x.float() / 2
    )
    env = TransformedEnv(Walk(2), turned)
    assert env.action_keys == ["plan"]  # TorchRL leaves the environment's beside it
    assert env.full_action_spec["plan"] == Unbounded((2, 3), dtype=torch.float64)
    check_env_specs(env)
    root = env.reset().set("plan", torch.ones(2, 3, dtype=torch.float64))
    assert torch.equal(env.step(root)["next", "position"], root["position"] * 1.25 + 0.5)


def test_the_spec_of_an_action_is_what_its_own_function_takes() -> None:
    """TorchRL gives it the spec of `fn`, which here is about observations."""
    both = UnaryTransform(
        ["position"],
        ["total"],
        ["action"],
        ["action"],
        fn=lambda x: x.sum(-1, keepdim=True),
        inv_fn=lambda x: x / 2,
    )
    env = TransformedEnv(Walk(2), both)
    assert env.action_spec == Bounded(-1.0, 1.0, (2, 3))
    check_env_specs(env)
    wrong = UnaryTransform([], [], ["action"], ["action"], fn=lambda x: x, inv_fn=lambda x: x.sum())
    with pytest.raises(ValueError, match="inv_fn give what the environment takes"):
        _ = TransformedEnv(Walk(2), wrong).action_spec


def test_data_that_are_no_tensors() -> None:
    words = ["stay", "on", "back"]
    length = UnaryTransform(["text"], ["length"], fn=lambda text: torch.tensor(len(text)))
    shout = UnaryTransform(["text"], ["loud"], fn=str.upper)
    number = UnaryTransform(
        [],
        [],
        ["action"],
        ["action"],
        fn=lambda text: torch.tensor(words.index(text)),
        inv_fn=lambda i: words[int(i)],
    )
    env = TransformedEnv(Talk(), Compose(length, shout, number))
    root = env.reset().set("action", torch.tensor(1))
    assert root["loud"] == "AT 0.00"
    assert root["length"] == 7
    after = env.step(root)["next"]
    assert after["text"] == "at 1.50"
    assert after["loud"] == "AT 1.50"
    assert isinstance(env.observation_spec["loud"], NonTensor)
    assert env.observation_spec["length"].dtype == torch.int64
    seen: list[Any] = []
    raw = UnaryTransform(
        ["text"], ["length"], fn=lambda x: seen.append(x) or torch.zeros(2), use_raw_nontensor=True
    )
    raw(TensorDict(text=NonTensorStack("a", "b"), batch_size=[2]))
    assert isinstance(seen[0], NonTensorStack)
    lists = UnaryTransform(["text"], ["loud"], fn=lambda texts: [text.upper() for text in texts])
    data = lists(TensorDict(text=NonTensorStack("a", "b"), batch_size=[2]))
    assert data.get("loud").tolist() == ["A", "B"]


def test_in_batches() -> None:
    def make() -> TransformedEnv:
        return TransformedEnv(Walk(), UnaryTransform(["position"], ["square"], fn=torch.square))

    env = SerialEnv(2, make)
    check_env_specs(env)
    assert env.rollout(3)["square"].shape == (2, 3, 3)


def fingerprint(text: str) -> list[int]:
    """SHA-256 of a text."""
    import hashlib

    return list(hashlib.sha256(text.encode()).digest())


class TestHash:
    def test_texts(self) -> None:
        data = Hash(["text"], ["hash"])(TensorDict(text="hello"))
        assert data["hash"].dtype == torch.uint8
        assert data["hash"].tolist() == fingerprint("hello")
        assert Hash(["text"], ["hash"], seed="7")(TensorDict(text="hello"))["hash"].tolist() == fingerprint(
            "7hello"
        )
        assert Hash.reproducible_hash(None).tolist() == fingerprint("")
        several = Hash(["text"], ["hash"])(TensorDict(text=NonTensorStack("a", "b"), batch_size=[2]))
        assert several["hash"].tolist() == [fingerprint("a"), fingerprint("b")]

    @pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
    def test_tensors_with_a_batch(self, batch: tuple[int, ...]) -> None:
        """TorchRL fails."""
        env = TransformedEnv(Walk(*batch), Hash(["position"], ["hash"]))
        check_env_specs(env)
        assert env.observation_spec["hash"].shape == (*batch, 32)
        data = env.rollout(3)
        expected = Hash.reproducible_hash(data["position"].reshape(-1, 3)[0])
        assert torch.equal(data["hash"].reshape(-1, 32)[0], expected)
        different = data["position"].reshape(-1, 3).unique(dim=0)
        assert len(data["hash"].reshape(-1, 32).unique(dim=0)) == len(different)

    @pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
    def test_specs_outside_of_environments(self, batch: tuple[int, ...]) -> None:
        specs = Composite(x=Unbounded((*batch, 4)), shape=batch)
        made = Hash(["x"], ["h"]).transform_observation_spec(specs.clone())
        assert made["h"].shape == (*batch, 32)
        data = Hash(["x"], ["h"])(specs.zero())
        assert made["h"].is_in(data["h"])
        actions = Composite(action=Unbounded((*batch, 4)), shape=batch)
        assert Hash(None, None, ["action"], ["h"]).transform_action_spec(actions)["h"].shape == (*batch, 32)

    def test_long_tensors_differ(self) -> None:
        """TorchRL takes the shortened text of a tensor."""
        long = torch.zeros(5000)
        other = long.clone()
        other[2500] = 1
        assert not torch.equal(Hash.reproducible_hash(long), Hash.reproducible_hash(other))
        assert not torch.equal(Hash.reproducible_hash(long), Hash.reproducible_hash(long.double()))

    def test_the_way_back(self) -> None:
        table = Hash(["a"], ["h"], ["a"], ["h"])
        stored = table(TensorDict(a="hello"))["h"]
        assert table.inv(TensorDict(h=stored))["a"] == "hello"
        batch = table(TensorDict(a=torch.arange(6.0).reshape(3, 2), batch_size=[3]))
        assert torch.equal(table.inv(batch.select("h"))["a"], batch["a"])
        texts = table(TensorDict(a=NonTensorStack("x", "y"), batch_size=[2]))
        assert table.inv(texts.select("h")).get("a").tolist() == ["x", "y"]
        with pytest.raises(KeyError, match="no value of the fingerprint 0000"):
            table.inv(TensorDict(h=torch.zeros(32, dtype=torch.uint8)))
        with pytest.raises(RuntimeError, match="this Hash remembers nothing"):
            Hash(["a"], ["h"]).get_input_from_hash(stored)
        shared: dict[Any, Any] = {}
        Hash(["a"], ["h"], repertoire=shared)(TensorDict(a="hello"))
        assert list(shared.values()) == ["hello"]

    def test_state_dict(self) -> None:
        """TorchRL can't load its own."""
        first = Hash(["a"], ["h"], ["a"], ["h"])
        stored = first(TensorDict(a="hello"))
        second = Hash(["a"], ["h"], ["a"], ["h"])
        second.load_state_dict(first.state_dict())
        assert second.inv(stored.select("h"))["a"] == "hello"

    def test_hash_functions(self) -> None:
        def remainder(value: Tensor, seed: int = 0) -> Tensor:
            return (value.sum() + seed) % 7

        made = Hash(["a"], ["h"], hash_fn=remainder, seed=3)(TensorDict(a=torch.tensor([8.0, 2.0])))
        assert made["h"] == 6
        with pytest.raises(TypeError, match="hash_fn returns a tensor, got int"):
            Hash(["a"], ["h"], hash_fn=lambda value: 3)(TensorDict(a="x"))

    def test_actions(self) -> None:
        table = Hash(["text"], ["seen"], ["action"], ["action"])
        env = TransformedEnv(Talk(), table)
        for word in ("stay", "on", "back"):
            table.call_hash_fn(word)
        assert env.full_action_spec["action"].shape == (32,)
        assert isinstance(env.base_env.action_spec, NonTensor)
        root = env.reset().set("action", Hash.reproducible_hash("on"))
        assert env.step(root)["next", "text"] == "at 1.50"
        assert root["seen"].tolist() == fingerprint("at 0.00")


def test_specs_without_an_environment() -> None:
    made = UnaryTransform(["a"], ["b"], fn=lambda x: x.bool()).transform_observation_spec(
        Composite(a=Categorical(3, shape=(2,)), shape=(2,))
    )
    assert made["b"].dtype == torch.bool
    assert made["b"].shape == (2,)
