"""Losses, forward and backward, against TorchRL's and against code written by hand, as they are and compiled."""

from __future__ import annotations

import copy
import functools
import operator
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import specgen_runtime.modules
import specgen_runtime.objectives
import specgen_std.losses
import torch
import torchrl.data
import torchrl.modules
import torchrl.objectives
from specgen_runtime.specs import Categorical
from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import Tensor, nn

from benchmarks import flat_losses
from benchmarks.flat_losses import Flat, Outputs
from benchmarks.harness import QUICK, Budget, Row, Work, paired

BATCH, N_OBS, N_ACT, WIDTH = 256, 8, 4, 64
OURS, TORCHRL = (specgen_runtime, specgen_std.losses), (torchrl, torchrl.objectives)


@dataclass(frozen=True)
class Setup:
    """A loss to measure.

    Attributes:
        name: of its class, in both libraries.
        flat: the same by hand; None where that is another row's.
        policy: ``normal``, ``tanh``, ``certain`` or ``greedy``.
        critic: the name of the constructor's other network; empty for none.
        reads_action: whether that values an action.
        members: how many members it has.
        keywords: of the constructors.
        limit: how many times faster than TorchRL it has to be.
    """

    name: str
    flat: Callable[[Flat, TensorDict], Outputs] | None
    policy: str
    critic: str
    reads_action: bool = True
    members: int = 1
    keywords: dict[str, Any] = field(default_factory=dict)
    limit: float | None = 2.2


SETUPS = [
    Setup("DQNLoss", flat_losses.dqn, "greedy", "", keywords={"delay_value": True}),
    Setup("DQNLoss", None, "greedy", "", keywords={"delay_value": True, "double_dqn": True}),
    Setup("DDPGLoss", flat_losses.ddpg, "certain", "value_network", limit=None),
    Setup(
        "TD3Loss", flat_losses.td3, "certain", "qvalue_network", members=2, keywords={"bounds": (-1.0, 1.0)}
    ),
    Setup("SACLoss", flat_losses.sac, "tanh", "qvalue_network", members=2, keywords={"target_entropy": -4.0}),
    Setup(
        "REDQLoss", flat_losses.redq, "tanh", "qvalue_network", members=10, keywords={"target_entropy": -4.0}
    ),
    Setup("CQLLoss", flat_losses.cql, "tanh", "qvalue_network", members=2, keywords={"target_entropy": -4.0}),
    Setup("A2CLoss", flat_losses.a2c, "normal", "critic_network", reads_action=False),
    Setup("ClipPPOLoss", flat_losses.clip_ppo, "normal", "critic_network", reads_action=False),
]


QUICKLY_COMPILED = ("ClipPPOLoss",)
"""What a quick run compiles besides, against code by hand alone: compiling all of them takes minutes."""


def rows(budget: Budget) -> Iterator[Row]:
    """A step of each loss without the optimizer; losses that the library lacks are left out."""
    for setup in SETUPS:
        if not hasattr(specgen_std.losses, setup.name):
            continue
        data = _data(setup)
        # Steps that have run are compiled: the data hold the priorities, which a first call adds, and so they are compiled once.
        ours, theirs = _Step(_loss(setup, *OURS), data), _Step(_loss(setup, *TORCHRL), data)
        by_hand = None if setup.flat is None else _FlatStep(setup.flat, _flat(setup), data)
        # As it is, and compiled; a compiled step of TorchRL's may fall into several graphs.
        name = f"{setup.name}{', double' if 'double_dqn' in setup.keywords else ''}"
        yield paired(name, _work(ours), _work(theirs), budget, limit=setup.limit)
        if by_hand is not None:
            yield paired(name, _work(ours), _work(by_hand), budget, peer_name="by hand", limit=1 / 1.15)
        if budget == QUICK and setup.name not in QUICKLY_COMPILED:
            continue
        torch.compiler.reset()  # all share the code of a step, which is compiled for so many of them at most
        name, mine = f"{name}, compiled", _work(_compiled(ours))
        if budget != QUICK:
            yield paired(name, mine, _work(_compiled(theirs)), budget)
        if by_hand is not None:
            hand = _work(_compiled(by_hand))
            yield paired(name, mine, hand, budget, peer_name="by hand", limit=1 / 1.15)


def _work(step: Callable[[], object]) -> Work:
    return Work(step, clock=time.process_time)


class _Step:
    """A forward and backward pass of a loss."""

    def __init__(self, loss: Any, data: TensorDict) -> None:
        self.loss = loss
        self.data = data.clone()  # each library has its own priorities there
        self.parameters = list(loss.parameters())
        self.forward: Callable[[TensorDict], Tensor] = self._forward

    def _forward(self, data: TensorDict) -> Tensor:
        return _total(self.loss(data))

    def __call__(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
        torch.autograd.backward(self.forward(self.data))


def _total(outputs: Mapping[str, Tensor]) -> Tensor:
    """The sum of the terms."""
    return functools.reduce(operator.add, (value for key, value in outputs.items() if key.startswith("loss")))


class _FlatStep(_Step):
    """The same by hand."""

    def __init__(self, function: Callable[[Flat, TensorDict], Outputs], nets: Flat, data: TensorDict) -> None:
        super().__init__(nets, data)
        self.parameters = nets.parameters()
        self.forward = lambda data: _total(function(nets, data))


def _compiled(step: _Step) -> _Step:
    step.forward = torch.compile(step.forward)
    return step


def _loss(setup: Setup, library: Any, losses: Any) -> Any:
    """The loss of a library over equal networks, with an updater, or it warns that its targets never change."""
    torch.manual_seed(0)
    networks = [_policy(setup, library.modules)]
    if setup.critic:
        out = "state_action_value" if setup.reads_action else "state_value"
        inputs = ["observation", "action"] if setup.reads_action else ["observation"]
        networks.append(TensorDictModule(_critic(setup), in_keys=inputs, out_keys=[out]))
    keywords = dict(setup.keywords)
    if setup.members > 2:
        keywords["num_qvalue_nets"] = setup.members
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = getattr(losses, setup.name)(*networks, **keywords)
    if loss.default_value_estimator is not None:
        loss.make_value_estimator(gamma=flat_losses.GAMMA)
    if any(name.startswith("target_") for name, _ in loss.named_children()):
        library.objectives.SoftUpdate(loss, tau=0.01).step()
    return loss


def _policy(setup: Setup, modules: Any) -> Any:
    if setup.policy == "greedy":
        ours = modules is specgen_runtime.modules
        spec: Any = Categorical(N_ACT) if ours else torchrl.data.Categorical(N_ACT)
        return modules.QValueActor(_layers(N_OBS, N_ACT), spec=spec)
    if setup.policy == "certain":
        network = nn.Sequential(_layers(N_OBS, N_ACT), nn.Tanh())
        return TensorDictModule(network, in_keys=["observation"], out_keys=["action"])
    network = nn.Sequential(_layers(N_OBS, 2 * N_ACT), NormalParamExtractor())
    kind = modules.TanhNormal if setup.policy == "tanh" else modules.IndependentNormal
    return modules.ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=kind,
        return_log_prob=True,
    )


def _critic(setup: Setup) -> nn.Module:
    return _Joined(_layers(N_OBS + N_ACT, 1)) if setup.reads_action else _layers(N_OBS, 1)


class _Joined(nn.Module):
    """Layers that read an observation and an action."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        out: Tensor = self.layers(torch.cat([observation, action], -1))
        return out


def _flat(setup: Setup) -> Flat:
    torch.manual_seed(0)
    if setup.policy == "greedy":
        actor: nn.Module = nn.Identity()
        critics = [_layers(N_OBS, N_ACT)]
    else:
        certain = setup.policy == "certain"
        layers = _layers(N_OBS, N_ACT if certain else 2 * N_ACT)
        actor = nn.Sequential(layers, nn.Tanh() if certain else NormalParamExtractor())
        inputs = N_OBS + N_ACT if setup.reads_action else N_OBS
        critics = [_layers(inputs, 1) for _ in range(setup.members)]
    return Flat(actor, critics, copy.deepcopy(actor), copy.deepcopy(critics))


def _layers(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, outputs)
    )


def _data(setup: Setup) -> TensorDict:
    generator = torch.Generator().manual_seed(0)

    def normal(*sizes: int) -> Tensor:
        return torch.randn(BATCH, *sizes, generator=generator)

    terminated = torch.rand(BATCH, 1, generator=generator) < 0.1
    greedy = setup.policy == "greedy"
    action = torch.randint(N_ACT, (BATCH,), generator=generator) if greedy else 0.9 * normal(N_ACT).tanh()
    return TensorDict(
        {
            "observation": normal(N_OBS),
            "action": action,
            "action_log_prob": normal() - 4,
            "advantage": normal(1),
            "value_target": normal(1),
            "next": {
                "observation": normal(N_OBS),
                "reward": torch.ones(BATCH, 1),
                "done": terminated,
                "terminated": terminated,
            },
        },
        batch_size=[BATCH],
    )
