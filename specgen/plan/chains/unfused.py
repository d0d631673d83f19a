"""What a chain is made of, for those who need its parts: the class of its environment, and calls that make its transforms."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.chains.model import CheckedChain, Instance
from specgen.check.model import Parameter
from specgen.code import Code, named, using, value_code
from specgen.plan.envs.model import UnfusedPlan
from specgen.plan.model import CallPlan


def plan_unfused(chain: CheckedChain) -> UnfusedPlan:
    """The environment of a chain, and its transforms as the constructors of their classes make them."""
    transforms = tuple(
        CallPlan(one.transform.name, tuple(given_arguments(one, networks="self."))) for one in chain.instances
    )
    return UnfusedPlan(named(chain.env.value.name), transforms)


def given_arguments(instance: Instance, networks: str = "") -> Iterator[Code]:
    """What a chain gives a transform, as arguments of its constructor.

    Args:
        instance: the transform.
        networks: what stands in front of the names of networks.
    """
    transform = instance.transform
    varargs = any(role.varargs for role in transform.roles)
    if varargs and "in_keys" in instance.arguments:
        yield Code(f"*{value_code(_plain(instance.arguments['in_keys']))}")
    for network in transform.networks:
        yield Code(f"{network.name}={networks}{instance.networks[network.name]}")
    for name, value in instance.arguments.items():
        if name in instance.networks or (varargs and name == "in_keys"):
            continue
        code = (
            Code(f"self.params.{value.name}") if isinstance(value, Parameter) else value_code(_plain(value))
        )
        yield using(f"{name}={code}", *code.uses)


def _plain(value: object) -> object:
    """A value with keys of one part as plain names."""
    if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], str):
        return value[0]
    return [_plain(item) for item in value] if isinstance(value, list) else value
