"""A Gymnasium-backed environment: records and a thin class; the dynamics are Gymnasium's."""

from __future__ import annotations

from specgen.check.model import Checked, CheckedEnv
from specgen.plan.data import data_plan
from specgen.plan.envs.env_class import environment_plan
from specgen.plan.envs.model import GymPlan
from specgen.plan.interface import EnvInterface, Extra, entry_field, flag_fields
from specgen.plan.items import Item
from specgen.plan.records import step_records
from specgen.plan.spec_text import spec_code
from specgen.values import replace


def plan_gym_env(checked: Checked[CheckedEnv]) -> tuple[list[Item], EnvInterface]:
    """Plan a Gymnasium-backed environment."""
    env = checked.value
    observed = tuple(map(entry_field, env.observation))
    flags = flag_fields(env)
    reward = entry_field(env.reward[0])
    interface = EnvInterface(
        env=env,
        root=(*observed, *flags),
        next=(*observed, *flags, reward),
        rewards=env.reward,
        extra={e.key: Extra(spec_code(e.spec)) for e in env.observation},
    )
    single = len(env.observation) == 1
    plan = environment_plan(interface, "gym_environment", None, None)
    plan = replace(plan, gym=gym_plan(env, (), (), lifts=single))
    records = step_records(
        env.name, interface.root, interface.next, "What an episode stands at.", "What a step returned"
    )
    return [*records, plan, *data_plan(interface)], interface


def gym_plan(
    env: CheckedEnv,
    observed: tuple[str, ...],
    stepped: tuple[str, ...] | None,
    *,
    lifts: bool,
) -> GymPlan:
    """The Gymnasium environment behind a class.

    Args:
        env: its declaration.
        observed: what the class calls the observations of a reset.
        stepped: what it calls those of a step; None where the step function takes the steps.
        lifts: whether rollouts make tensors once for all steps.
    """
    source = env.gymnasium
    if source is None:
        raise AssertionError("no Gymnasium environment")
    # Gymnasium imports what stands before the colon
    id = source.id if source.module is None else f"{source.module}:{source.id}"
    several = len(env.action) > 1
    return GymPlan(id, source.max_episode_steps, source.kwargs, observed, stepped, lifts, several=several)
