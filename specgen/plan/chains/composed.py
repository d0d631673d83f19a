"""Chains over environments of conversations, whose data are Python objects: their transforms as objects, not fused."""

from __future__ import annotations

from specgen.check.chains.model import CheckedChain, Instance
from specgen.check.language_models.transforms import ModelInstance, given_models
from specgen.check.model import Checked, CheckedEnv, Entry
from specgen.code import using
from specgen.plan.chains.model_transforms import (
    model_arguments,
    model_docs,
    model_setup,
    model_transform,
)
from specgen.plan.chains.unfused import given_arguments
from specgen.plan.data import data_plan
from specgen.plan.docs import env_doc
from specgen.plan.envs.chat_env import chat_init_doc, chat_keywords
from specgen.plan.envs.model import ComposedChainPlan
from specgen.plan.interface import FLAG_DOCS, EnvInterface, Extra, RecordField, entry_field
from specgen.plan.items import Item
from specgen.plan.model import Argument, CallPlan
from specgen.plan.spec_text import spec_code
from specgen.plan.transforms.networks import chain_networks, network_docs
from specgen.values import replace


def plan_composed_chain(checked: Checked[CheckedChain]) -> list[Item]:
    """Plan a chain as a `TransformedEnv` of its environment."""
    chain, base = checked.value, checked.value.env.value
    interface = _interface(chain, base)
    instances: list[Instance | ModelInstance] = [*chain.instances, *chain.model_instances]
    instances.sort(key=lambda one: one.position)
    lead = f"Transforms, in order: {', '.join(one.transform.name for one in instances) or 'none'}."
    models = given_models(chain.model_instances)
    networks = tuple(Argument(network.name, using("nn.Module", "nn")) for network in chain_networks(chain))
    plan = ComposedChainPlan(
        chain.name,
        env_doc(interface, lead, ""),
        chat_init_doc(interface.env, *network_docs(chain), *model_docs(models)),
        networks,
        model_arguments(models),
        model_setup(models),
        chat_keywords(base),
        CallPlan(base.name, tuple(f"{one.name}={one.name}" for one in chat_keywords(base))),
        tuple(map(_transform, instances)),
    )
    return [plan, *data_plan(interface)]


def _interface(chain: CheckedChain, base: CheckedEnv) -> EnvInterface:
    """What the chain's user sees, as one environment."""
    entries = chain.entries.values()
    shown = [entry for entry in entries if entry.role in ("state", "observation")]
    state = tuple(entry for entry in shown if entry.role == "state")
    rewards = tuple(entry for entry in entries if entry.role == "reward")
    flags = tuple(_flag(entry) for entry in entries if entry.role == "done")
    carried = _carried(chain)
    env = replace(
        base,
        name=chain.name,
        module=chain.module,
        doc=chain.doc or f"`{base.name}` with transforms.",
        state=state,
        observation=(),
        action=chain.actions,
        reward=(),
        masks=chain.masks,
    )
    root = (*map(entry_field, shown), *flags)
    return EnvInterface(
        env=env,
        root=root,
        next=(*root, *map(entry_field, rewards)),
        rewards=rewards,
        extra={
            entry.key: Extra(spec_code(entry.spec, col=entry.type.col), entry.dotted in carried)
            for entry in shown
            if entry.role != "state"
        },
    )


def _flag(entry: Entry) -> RecordField:
    return replace(entry_field(entry), doc=FLAG_DOCS.get(entry.key[-1]) or entry.doc, flag=True)


def _carried(chain: CheckedChain) -> frozenset[str]:
    """The entries that the next step reads, of those that transforms write."""
    return frozenset(
        entry.dotted
        for instance in chain.instances
        for row in instance.rows
        for name, entry in row.outputs.items()
        if instance.transform.output(name).carry
    )


def _transform(instance: Instance | ModelInstance) -> CallPlan:
    """The call that makes a transform."""
    if isinstance(instance, ModelInstance):
        return model_transform(instance)
    return CallPlan(instance.transform.name, tuple(given_arguments(instance)))
