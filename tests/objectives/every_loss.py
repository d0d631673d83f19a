"""Every loss of the library over small networks, by the names that its constructor gives them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import specgen_std.losses
import torch
from specgen_runtime.modules import DistributionalQValueActor, QMixer, QuantileQValueActor, QValueActor
from specgen_runtime.objectives import LossModule
from tensordict import TensorDict
from tensordict.nn import (
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
)
from torch import Tensor, nn

from tests.objectives.language_models import VOCABULARY
from tests.objectives.language_models import batch as tokens

N_OBS, N_ACT, N_AGENTS = 4, 2, 3

DISCRETE = {
    "DQNLoss", "DistributionalDQNLoss", "QRDQNLoss", "DiscreteSACLoss", "DiscreteCQLLoss", "DiscreteIQLLoss",
}  # fmt: skip
"""Losses over actions that are one of `N_ACT`."""

AGENTS = {"MAPPOLoss", "IPPOLoss"}
"""Losses whose samples are agents: `N_AGENTS` of them."""

CERTAIN = {"DDPGLoss", "TD3Loss", "TD3BCLoss"}
"""Losses whose policy gives an action, and no distribution."""

OF_TOKENS = {"GRPOLoss", "DAPO", "CISPOLoss", "SFTLoss", "DistillationLoss"}
"""Losses of language models."""

OWN = {"BranchingDQNLoss", "QRDQNLoss"}
"""Losses that TorchRL does not have."""

CHOICES = (2, 3)
"""How many values each choice has, of the loss of an action that makes several."""

VALUES = {"DQNLoss": "action_value", "DiscreteCQLLoss": "action_value", "DDPGLoss": "state_action_value"}
"""What `value_network` writes, where it is not the value of a state."""

KEYWORDS: dict[str, dict[str, Any]] = {
    "DQNLoss": {"action_space": "one-hot"},
    "DiscreteCQLLoss": {"action_space": "one-hot"},
    "DiscreteIQLLoss": {"action_space": "one-hot"},
    "DiscreteSACLoss": {"action_space": "one-hot", "num_actions": N_ACT},
    "KLPENPPOLoss": {"increment": 1.0, "decrement": 1.0},  # two calls are equal
    "OnlineDTLoss": {"target_entropy": -float(N_ACT)},
    "CQLLoss": {"target_entropy": -float(N_ACT)},
    "CrossQLoss": {"target_entropy": -float(N_ACT)},
    "DistributionalDQNLoss": {"gamma": 0.9},
    "QMixerLoss": {"action_space": "one-hot"},
    "QRDQNLoss": {"gamma": 0.9},
    "REDQLoss": {"target_entropy": -float(N_ACT)},
    "SACLoss": {"target_entropy": -float(N_ACT)},
    "TQCLoss": {"target_entropy": -float(N_ACT)},
    "TD3Loss": {"bounds": (-1.0, 1.0)},
    "TD3BCLoss": {"bounds": (-1.0, 1.0)},
}
"""Keywords without which the loss raises."""


def losses() -> dict[str, type[LossModule]]:
    """The losses of the library, by name."""
    found = vars(specgen_std.losses)
    return {
        name: made
        for name, made in found.items()
        if inspect.isclass(made) and issubclass(made, LossModule) and made.forward is not LossModule.forward
    }


class Joined(nn.Module):
    """A function of an observation and an action."""

    def __init__(self, outputs: int = 1) -> None:
        super().__init__()
        self.layers = layers(N_OBS + N_ACT, outputs)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        out: Tensor = self.layers(torch.cat([observation, action], -1))
        return out


class TokenLogProb(nn.Module):
    """The log-probability of each token of a sequence, by the one that it is."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = token_layers()

    def forward(self, tokens: Tensor) -> Tensor:
        found = self.layers(tokens).log_softmax(-1).gather(-1, tokens.unsqueeze(-1))
        out: Tensor = found.squeeze(-1)
        return out


def token_layers() -> nn.Sequential:
    return nn.Sequential(nn.Embedding(VOCABULARY, 8), nn.Tanh(), nn.Linear(8, VOCABULARY))


def layers(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


class Normal(torch.distributions.Independent):
    """A normal distribution of an action."""

    def __init__(self, loc: Tensor, scale: Tensor) -> None:
        super().__init__(torch.distributions.Normal(loc, scale, validate_args=False), 1)

    @property
    def deterministic_sample(self) -> Tensor:
        mean: Tensor = self.mean
        return mean


def policy(loss: str) -> nn.Module:
    """The policy that a loss takes."""
    if loss in CERTAIN:
        network = nn.Sequential(layers(N_OBS, N_ACT), nn.Tanh())
        return TensorDictModule(network, in_keys=["observation"], out_keys=["action"])
    if loss in OF_TOKENS:
        return ProbabilisticTensorDictSequential(
            TensorDictModule(token_layers(), in_keys=[("tokens", "full")], out_keys=["logits"]),
            ProbabilisticTensorDictModule(
                in_keys=["logits"], out_keys=["sampled"], distribution_class=torch.distributions.Categorical
            ),
        )
    names, made = ["loc", "scale"], nn.Sequential(layers(N_OBS, 2 * N_ACT), NormalParamExtractor())
    distribution: type[torch.distributions.Distribution] = Normal
    if loss in DISCRETE:
        names, made = ["logits"], layers(N_OBS, N_ACT)
        distribution = torch.distributions.OneHotCategorical
    return ProbabilisticTensorDictSequential(
        TensorDictModule(made, in_keys=["observation"], out_keys=names),
        ProbabilisticTensorDictModule(
            in_keys=names, out_keys=["action"], distribution_class=distribution, return_log_prob=True
        ),
    )


def network(loss: str, name: str) -> nn.Module:
    """The network that a loss takes under this name."""
    if loss in ("SFTLoss", "DistillationLoss"):
        return TensorDictModule(
            TokenLogProb(), in_keys=[("tokens", "full")], out_keys=[("log_probs", "full")]
        )
    if name == "actor_network":
        return policy(loss)
    if loss == "BranchingDQNLoss":
        return QValueActor(layers(N_OBS, 2 + 3), action_space="multi-categorical", var_nums=CHOICES)
    if loss == "QMixerLoss" and name == "local_value_network":
        return TensorDictModule(
            layers(N_OBS, N_ACT), in_keys=[("agents", "observation")], out_keys=[("agents", "action_value")]
        )
    if loss == "QMixerLoss":
        mixer = QMixer(state_shape=(N_OBS,), mixing_embed_dim=8, n_agents=N_AGENTS)
        keys: list[Any] = [("agents", "chosen_action_value"), "state"]
        return TensorDictModule(mixer, in_keys=keys, out_keys=["chosen_action_value"])
    if loss == "RNDLoss":
        return layers(N_OBS, 3)
    if name == "discriminator_network":
        return TensorDictSequential(
            TensorDictModule(Joined(), in_keys=["observation", "action"], out_keys=["d_logits"]),
            TensorDictModule(nn.Sigmoid(), in_keys=["d_logits"], out_keys=["d_logits"]),
        )
    if loss == "DistributionalDQNLoss":
        scores = nn.Sequential(layers(N_OBS, 5 * N_ACT), nn.Unflatten(-1, (5, N_ACT)))
        return DistributionalQValueActor(scores, torch.linspace(-2.0, 2.0, 5), action_space="one-hot")
    if loss == "QRDQNLoss":
        quantiles = nn.Sequential(layers(N_OBS, 5 * N_ACT), nn.Unflatten(-1, (5, N_ACT)))
        return QuantileQValueActor(quantiles, action_space="one-hot")
    out = {"value_network": VALUES.get(loss, "state_value"), "critic_network": "state_value"}.get(name)
    if name == "qvalue_network":
        out = "action_value" if loss in DISCRETE else "state_action_value"
        if loss == "DiscreteIQLLoss":
            return TensorDictModule(
                layers(N_OBS, N_ACT), in_keys=["observation"], out_keys=["state_action_value"]
            )
    if out == "state_action_value":
        return TensorDictModule(
            Joined(5 if loss == "TQCLoss" else 1), in_keys=["observation", "action"], out_keys=[out]
        )
    if loss in VALUES and out == "action_value":
        return layers(N_OBS, N_ACT)  # which the loss makes a policy that chooses the greatest value
    assert out is not None, f"say in tests/objectives/every_loss.py what `{name}` of {loss} is"
    return TensorDictModule(
        layers(N_OBS, N_ACT if out == "action_value" else 1), in_keys=["observation"], out_keys=[out]
    )


def networks(cls: type[LossModule], seed: int = 0) -> dict[str, nn.Module]:
    """The networks that the constructor takes, by name."""
    torch.manual_seed(seed)
    parameters: Mapping[str, inspect.Parameter] = inspect.signature(cls).parameters
    taken = [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    wanted = [
        name for name in taken if parameters[name].default is inspect._empty or name == "critic_network"
    ]
    return {name: network(cls.__name__, name) for name in wanted}


def made(cls: type[LossModule], seed: int = 0, **keywords: Any) -> Any:
    """A loss over its networks."""
    return cls(*networks(cls, seed).values(), **{**KEYWORDS.get(cls.__name__, {}), **keywords})


def batch(loss: str, *shape: int, seed: int = 1) -> TensorDict:
    """Data that hold what the losses read."""
    if loss in AGENTS:
        data = batch("", *shape, N_AGENTS, seed=seed)
        data.batch_size = data["next"].batch_size = torch.Size(shape)
        return data
    if loss == "QMixerLoss":
        data = batch("", *shape, seed=seed)
        agents = batch("DQNLoss", *shape, N_AGENTS, seed=seed)
        for record, of_agents in ((data, agents), (data["next"], agents["next"])):
            record.rename_key_("observation", "state")
            record["agents"] = of_agents.select("observation", "action", strict=False)
        return data
    generator = torch.Generator().manual_seed(seed)

    def normal(*sizes: int) -> Tensor:
        return torch.randn(*shape, *sizes, generator=generator)

    if loss in OF_TOKENS:
        data = tokens(*shape)
        data["next", "teacher_log_probs"] = data["next", "ref_log_probs"]
        return data.set("masks", {"all_assistant_mask": data["answered"]}).exclude("answered")
    others = torch.Generator().manual_seed(seed + 1)

    def normal_of_others(size: int) -> Tensor:
        return torch.randn(*shape, size, generator=others)

    terminated = torch.rand(*shape, 1, generator=generator) < 0.4
    action = torch.tanh(normal(N_ACT))
    if loss in DISCRETE:
        action = torch.nn.functional.one_hot(action.argmax(-1), N_ACT)
    if loss == "BranchingDQNLoss":
        action = torch.stack([torch.randint(n, shape, generator=generator) for n in CHOICES], -1)
    return TensorDict(
        {
            "observation": normal(N_OBS),
            "action": action,
            "collector_observation": normal_of_others(N_OBS),
            "collector_action": normal_of_others(N_ACT),
            "action_log_prob": -1 + 0.1 * normal(),
            "loc": normal(N_ACT),
            "scale": 1 + normal(N_ACT).exp(),
            "state_value": normal(1),
            "advantage": normal(1),
            "value_target": normal(1),
            "next": {
                "observation": normal(N_OBS),
                "reward": normal(1),
                "done": terminated | (torch.rand(*shape, 1, generator=generator) < 0.3),
                "terminated": terminated,
            },
        },
        shape,
    )


def total(outputs: TensorDict) -> Tensor:
    """The sum of the terms."""
    return torch.stack([value.sum() for key, value in outputs.items() if key.startswith("loss")]).sum()
