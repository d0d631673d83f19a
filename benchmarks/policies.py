"""Policies on batches of some rows: against TorchRL's, and against the same keys written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
import torchrl.data
import torchrl.modules
from specgen_runtime import modules, specs
from tensordict import TensorDict
from tensordict.nn import InteractionType, NormalParamExtractor, TensorDictModule, set_interaction_type
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.harness import Budget, Row, Work, paired

CALLS = 20
FEATURES, CHOICES = 4, 2
EPS, SIGMA, LOW, HIGH = 0.3, 0.3, -2.0, 2.0
ROWS = (8, 64)

Policy = Callable[[TensorDict], Any]


class Library(NamedTuple):
    """What makes policies: modules, specs, and the distribution of indices."""

    modules: Any
    specs: Any
    categorical: Any


OURS = Library(modules, specs, modules.Categorical)
THEIRS = Library(torchrl.modules, torchrl.data, torch.distributions.Categorical)


def rows(budget: Budget) -> Iterator[Row]:
    """Microseconds of a call that explores, without gradients; the tensordict that it reads is made anew."""
    for n in ROWS:
        for name, (make, by_hand) in POLICIES.items():
            works = {
                "TorchRL": _work(make(THEIRS), n),
                "by hand": _work(by_hand(), n),
            }
            ours = _work(make(OURS), n)
            for peer_name, peer in works.items():
                yield paired(f"{name}, {n} rows", ours, peer, budget, peer_name=peer_name)


def _work(policy: Policy, n: int) -> Work:
    torch.manual_seed(0)
    entries = {"observation": torch.randn(n, FEATURES), "mask": torch.ones(n, CHOICES, dtype=torch.bool)}
    return Work(partial(_call, policy, entries, n), CALLS)


@torch.no_grad()
def _call(policy: Policy, entries: dict[str, Tensor], n: int) -> None:
    with set_interaction_type(InteractionType.RANDOM):
        for _ in range(CALLS):
            policy(TensorDict(entries, [n]))


def _network(size: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, size)
    )


def _normal_network() -> nn.Sequential:
    return nn.Sequential(_network(2), NormalParamExtractor())


def _greedy(library: Library) -> Policy:
    spec = library.specs.Categorical(CHOICES)
    actor = library.modules.QValueActor(_network(CHOICES), spec=spec, in_keys=["observation"])
    policy: Policy = library.modules.SafeSequential(actor, library.modules.EGreedyModule(spec, eps_init=EPS))
    return policy


def _greedy_by_hand() -> Policy:
    network = _network(CHOICES)

    def policy(data: TensorDict) -> None:
        values = network(data["observation"])
        explored = torch.rand(values.shape[:-1]) < EPS
        drawn = torch.randint(CHOICES, values.shape[:-1])
        action = torch.where(explored, drawn, values.argmax(-1))
        chosen = values.amax(-1, keepdim=True)
        data.update({"action_value": values, "chosen_action_value": chosen, "action": action})

    return policy


def _noisy(library: Library) -> Policy:
    spec = library.specs.Bounded(-1.0, 1.0, (1,))
    actor = library.modules.Actor(_network(1), spec=spec)
    noise = library.modules.AdditiveGaussianModule(spec, sigma_init=SIGMA)
    policy: Policy = library.modules.SafeSequential(actor, noise)
    return policy


def _noisy_by_hand() -> Policy:
    network = _network(1)

    def policy(data: TensorDict) -> None:
        action = network(data["observation"])
        data["action"] = (action + SIGMA * torch.randn_like(action)).clamp(-1.0, 1.0)

    return policy


def _drawn(
    library: Library, network: nn.Module, in_keys: list[str], distribution: Any, **keywords: Any
) -> Policy:
    parameters = [key for key in in_keys if key != "mask"]
    policy: Policy = library.modules.ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=parameters),
        in_keys=in_keys,
        distribution_class=distribution,
        distribution_kwargs=keywords,
        return_log_prob=True,
    )
    return policy


def _tanh_normal(library: Library) -> Policy:
    distribution = library.modules.TanhNormal
    return _drawn(library, _normal_network(), ["loc", "scale"], distribution, low=LOW, high=HIGH)


def _tanh_normal_by_hand() -> Policy:
    network, half = _normal_network(), (HIGH - LOW) / 2
    constant = 0.5 * torch.tensor(2 * torch.pi).log().item() + torch.tensor(half).log().item()
    log_2 = torch.tensor(2.0).log().item()

    def policy(data: TensorDict) -> None:
        loc, scale = network(data["observation"])
        noise = torch.randn_like(loc)
        latent = loc + scale * noise
        slope = 2 * (log_2 - latent - F.softplus(-2 * latent))
        log_prob = (-0.5 * noise.square() - scale.log() - slope - constant).sum(-1)
        action = half * latent.tanh()
        data.update({"loc": loc, "scale": scale, "action": action, "action_log_prob": log_prob})

    return policy


def _categorical(library: Library) -> Policy:
    return _drawn(library, _network(CHOICES), ["logits"], library.categorical)


def _one_hot(library: Library) -> Policy:
    return _drawn(library, _network(CHOICES), ["logits"], library.modules.OneHotCategorical)


def _masked(library: Library) -> Policy:
    return _drawn(library, _network(CHOICES), ["logits", "mask"], library.modules.MaskedCategorical)


def _choices_by_hand(*, masked: bool = False, one_hot: bool = False) -> Policy:
    network = _network(CHOICES)

    def policy(data: TensorDict) -> None:
        logits = network(data["observation"])
        allowed = logits.masked_fill(~data["mask"], -torch.inf) if masked else logits
        log_probs = allowed.log_softmax(-1)
        index = torch.multinomial(log_probs.exp(), 1)
        action = F.one_hot(index.squeeze(-1), CHOICES) if one_hot else index.squeeze(-1)
        log_prob = log_probs.gather(-1, index).squeeze(-1)
        data.update({"logits": logits, "action": action, "action_log_prob": log_prob})

    return policy


POLICIES: dict[str, tuple[Callable[[Library], Policy], Callable[[], Policy]]] = {
    "QValueActor, EGreedyModule": (_greedy, _greedy_by_hand),
    "Actor, AdditiveGaussianModule": (_noisy, _noisy_by_hand),
    "ProbabilisticActor, TanhNormal": (_tanh_normal, _tanh_normal_by_hand),
    "ProbabilisticActor, Categorical": (_categorical, _choices_by_hand),
    "ProbabilisticActor, OneHotCategorical": (_one_hot, partial(_choices_by_hand, one_hot=True)),
    "ProbabilisticActor, MaskedCategorical": (_masked, partial(_choices_by_hand, masked=True)),
}
