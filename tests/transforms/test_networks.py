"""Networks of transforms: by themselves, in chains, and by the plain meaning of their programs."""

from __future__ import annotations

import copy
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.envs.generated import lifting
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.envs import Pendulum, PendulumGym
from specgen_std.transforms import FrameSkipTransform, RewardSum, RNDTransform, StepCounter, VecNorm
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from specgen.expr import Symbol
from specgen.program.inline import inline
from specgen.program.interpret import run
from tests.agreement.interpreted import printed_programs
from tests.support import generate, imported
from tests.transforms.envs import rollouts_alike

SCHEMA = Path(__file__).parent / "schemas" / "networks.yaml"
BATCHES = [(), (3,), (4, 3)]


class Code(nn.Module):
    """A table of numbers from two vectors; it knows rows only, as convolutions do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(9, 8)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        assert x.ndim == y.ndim == 2
        return self.linear(torch.cat([x, y], -1)).reshape(len(x), 2, 4)


class Nets:
    """One of each network."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.encoder = nn.Linear(3, 6)
        self.code = Code()
        self.target = nn.Sequential(nn.Linear(3, 5), nn.Dropout(0.5))
        self.predictor = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 5))


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"networks.yaml": SCHEMA.read_text(encoding="utf-8")}, "network_transforms")
    with imported(files, "network_transforms", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("network_transforms.networks")


def dynamic(generated: ModuleType, nets: Nets, batch: tuple[int, ...]) -> EnvBase:
    rewards = RNDTransform(nets.target, nets.predictor, reward_clip=0.5)
    chain = Compose(generated.Encode(nets.encoder), generated.Drift(nets.code), rewards, StepCounter(20))
    return TransformedEnv(Pendulum(batch_size=batch), chain)


def fused(generated: ModuleType, nets: Nets, batch: tuple[int, ...]) -> EnvBase:
    made: EnvBase = generated.Explore(
        encoder=nets.encoder,
        code=nets.code,
        target_network=nets.target,
        predictor=nets.predictor,
        batch_size=batch,
    )
    return made


@pytest.mark.parametrize("batch", BATCHES)
def test_a_chain_gives_what_the_classes_give(generated: ModuleType, batch: tuple[int, ...]) -> None:
    nets = Nets()
    envs = [dynamic(generated, nets, batch), fused(generated, nets, batch)]
    found = rollouts_alike(envs, 50)
    for name in ("observation", "reward", "done", "state"):
        one, other = (getattr(env, f"full_{name}_spec") for env in envs)
        shapes = [
            {key: (leaf.shape, leaf.dtype) for key, leaf in spec.items(True, True)} for spec in (one, other)
        ]
        assert shapes[0] == shapes[1], name
    assert found[0]["next", "intrinsic_reward"].shape == (*batch, 50, 1)
    assert found[0]["next", "drift"].max() > 0


@pytest.mark.parametrize("kind", ["OfGymnasium", "Skipping"])
def test_chains_of_other_kinds(generated: ModuleType, kind: str) -> None:
    nets = Nets()
    encoder = TensorDictModule(nets.encoder, in_keys=["x"], out_keys=["y"])  # takes tensors, too
    chain = [generated.Encode(encoder), generated.Drift(nets.code), RNDTransform(nets.target, nets.predictor)]
    chain.append(StepCounter() if kind == "OfGymnasium" else FrameSkipTransform(3))
    base = PendulumGym() if kind == "OfGymnasium" else Pendulum(batch_size=[3])
    networks = {"target_network": nets.target, "predictor_network": nets.predictor}
    batch = {} if kind == "OfGymnasium" else {"batch_size": [3]}
    made = getattr(generated, kind)(encoder=encoder, code=nets.code, **networks, **batch)
    found = rollouts_alike((TransformedEnv(base, Compose(*chain)), made), 40)
    found[1]["next", "drift"].sum().backward()
    assert nets.code.linear.weight.grad is not None


@pytest.mark.parametrize("lift", ["sums", "products", "maxima", "minima", "shifted"])
def test_what_is_lifted_over_time_has_gradients(lift: str) -> None:
    before = getattr(lifting, f"{lift}_before")
    firsts, terms = torch.randn(2, 3), torch.randn(7, 3, requires_grad=True)
    found = before(firsts, terms, [3, 4])
    assert torch.equal(found, before(firsts, terms.detach(), [3, 4]))
    found[2].sum().backward()
    assert terms.grad is not None
    assert terms.grad[:2].abs().sum() > 0
    assert (terms.grad[2:] == 0).all()


def test_affine_recurrences_have_gradients() -> None:
    firsts, factors, terms = torch.randn(1, 2), torch.rand(4, 2), torch.randn(4, 2)
    wanted = lifting.affine_before(firsts, factors, terms, [4])
    found = lifting.affine_before(firsts, factors, terms.requires_grad_(), [4])
    assert torch.equal(found, wanted)
    assert found.requires_grad


def test_the_values_are_those_of_the_networks(generated: ModuleType) -> None:
    nets = Nets()
    nets.target.eval()
    env = dynamic(generated, nets, (3,))
    data = env.rollout(12)["next"]
    torch.testing.assert_close(data["observation_feature"], nets.encoder(data["observation"]))
    error = (nets.predictor(data["observation"]) - nets.target(data["observation"])) ** 2
    torch.testing.assert_close(data["intrinsic_reward"], error.mean(-1, keepdim=True).clamp(max=0.5))


def test_partial_resets(generated: ModuleType) -> None:
    nets = Nets()
    for env in (dynamic(generated, nets, (3,)), fused(generated, nets, (3,))):
        root = env.step_mdp(env.step(env.rand_action(env.reset())))
        again = env.reset(root.clone().set("_reset", torch.tensor([[True], [False], [False]])))
        assert (again["drift"] == 0).tolist() == [True, False, False]
        torch.testing.assert_close(again["observation_feature"], nets.encoder(again["observation"]))


def test_the_plain_meaning_is_the_same() -> None:
    nets = Nets()
    nets.target.eval()
    with printed_programs() as programs:
        generate({"networks.yaml": SCHEMA.read_text(encoding="utf-8")}, "network_transforms")
    named = {"encoder": nets.encoder, "target_network": nets.target, "predictor": nets.predictor}

    def as_numbers(net: nn.Module) -> Callable[..., np.ndarray]:
        return lambda *values: net(*map(torch.as_tensor, values)).detach().numpy()

    env = Pendulum(batch_size=[5])
    data = env.rollout(1)[:, 0]
    for row in data.unbind(0):
        # What the reward of the chain is made of, one environment at a time.
        program = inline(programs["explore_reward"])
        values: dict[Symbol, object] = {}
        for one in program.inputs:
            name = one.symbol.name
            if one.kind == "network":
                values[one.symbol] = as_numbers(named[name])
            elif one.group == "params":
                values[one.symbol] = getattr(env.params, name)
            else:
                entry = ("next", name.removeprefix("next_")) if name.startswith("next_") else name
                values[one.symbol] = row[entry].numpy()
        found = run(program, values)
        error = (nets.predictor(row["next", "observation"]) - nets.target(row["next", "observation"])) ** 2
        np.testing.assert_allclose(found["intrinsic_reward"], error.mean().clamp(max=0.5).item(), rtol=1e-5)
        np.testing.assert_allclose(found["reward"], row["next", "reward"].item(), rtol=1e-5)


@pytest.mark.parametrize("make", [dynamic, fused])
def test_gradients_reach_what_is_not_frozen(generated: ModuleType, make: object) -> None:
    nets = Nets()
    env = make(generated, nets, (3,))  # type: ignore[operator]
    data = env.rollout(5)
    data["observation_feature"].sum().backward()
    assert nets.encoder.weight.grad is not None
    assert nets.encoder.weight.grad.abs().sum() > 0
    assert not data["next", "intrinsic_reward"].requires_grad  # `stop_grad`
    assert nets.predictor[0].weight.grad is None
    assert nets.target[0].weight.grad is None


@pytest.mark.parametrize("make", [dynamic, fused])
def test_a_frozen_network_stays_as_it_is(generated: ModuleType, make: object) -> None:
    nets = Nets()
    env = make(generated, nets, ())  # type: ignore[operator]
    names = [name for name, _ in env.named_parameters()]
    assert not any("target" in name for name in names)
    assert any(name.endswith("encoder.weight") for name in names)
    assert sum("target_network.0" in name for name in env.state_dict()) == 2
    env.train()
    env.set_seed(0)
    first = env.rollout(3)["next", "intrinsic_reward"]
    env.set_seed(0)
    torch.manual_seed(5)
    assert first.shape == (3, 1)
    observation = env.reset()["observation"]
    held = env.target_network if hasattr(env, "target_network") else env.transform[2].target_network
    assert torch.equal(held.eval()(observation), held(observation))  # no dropout
    assert nets.target.training  # the user's own module is not touched
    with torch.no_grad():
        nets.target[0].weight.zero_()
    assert held[0].weight.abs().sum() == 0  # the values are the user's


def test_state_dicts_load_into_another_object(generated: ModuleType) -> None:
    one, other = Nets(), Nets()
    for net in (other.encoder, other.target, other.predictor):
        for parameter in net.parameters():
            parameter.data.normal_()
    a, b = fused(generated, one, (3,)), fused(generated, other, (3,))
    assert list(a.state_dict())[:2] == ["encoder.weight", "encoder.bias"]
    b.load_state_dict(copy.deepcopy(a.state_dict()))
    for env in (a, b):
        env.set_seed(0)
    torch.manual_seed(0)
    first = a.rollout(4)
    torch.manual_seed(0)
    second = b.rollout(4)
    assert torch.equal(first["next", "intrinsic_reward"], second["next", "intrinsic_reward"])
    assert torch.equal(first["observation_feature"], second["observation_feature"])


def test_copies_have_networks_of_their_own(generated: ModuleType) -> None:
    env = copy.deepcopy(dynamic(generated, Nets(), (3,)))
    encode = env.transform[0]
    with torch.no_grad():
        encode.encoder.weight.zero_()
        encode.encoder.bias.fill_(2.0)
    assert (env.reset()["observation_feature"] == 2).all()


def test_offline_as_in_an_environment(generated: ModuleType) -> None:
    nets = Nets()
    data = Pendulum(batch_size=[3]).rollout(6)
    feature = generated.Encode(nets.encoder)(data.clone())
    torch.testing.assert_close(feature["observation_feature"], nets.encoder(data["observation"]))
    torch.testing.assert_close(
        feature["next", "observation_feature"], nets.encoder(data["next", "observation"])
    )
    rewarded = RNDTransform(nets.target, nets.predictor)(data.clone())
    assert rewarded["next", "intrinsic_reward"].shape == (3, 6, 1)


def test_intrinsic_rewards_add_up() -> None:
    nets = Nets()
    rewards = RNDTransform(nets.target, nets.predictor, out_keys=["novelty"])
    env = TransformedEnv(Pendulum(batch_size=[3]), Compose(rewards, RewardSum(["novelty"], ["total"])))
    check_env_specs(env)
    data = env.rollout(5)["next"]
    torch.testing.assert_close(data["total"], data["novelty"].cumsum(1))


def test_intrinsic_rewards_of_normalised_observations() -> None:
    nets = Nets()
    before = VecNorm(["observation"], ["normal"])
    behind = VecNorm(["intrinsic_reward"])
    rewards = RNDTransform(nets.target, nets.predictor, ["normal"], ["intrinsic_reward"])
    env = TransformedEnv(Pendulum(batch_size=[64]), Compose(before, rewards, behind))
    check_env_specs(env)
    data = env.rollout(60)["next"]
    assert data["normal"].std() > 0.5
    assert data["intrinsic_reward"][:, 30:].mean().abs() < 1
    assert data["intrinsic_reward"][:, 30:].std() > 0.3


def test_agrees_with_torchrl() -> None:
    torchrl = pytest.importorskip("torchrl.envs.transforms")
    if not hasattr(torchrl, "RNDTransform"):
        pytest.skip("this TorchRL has no RNDTransform")
    nets = Nets()
    nets.target.eval()
    theirs = torchrl.RNDTransform(
        nets.target, nets.predictor, ["observation"], normalize_obs=False, normalize_reward=False
    )
    ours = RNDTransform(nets.target, nets.predictor, ["observation"], obs_clip=100.0)
    data = Pendulum(batch_size=[5]).rollout(4)
    following = data["next"].clone()
    expected = theirs._step(data.clone(), following.clone())
    found = ours(data.clone())["next"]
    torch.testing.assert_close(found["intrinsic_reward"], expected["intrinsic_reward"].clamp(max=5.0))


class Wrong(nn.Module):
    def __init__(self, result: object) -> None:
        super().__init__()
        self.result = result

    def forward(self, x: Tensor) -> object:
        return self.result


@pytest.mark.parametrize(
    ("result", "error", "said"),
    [
        (
            torch.zeros(1, 7),
            RuntimeError,
            r"Encode: encoder must return torch.float32 \[rows, 6\] for 1 rows, found .*\[1, 7\]",
        ),
        (torch.zeros(1, 6, dtype=torch.float64), RuntimeError, r"found torch.float64 \[1, 6\]"),
        (torch.zeros(6), RuntimeError, r"found torch.float32 \[6\]"),
        (
            (torch.zeros(1, 6),),
            TypeError,
            r"Encode: encoder must return torch.float32 \[rows, 6\], found tuple",
        ),
    ],
)
def test_what_a_network_returns_is_checked(
    generated: ModuleType, result: object, error: type[Exception], said: str
) -> None:
    env = TransformedEnv(Pendulum(), generated.Encode(Wrong(result)))
    with pytest.raises(error, match=said):
        env.reset()


def test_sizes_that_only_networks_know_agree() -> None:
    env = TransformedEnv(Pendulum(), RNDTransform(nn.Linear(3, 5), nn.Linear(3, 4)))
    said = r"RNDTransform: target_network must return torch.float32 \[rows, k\] for 1 rows, where k is 4, found .*\[1, 5\]"
    with pytest.raises(RuntimeError, match=said):
        env.rollout(1)


def test_an_input_of_other_dimensions_is_refused(generated: ModuleType) -> None:
    with pytest.raises(RuntimeError, match=r"Drift: code reads the same rows of all, got \[2, 3\] and \[6\]"):
        generated.Drift(Code())._networks["code"](torch.zeros(2, 3), torch.zeros(6))


def test_what_is_no_network_is_refused(generated: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"Encode: encoder must be an nn.Module, got function"):
        generated.Encode(lambda x: x)
    with pytest.raises(ValueError, match=r"Encode: 'encoder.weight' is not initialised yet"):
        generated.Encode(nn.LazyLinear(6))
    with pytest.raises(TypeError, match=r"Explore: encoder must be an nn.Module, got NoneType"):
        generated.Explore(
            encoder=None, code=Code(), target_network=nn.Linear(3, 5), predictor=nn.Linear(3, 5)
        )


def test_rows_of_an_empty_batch(generated: ModuleType) -> None:
    encode = generated.Encode(nn.Linear(3, 6))
    data = encode(TensorDict({"observation": torch.zeros(2, 0, 3)}, [2, 0]))
    assert data["observation_feature"].shape == (2, 0, 6)


def test_the_example_of_the_manual(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "language" / "transforms.md").read_text(encoding="utf-8")
    (text,) = (block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "Shaping:" in block)
    text = text.replace("transforms:", "import: [specgen_std/envs/pendulum]\ntransforms:", 1)
    files = generate(
        {"s.yaml": f"{text}chains:\n  Guided: {{env: Pendulum, transforms: [Shaping]}}\n"}, "manual"
    )
    value = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))
    with imported(files, "manual", tmp_path):
        made = importlib.import_module("manual.s")
        for batch in BATCHES:
            found = []
            shaping = made.Shaping(value)
            for env in (
                TransformedEnv(Pendulum(batch_size=batch), shaping),
                made.Guided(value=value, batch_size=batch),
            ):
                check_env_specs(env)
                env.set_seed(1)
                torch.manual_seed(0)
                found.append(env.rollout(5))
            moved = 0.99 * value(found[0]["next", "observation"].reshape(-1, 3))
            expected = moved - value(found[0]["observation"].reshape(-1, 3))
            torch.testing.assert_close(found[0]["next", "progress"].flatten(), expected.detach())
            torch.testing.assert_close(found[0]["next", "progress"], found[1]["next", "progress"])
