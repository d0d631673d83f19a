"""The thin class around a chain's functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specgen.check.chain_model import CheckedChain
from specgen.literals import literal
from specgen.plan.docs import env_doc
from specgen.plan.env_class import (
    action_texts,
    advance_method,
    advance_text,
    build_method,
    entries_method,
    group_attribute,
    init_method,
    mask_attribute,
    method,
    read_method,
    reset_text,
    specs_method,
    unpacked,
)
from specgen.plan.gym_env import gym_attributes, gym_init
from specgen.plan.interface import EnvInterface
from specgen.plan.model import ClassPlan, FunctionPlan
from specgen.plan.python_env import make_python, python_attributes, python_init


def chain_class(
    interface: EnvInterface,
    chain: CheckedChain,
    env: EnvInterface,
    lift: tuple[FunctionPlan, ...],
    observed: Sequence[str],
) -> ClassPlan:
    """The environment class of a chain, native or Gymnasium-backed.

    Args:
        interface: of the chain.
        chain: its declaration.
        env: of the environment behind it.
        lift: the methods that compute many steps at once.
        observed: what the step function calls Gymnasium's observations.
    """
    name = chain.name
    gym = env.env.gymnasium is not None
    attributes: tuple[str, ...] = gym_attributes(env.env) if gym else ()
    if env.params:
        attributes = (*attributes, f"params: {env.name}Params")
    if interface.env.consts:
        attributes = (*attributes, f"consts: {name}Consts")
    if env.env.consts:
        attributes = (*attributes, f"env_consts: {env.name}Consts")
    python = env.env.python is not None
    if python:
        attributes = (*attributes, *python_attributes(env.env))
    attributes = (*attributes, *group_attribute(env.env), *mask_attribute(env.env))
    if lift:
        attributes = (*attributes, "_gym_lifts = True")
    base = "GeneratedGymEnv" if gym else "GeneratedPythonEnv" if python else "GeneratedEnv"
    lead = f"Transforms, in order: {', '.join(i.transform.name for i in chain.instances) or 'none'}."
    return ClassPlan(
        name,
        (f"{base}[{literal(f'{name}Data')}, {literal(f'{name}Specs')}]",),
        env_doc(interface, lead, ""),
        attributes,
        (
            _init(interface, env),
            *build_method(interface, env),
            *([make_python(env.env, "env_consts")] if python else []),
            specs_method(interface),
            *(
                [replace(specs_method(env), name="_gym_specs" if gym else "_python_specs")]
                if gym or python
                else []
            ),
            read_method(interface),
            _fresh(interface, env),
            _advance(interface, chain, env, observed),
            *lift,
            entries_method(interface, "_root_entries"),
            entries_method(interface, "_next_entries"),
        ),
    )


def _init(interface: EnvInterface, env: EnvInterface) -> FunctionPlan:
    if env.env.gymnasium is not None:
        return gym_init(interface, env.env)
    return python_init(interface, env.env) if env.env.python is not None else init_method(interface, env.name)


def _fresh(interface: EnvInterface, env: EnvInterface) -> FunctionPlan:
    lines, further = [], {}
    if env.env.gymnasium is not None:
        # a field with a spec that nobody rewrites is the observation itself; carries of that key come behind it
        names = [next(f.name for f in interface.root if f.dotted == e.dotted) for e in env.env.observation]
        lines.append(f"{unpacked(names)} = self._gym_reset()")
        further = {name: name for name in names}
    lines.append(f"return {reset_text(interface, further)}")
    return method("_fresh", (), f"{interface.name}Root", "", *lines)


def _advance(
    interface: EnvInterface, chain: CheckedChain, env: EnvInterface, observed: Sequence[str]
) -> FunctionPlan:
    further = action_texts(a.key for a in chain.actions)
    lines = []
    if env.env.gymnasium is not None and interface.advance is not None:
        lines.append(f"{unpacked(observed)}, reward, terminated, truncated = self._gym_step(actions[0])")
        further |= {name: name for name in (*observed, "reward", "terminated", "truncated")}
    return advance_method(interface, *lines, f"return {advance_text(interface, further)}")
