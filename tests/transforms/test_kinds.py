"""Roles whose pattern is a kind of choices: classes refuse keys of another kind when they are put into an environment."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.specs import Categorical, Composite, MultiCategorical, OneHot, TensorSpec, Unbounded
from specgen_runtime.transforms import TransformedEnv
from tensordict import TensorDict, TensorDictBase

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
transforms:
  Pick:
    doc: The policy writes one-hot vectors.
    in: {u: {each: [action], type: "categorical(4)[]", inverse: true}}
    out: {v: {each: u, name: same, type: "onehot(4)[]"}}
    inverse: {u: "argmax(v, axis=-1)"}
  Pairs:
    doc: The policy writes the sum of each choice and one.
    in: {u: {each: [action], type: "multi_categorical(3)[]", inverse: true}}
    out: {v: {each: u, name: same, type: "int64[...] in [1, 3]"}}
    inverse: {u: v - 1}
  Kind:
    doc: Show which kind of thing it was.
    in: {kind: {key: kind, type: "onehot(3)[]"}}
    out: {number: {key: number, type: "int64[]"}}
    map: {number: "argmax(kind, axis=-1)"}
"""


class Choices(EnvBase):
    """Takes choices, and observes one."""

    def __init__(self, action: TensorSpec, kind: TensorSpec) -> None:
        super().__init__()
        self.observation_spec = Composite(kind=kind)
        self.action_spec = action
        self.reward_spec = Unbounded((1,))
        self.kind = kind

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: object) -> TensorDictBase:
        return TensorDict({"kind": self.kind.rand()}, [])

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        assert self.action_spec.is_in(tensordict["action"])
        done = torch.zeros(1, dtype=torch.bool)
        return TensorDict(
            {"kind": self.kind.rand(), "reward": torch.ones(1), "done": done, "terminated": done.clone()}, []
        )

    def _set_seed(self, seed: int | None) -> None:
        del seed


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    with imported(generate({"a.yaml": SCHEMA}, "kinds"), "kinds", tmp_path_factory.mktemp("k")) as found:
        yield found


def test_keys_of_the_kind(package: ModuleType) -> None:
    env = TransformedEnv(Choices(Categorical(4), OneHot(3)), package.Pick())
    check_env_specs(env)
    assert env.action_spec == OneHot(4)
    check_env_specs(TransformedEnv(Choices(MultiCategorical((3, 3)), OneHot(3)), package.Pairs()))
    check_env_specs(TransformedEnv(Choices(Categorical(4), OneHot(3)), package.Kind()))


@pytest.mark.parametrize(
    ("action", "kind", "name", "said"),
    [
        (Categorical(5), OneHot(3), "Pick", r"Pick needs categorical\(4\), but 'action' is Categorical"),
        (Unbounded((), dtype=torch.int64), OneHot(3), "Pick", r"needs categorical\(4\), but 'action'"),
        (MultiCategorical((3, 4)), OneHot(3), "Pairs", r"Pairs needs multi_categorical\(3\), but 'action'"),
        (Categorical(4), OneHot(4), "Kind", r"Kind needs onehot\(3\), but 'kind' is OneHot"),
    ],
)
def test_keys_of_another_kind(
    package: ModuleType, action: TensorSpec, kind: TensorSpec, name: str, said: str
) -> None:
    env = TransformedEnv(Choices(action, kind), getattr(package, name)())
    with pytest.raises(TypeError, match=said):
        env.reset()
