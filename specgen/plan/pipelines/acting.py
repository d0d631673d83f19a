"""Who acts among the parts of a pipeline: the policy and what explores its actions."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.pipelines.data_model import RecordedData
from specgen.check.pipelines.heads_model import PolicyHead, QValueHead, action_keys
from specgen.check.pipelines.layers_model import are_recurrent, trunks_of
from specgen.check.pipelines.model import CheckedPipeline, Exploration, PipelineNetwork
from specgen.code import Code, using
from specgen.plan.pipelines.devices import device_of
from specgen.plan.pipelines.environments import POLICY, action_spec, environments, made_part
from specgen.plan.pipelines.networks import call_of, call_of_trunk
from specgen.plan.spec_text import key_text


def acting_parts(pipeline: CheckedPipeline) -> Iterator[Code]:
    """Who acts."""
    copies = acting_copies(pipeline)
    for trunk in trunks_of(copies):
        made = call_of_trunk(trunk, "acting_")
        yield made_part(f"acting_{trunk.name}", using(f"{made}.to(self.policy_device)", *made.uses))
    for network in copies:
        if network.language_model is not None:
            continue  # environments run it, so that it is there already
        made = call_of(network, "exploring", "acting_")
        yield made_part(f"acting_{network.attribute}", using(f"{made}.to(self.policy_device)", *made.uses))
        copied = f"load_weights(self.acting_{network.attribute}, self.{network.attribute})"
        yield using(copied, "load_weights")
    if are_recurrent(pipeline.networks):
        yield from environments(pipeline)  # which hold the states of the networks that act
    yield from _policy(pipeline)


def acting_copies(pipeline: CheckedPipeline) -> tuple[PipelineNetwork, ...]:
    """The networks that act on a device of their own, with copies of the weights that are learned."""
    return pipeline.acting.networks if pipeline.devices.apart else ()


def _policy(pipeline: CheckedPipeline) -> Iterator[Code]:
    acting = pipeline.acting
    copied = "acting_" if acting_copies(pipeline) else ""
    networks = ", ".join(f"self.{copied}{network.attribute}" for network in acting.networks)
    exploration = acting.exploration
    if exploration is None or isinstance(pipeline.data, RecordedData):
        if len(acting.networks) == 1:
            yield made_part("policy", using(networks), POLICY)
        else:
            yield made_part("policy", using(f"SafeSequential({networks})", "SafeSequential"), POLICY)
        return
    if exploration.amount is None:
        words = [networks, *(f"{word}=config.{one.name}" for word, one in exploration.settings.items())]
        made = using(f"GSDEPolicy({', '.join(words)}, generator=self.exploring)", "GSDEPolicy")
        yield made_part("policy", made, POLICY)
        return
    steps: list[str] = []
    for network in acting.networks:
        steps.append(f"self.{copied}{network.attribute}")
        if network in acting.explored:
            part = exploration_part(pipeline, network)
            steps.append(f"self.{part}")
            yield made_part(part, _noise(pipeline, exploration, network))
    yield made_part("policy", using(f"SafeSequential({', '.join(steps)})", "SafeSequential"), POLICY)


def exploration_part(pipeline: CheckedPipeline, network: PipelineNetwork) -> str:
    """The attribute of what explores the actions of a network; each of several groups has its own."""
    several = len(pipeline.acting.networks) > 1
    return f"{network.group.name}_exploration" if several and network.group is not None else "exploration"


def _noise(pipeline: CheckedPipeline, exploration: Exploration, network: PipelineNetwork) -> Code:
    """What explores the actions of a network."""
    head = network.head
    assert exploration.amount is not None
    (action,) = action_keys(head)
    place = f"self.{device_of(pipeline, 'policy')}"
    spec = action_spec(pipeline, network.group)
    words = [f"{spec}.to({place})" if pipeline.devices.apart else spec]
    if exploration.kind == "ornstein_uhlenbeck":
        name = "OrnsteinUhlenbeckProcessModule"
        strength = f"config.{exploration.amount.name}"
        words += [f"eps_init={strength}", f"eps_end={strength}", "sigma=1.0"]
        words += [f"{word}=config.{one.name}" for word, one in exploration.settings.items()]
    elif exploration.kind == "epsilon_greedy":
        name = "EGreedyModule"
        words += [f"eps_init=config.{exploration.amount.name}", f"eps_end=config.{exploration.amount.name}"]
        masks = head.masks if isinstance(head, PolicyHead | QValueHead) else ()
        words += [f"action_mask_key={key_text(mask)}" for mask in masks]
    else:
        name = "AdditiveGaussianModule"
        words += [
            f"sigma_init=config.{exploration.amount.name}",
            f"sigma_end=config.{exploration.amount.name}",
        ]
        words.append("safe=True")
    if action != ("action",):
        words.append(f"action_key={key_text(action)}")
    words.append("generator=self.exploring")
    words.append(f"device={place}")
    return using(f"{name}({', '.join(words)})", name)
