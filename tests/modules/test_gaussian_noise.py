"""Normal noise on actions, independent and drifting: TorchRL's draws, specs, annealing, episodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import ExplorationType, SerialEnv, set_exploration_type
from specgen_runtime.modules import AdditiveGaussianModule, OrnsteinUhlenbeckProcessModule
from specgen_runtime.specs import Bounded, Composite, Unbounded
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms.init_tracker import InitTracker
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn

SPEC = Bounded(-1.0, 1.0, (3,))
KINDS = [AdditiveGaussianModule, OrnsteinUhlenbeckProcessModule]


def actions(*batch: int, key: Any = "action", begins: bool | None = True) -> TensorDict:
    data = TensorDict({}, batch)
    data[key] = torch.zeros(*batch, 3)
    if begins is not None:
        data["is_init"] = torch.full((*batch, 1), begins)
    return data


@pytest.mark.parametrize("kind", KINDS)
def test_is_silent_unless_exploring(kind: Any) -> None:
    module = kind(SPEC)
    for mode in (ExplorationType.DETERMINISTIC, ExplorationType.MODE, ExplorationType.MEAN):
        with set_exploration_type(mode):
            out = module(actions(5))
            assert (out["action"] == 0).all()
            assert set(out.keys()) == {"action", "is_init"}
    for mode in (ExplorationType.RANDOM, None):
        with set_exploration_type(mode):
            assert (module(actions(5))["action"] != 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_actions_keep_to_their_spec(kind: Any) -> None:
    far = actions(200).set("action", torch.full((200, 3), 3.0))
    assert SPEC.expand(200, 3).is_in(kind(SPEC, eps_init := 1.0, eps_init)(far.clone())["action"])
    with set_exploration_type(ExplorationType.MODE):
        assert (kind(SPEC, safe=True)(far.clone())["action"] == 1).all()
        assert (kind(SPEC, safe=False)(far.clone())["action"] == 3).all()


@pytest.mark.parametrize("kind", KINDS)
def test_compiles_whole(kind: Any) -> None:
    module = kind(SPEC)

    def explored(action: Tensor, begins: Tensor) -> Tensor:
        out: Tensor = module(TensorDict({"action": action, "is_init": begins}, [50]))["action"]
        return out

    inputs = (2 * torch.rand(50, 3) - 1, torch.ones(50, 1, dtype=torch.bool))
    compiled = torch.compile(explored, fullgraph=True, backend="eager")
    made = []
    for function in (explored, compiled):
        torch.manual_seed(0)
        made.append(function(*inputs))
    torch.testing.assert_close(made[0], made[1])
    assert SPEC.expand(50, 3).is_in(made[1])


def test_moments_of_the_noise() -> None:
    torch.manual_seed(0)
    module = AdditiveGaussianModule(Unbounded(3), sigma_init=0.5, mean=2.0, std=3.0)
    noise = module(actions(100_000))["action"]
    assert noise.mean().item() == pytest.approx(0.5 * 2.0, abs=0.02)
    assert noise.std().item() == pytest.approx(0.5 * 3.0, abs=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_actions_keep_their_dtype(kind: Any, dtype: torch.dtype) -> None:
    module = kind(Bounded(-1.0, 1.0, (3,), dtype=dtype))
    data = actions(5).set("action", torch.zeros(5, 3, dtype=dtype))
    assert module(module(data))["action"].dtype == dtype


@pytest.mark.parametrize(("kind", "name"), zip(KINDS, ["sigma", "eps"], strict=True))
def test_annealing(kind: Any, name: str) -> None:
    module = kind(SPEC, 1.0, 0.2, 8)
    seen = []
    for _ in range(10):
        module.step()
        seen.append(round(getattr(module, name).item(), 5))
    assert seen == [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2, 0.2]
    once = kind(SPEC, 1.0, 0.2, 8)
    once.step(3)
    assert getattr(once, name).item() == pytest.approx(0.7)
    with pytest.raises(ValueError, match="must not be negative"):
        once.step(-1)


@pytest.mark.parametrize("kind", KINDS)
def test_refuses(kind: Any) -> None:
    with pytest.raises(TypeError, match="must be the spec of the action, got int"):
        kind(3)
    with pytest.raises(ValueError, match="must fall"):
        kind(SPEC, 0.1, 0.5)
    with pytest.raises(ValueError, match="must be positive"):
        kind(SPEC, annealing_num_steps=0)
    with pytest.raises(KeyError, match="no entry 'move'"):
        kind(Composite(action=SPEC), action_key="move")
    with pytest.raises(KeyError, match="the action 'action'"):
        kind(SPEC)(TensorDict({"is_init": torch.ones(2, 1, dtype=torch.bool)}, [2]))
    with pytest.raises(ValueError, match=r"cannot project: expected .*4.*, got \(5, 3\)"):
        kind(Bounded(-1, 1, (4,)))(actions(5))


def test_the_spec_can_come_later() -> None:
    module = AdditiveGaussianModule()
    assert module.spec is None
    with pytest.raises(RuntimeError, match="has no spec"):
        module(actions(5))
    module.spec = Composite(action=SPEC)
    assert module.spec == Composite(action=SPEC)
    assert SPEC.expand(5, 3).is_in(module(actions(5))["action"])


def test_nested_actions() -> None:
    key = ("agents", "action")
    data = TensorDict({"agents": TensorDict({"action": torch.zeros(5, 2, 3)}, [5, 2])}, [5])
    assert (AdditiveGaussianModule(SPEC, action_key=key)(data.clone())[key] != 0).all()
    module = OrnsteinUhlenbeckProcessModule(SPEC, action_key=key)
    data["is_init"] = torch.ones(5, 1, dtype=torch.bool)
    out = module(data)
    assert (out[key] != 0).all()
    assert out["agents", "_ou_steps"].shape == (5, 2)
    assert out["agents", "_ou_prev_noise"].shape == (5, 2, 3)
    data["is_init"] = torch.tensor([True, False, False, False, True]).unsqueeze(-1)
    assert module(data)["agents", "_ou_steps"].tolist() == [[1, 1], [2, 2], [2, 2], [2, 2], [1, 1]]
    by_agent = data.clone().set("is_init", torch.eye(5, 2, dtype=torch.bool).unsqueeze(-1))
    assert module(by_agent.clone())["agents", "_ou_steps"].tolist() == [
        [1, 2],
        [3, 1],
        [3, 3],
        [3, 3],
        [2, 2],
    ]
    with pytest.raises(
        ValueError, match=r"'is_init' of shape \(5, 3\) does not fit actions of the batch \(5, 2\)"
    ):
        module(by_agent.set("is_init", torch.ones(5, 3, dtype=torch.bool)))


def test_the_process_follows_its_formula() -> None:
    torch.manual_seed(0)
    theta, mu, sigma, dt, x0, least, n = 0.3, 0.5, 0.4, 0.1, 0.2, 0.1, 4
    module = OrnsteinUhlenbeckProcessModule(
        Unbounded(3),
        0.7,
        0.7,
        theta=theta,
        mu=mu,
        sigma=sigma,
        dt=dt,
        x0=x0,
        sigma_min=least,
        n_steps_annealing=n,
    )
    data = actions(2)
    torch.manual_seed(1)
    seen = []
    for t in range(6):
        data["action"] = torch.zeros(2, 3)
        data["is_init"] = torch.tensor([[t == 0], [t in (0, 3)]])
        seen.append(module(data)["action"].clone())
    torch.manual_seed(1)
    noise, step = torch.full((2, 3), x0), [0, 0]
    for t in range(6):
        if t == 3:
            noise[1], step[1] = x0, 0
        now = torch.tensor([[max(sigma - (sigma - least) * s / n, least)] for s in step])
        noise = noise + theta * (mu - noise) * dt + now * dt**0.5 * torch.randn(2, 3)
        step = [s + 1 for s in step]
        torch.testing.assert_close(seen[t], 0.7 * noise)


def test_without_is_init_the_noise_goes_on() -> None:
    module = OrnsteinUhlenbeckProcessModule(SPEC)
    with pytest.warns(UserWarning, match="finds no 'is_init'.*InitTracker"):
        data = module(module(actions(2, begins=None)))
    assert data["_ou_steps"].tolist() == [2, 2]


def test_episodes_of_a_rollout() -> None:
    torch.manual_seed(0)
    env = TransformedEnv(SerialEnv(2, Pendulum), InitTracker())
    env.set_seed(0)
    policy = TensorDictSequential(
        TensorDictModule(lambda x: 0.0 * x[..., :1], ["observation"], ["action"]),
        OrnsteinUhlenbeckProcessModule(env.action_spec, sigma=1.0, dt=0.1),
    )
    data = env.rollout(7, policy, break_when_any_done=False)
    assert data["_ou_steps"].tolist() == [[1, 2, 3, 4, 5, 6, 7]] * 2
    torch.testing.assert_close(data["action"], data["_ou_prev_noise"])


@pytest.mark.peers
@pytest.mark.parametrize(
    "options",
    [{}, {"mean": 0.3, "std": 2.0}, {"sigma_init": 2.0, "sigma_end": 0.5}, {"action_key": ("a", "b")}],
    ids=str,
)
def test_gaussian_draws_are_torchrls(options: dict[str, Any]) -> None:
    modules, data = pytest.importorskip("torchrl.modules"), pytest.importorskip("torchrl.data")
    key = options.get("action_key", "action")
    made = [
        AdditiveGaussianModule(SPEC, annealing_num_steps=10, **options),
        modules.AdditiveGaussianModule(data.Bounded(-1.0, 1.0, (3,)), annealing_num_steps=10, **options),
    ]
    same_draws(made, lambda: actions(64, key=key), key)
    assert set(made[0].state_dict()) == set(made[1].state_dict())


@pytest.mark.peers
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"theta": 0.5, "mu": 0.3, "sigma": 0.4, "dt": 0.1},
        {"x0": 0.4, "sigma_min": 0.05, "n_steps_annealing": 2},
        {"x0": torch.tensor([0.1, 0.2, 0.3])},
        {"eps_init": 0.6, "eps_end": 0.2},
        {"action_key": ("a", "b")},
        {"is_init_key": "begins"},
    ],
    ids=str,
)
def test_drifting_draws_are_torchrls(options: dict[str, Any]) -> None:
    modules, data = pytest.importorskip("torchrl.modules"), pytest.importorskip("torchrl.data")
    key = options.get("action_key", "action")
    made = [
        OrnsteinUhlenbeckProcessModule(SPEC, annealing_num_steps=10, **options),
        modules.OrnsteinUhlenbeckProcessModule(
            data.Bounded(-1.0, 1.0, (3,)), annealing_num_steps=10, **options
        ),
    ]

    def batch() -> TensorDict:
        found = actions(64, key=key, begins=False)
        found["is_init"][::3] = True
        return found.rename_key_("is_init", options.get("is_init_key", "is_init"))

    same_draws(made, batch, key)


def same_draws(made: list[nn.Module], batch: Any, key: Any) -> None:
    """Three steps with the same seed, and annealing between them."""
    seen: list[list[Tensor]] = []
    for module in made:
        torch.manual_seed(3)
        data, found = batch(), []
        for _ in range(3):
            found.append(module(data)[key].clone())
            module.step(2)
        seen.append(found)
    for mine, theirs in zip(*seen, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.peers
def test_the_spec_is_left_alone() -> None:
    modules, data = pytest.importorskip("torchrl.modules"), pytest.importorskip("torchrl.data")
    spec, theirs = Composite(action=SPEC), data.Composite(action=data.Bounded(-1.0, 1.0, (3,)))
    module = OrnsteinUhlenbeckProcessModule(spec)
    modules.OrnsteinUhlenbeckProcessModule(theirs)
    assert module.spec is spec
    assert (list(spec.keys()), len(list(theirs.keys()))) == (["action"], 3)


@pytest.mark.peers
def test_noise_has_the_digits_of_the_actions() -> None:
    modules, data = pytest.importorskip("torchrl.modules"), pytest.importorskip("torchrl.data")
    mine = AdditiveGaussianModule(Unbounded(3, dtype=torch.float64), sigma_init=1.0)
    theirs = modules.AdditiveGaussianModule(data.Unbounded(3, dtype=torch.float64), sigma_init=1.0)
    seen = []
    for module in (mine, theirs):
        noise = module(actions(50).set("action", torch.zeros(50, 3, dtype=torch.float64)))["action"]
        seen.append(torch.equal(noise, noise.float().double()))
    assert seen == [False, True]


def test_groups_have_noise_of_their_own() -> None:
    """It is kept beside the actions; the peer has one place for both, whose shape is that of the first."""
    spec = Composite(
        robot=Composite(action=Bounded(-1.0, 1.0, (2, 3)), shape=(2,)),
        walker=Composite(action=Bounded(-1.0, 1.0, (1, 3)), shape=(1,)),
    )
    data = TensorDict({"is_init": torch.ones(5, 1, dtype=torch.bool)}, [5])
    for group, agents in (("robot", 2), ("walker", 1)):
        data[group] = TensorDict({"action": torch.zeros(5, agents, 3)}, [5, agents])
        OrnsteinUhlenbeckProcessModule(spec, action_key=(group, "action"))(data)
    assert data["robot", "_ou_prev_noise"].shape == (5, 2, 3)
    assert data["walker", "_ou_prev_noise"].shape == (5, 1, 3)
    assert data["walker", "_ou_steps"].shape == (5, 1)
    assert "_ou_prev_noise" not in data
