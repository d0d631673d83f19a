"""The plan of the thin class around the pure functions of a chain."""

from __future__ import annotations

from specgen.check.chains.model import CheckedChain
from specgen.code import named
from specgen.expr.symbols import Key
from specgen.plan.chains.learned import learned_record, plan_learners
from specgen.plan.chains.lift import LIFT, plan_firsts
from specgen.plan.chains.row import RowPlan
from specgen.plan.chains.unfused import plan_unfused
from specgen.plan.envs.env_class import NOT_DONE, advance_call, environment_plan, inverse_call, reset_call
from specgen.plan.envs.gym_env import gym_plan
from specgen.plan.envs.model import EnvironmentPlan
from specgen.plan.envs.python_env import python_plan
from specgen.plan.interface import EnvInterface
from specgen.plan.model import FunctionPlan
from specgen.plan.transforms.networks import chain_networks
from specgen.plan.transforms.python import chain_objects, made_with
from specgen.values import replace


def chain_class(
    interface: EnvInterface,
    chain: CheckedChain,
    env: EnvInterface,
    methods: tuple[FunctionPlan, ...],
    rows: RowPlan,
    observed: tuple[tuple[str, ...], tuple[str, ...] | None],
) -> EnvironmentPlan:
    """The environment class of a chain, around a native, Gymnasium-backed or Python-backed environment.

    Args:
        interface: of the chain.
        chain: its declaration.
        env: of the environment behind it.
        methods: those that compute many steps at once.
        rows: those that compute one by NumPy.
        observed: what the reset and the step function call Gymnasium's observations; None for a step that it takes itself.
    """
    lead = f"Transforms, in order: {', '.join(i.transform.name for i in chain.instances) or 'none'}."
    witness = NOT_DONE
    gym = python = None
    firsts: tuple[FunctionPlan, ...] = ()
    parent = "environment"
    if env.env.gymnasium is not None:
        parent = "gym_environment"
        lifts = any(one.name == LIFT for one in methods)
        gym = gym_plan(env.env, *observed, lifts=lifts)
        gym = replace(gym, row_reads=rows.reads, inverse=inverse_call(interface))
        witness = "not_done"
        if lifts:
            firsts = plan_firsts(interface, observed[0][0], reset_call(interface, witness))
    elif env.env.python is not None:
        parent = "python_environment"
        python = python_plan(env.env, consts="env_consts", params="env_params" if chain.params else "params")
    learned = learned_record(chain)
    transforms = [instance.transform for instance in chain.instances]
    plan = environment_plan(
        interface,
        "chain",
        None if firsts else reset_call(interface, witness),
        advance_call(interface),
        (lead, ""),
        env,
    )
    return replace(
        plan,
        gym=gym,
        python=python,
        parent=parent,
        env_class=None if gym is None and python is None else named(env.name),
        learned=None if learned is None else named(learned.name),
        learners=plan_learners(chain),
        methods=(*firsts, *methods, *rows.methods),
        networks=chain_networks(chain),
        objects=chain_objects(chain),
        made_with=made_with(chain),
        unfused=plan_unfused(chain),
        acts_in_resets=any(one.around is not None and one.around.kind == "reset_steps" for one in transforms),
        recalled=_recalled(interface, chain),
    )


def _recalled(interface: EnvInterface, chain: CheckedChain) -> tuple[tuple[Key, str], ...]:
    """The observations that a step reads as they were before it, and no state is; each with the transform that does."""
    assert interface.advance is not None  # a chain steps
    passed = {one.name for one in interface.advance.args if one.kind == "root"}
    recalling = {
        row.inputs[name].dotted: instance.transform.name
        for instance in reversed(chain.instances)
        for row in instance.rows
        for name in instance.transform.recalls
        if name in row.inputs
    }
    return tuple(
        (field.key, recalling[field.dotted])
        for field in interface.root
        if field.name in passed and field.visible and field.dotted in recalling
        if (extra := interface.extra.get(field.key)) is not None and not extra.carried
    )
