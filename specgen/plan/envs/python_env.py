"""An environment whose behaviour is a Python class: the Protocol that it satisfies, records, and a thin class."""

from __future__ import annotations

from specgen.check.model import Checked, CheckedEnv
from specgen.check.programs.chain_state import EnvPieces
from specgen.check.programs.python_env import PythonEnvPrograms
from specgen.check.sources import PythonSource
from specgen.code import Code, named, using
from specgen.plan.data import data_plan
from specgen.plan.envs.env import consts_record, params_record
from specgen.plan.envs.env_class import advance_call, environment_plan, reset_call
from specgen.plan.envs.model import PythonPlan
from specgen.plan.envs.python_protocol import protocol_items, setup_params
from specgen.plan.functions import Planned, entry_doc, plan_function
from specgen.plan.interface import (
    EnvInterface,
    Extra,
    entry_field,
    flag_fields,
)
from specgen.plan.items import Item
from specgen.plan.model import CallPlan, Text
from specgen.plan.records import step_records
from specgen.plan.spec_text import spec_code
from specgen.program.program import Input, Program
from specgen.values import replace


def plan_python_env(checked: Checked[CheckedEnv]) -> tuple[list[Item], EnvInterface]:
    """Plan an environment with a `python:` field."""
    env = checked.value
    state = tuple(map(entry_field, env.state))
    observed = tuple(map(entry_field, env.observation))
    rewards = tuple(map(entry_field, env.reward))
    root = (*state, *observed, *flag_fields(env))
    programs = PythonEnvPrograms(env)
    component, parts = programs.parts()
    reset = _planned(
        env, parts.reset, f"A fresh episode in every row of the batch, by `{_source(env).text}`."
    )
    advance = _planned(env, parts.advance, f"One step, by `{_source(env).text}`.")
    interface = EnvInterface(
        env=env,
        root=root,
        next=(*root, *rewards),
        reset=reset.call,
        advance=advance.call,
        rewards=env.reward,
        params=env.params,
        extra={e.key: Extra(spec_code(e.spec)) for e in env.observation},
        pieces=EnvPieces(component, parts, (programs.dynamics, *programs.fixed), programs.action),
    )
    items: list[Item] = []
    if env.params:
        items.append(params_record(env))
    if env.consts:
        items.append(consts_record(env))
    items += protocol_items(env, _source(env))
    items += step_records(
        env.name, root, (*root, *rewards), "What an episode stands at.", "What a step gives"
    )
    plan = replace(
        environment_plan(interface, "python_environment", reset_call(interface), advance_call(interface)),
        python=python_plan(env),
    )
    return [*items, reset.plan, advance.plan, plan, *data_plan(interface)], interface


def dynamics_type(env: CheckedEnv) -> Code:
    """The type of the user's object behind its boundary."""
    form = "SimulatorDynamics" if _source(env).stateful else "VectorDynamics"
    protocol = f"{env.name}Protocol"
    return using(f"{form}[{protocol}]", form, protocol)


def python_plan(env: CheckedEnv, consts: str = "consts", params: str = "params") -> PythonPlan:
    """The user's class behind an environment.

    Args:
        env: the environment.
        consts: the attribute that holds its constants.
        params: the one that holds its parameters.
    """
    source = _source(env)
    fields: dict[str, Text | CallPlan] = {
        "params": _setup_params(env, params),
        "consts": f"self.{consts}" if env.consts else "",
        "dims": CallPlan(f"{env.name}Dims", ()) if env.dims else "",
        "device": "" if source.stateful else "self.device",
    }
    # the class may be called like something that the method which imports it reads
    records = (f"{env.name}{kind}" for kind in ("Setup", "SetupParams", "Protocol", "Dims"))
    own = source.name in ("Callable", *records)
    return PythonPlan(
        env.name,
        "SimulatorDynamics" if source.stateful else "VectorDynamics",
        source.text,
        source.module,
        source.name,
        "Dynamics" if own else source.name,
        source.stateful,
        tuple((name, text) for name, text in fields.items() if text),
    )


def _setup_params(env: CheckedEnv, held: str) -> str | CallPlan:
    """The parameters that the class is made from; nothing if there are none."""
    given = setup_params(env)
    if not given or not env.differing:
        return f"self.{held}" if given else ""
    values = tuple(f"{param.name}=self.{held}.{param.name}" for param in given)
    return CallPlan(f"{env.name}SetupParams", values)


def _source(env: CheckedEnv) -> PythonSource:
    if env.python is None:
        raise AssertionError("no Python class")
    return env.python


def _planned(env: CheckedEnv, program: Program | None, summary: str) -> Planned:
    """A function that calls the class, documented."""
    assert program is not None
    annotations = {
        "dynamics": dynamics_type(env),
        "params": named(f"{env.name}Params"),
        "consts": named(f"{env.name}Consts"),
    }
    entries = {entry.key: entry for entry in env.entries}

    def describe(one: Input) -> str:
        told = entries.get(one.symbol.key or ())
        if told is None:
            return "bool [*batch, 1]; it tells the batch shape."
        return entry_doc(told) if told.role == "action" else f"as in `{env.name}Root`."

    return plan_function(program, summary, annotations, describe)
