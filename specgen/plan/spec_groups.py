"""The specs of an environment in their five groups, and their types."""

from __future__ import annotations

from collections.abc import Collection

from specgen.check.model import Key
from specgen.plan.interface import EnvInterface
from specgen.plan.model import Field, TypingPlan
from specgen.plan.spec_text import SpecCode, flag_code, spec_code
from specgen.plan.typed_keys import key_type, typed_composite

SpecGroup = dict[Key, SpecCode]


def spec_groups(interface: EnvInterface) -> dict[str, SpecGroup]:
    """The specs by group and key: `action`, `observation`, `state`, `reward`, `done`."""
    env = interface.env
    state = {e.key: spec_code(e.spec) for e in env.state}
    extra = {
        f.key: interface.extra[f.dotted] for f in interface.root if f.visible and f.dotted in interface.extra
    }
    observation = {o.key: spec_code(o.spec, col=o.type.col) for o in interface.observations}
    return {
        "action": {e.key: spec_code(e.spec) for e in env.action},
        "observation": {
            **observation,
            **{key: code for key, code in state.items() if key not in observation},
            **{key: each.spec for key, each in extra.items()},
        },
        # a state key is as a transform left it, for who reads the data and for the state spec alike
        "state": {
            **{key: observation.get(key, code) for key, code in state.items()},
            **{key: each.spec for key, each in extra.items() if each.carried},
        },
        "reward": {o.key: spec_code(o.spec, col=True) for o in interface.rewards},
        "done": {f.key: flag_code(f.type) for f in interface.root if f.flag},
    }


def spec_types(interface: EnvInterface) -> TypingPlan:
    """What type checkers know of the specs and of the keys that environments name."""
    classes = {role: {key: code.cls for key, code in g.items()} for role, g in spec_groups(interface).items()}
    full = {role: typed_composite(found) if found else "Composite" for role, found in classes.items()}
    leaf = {r: next(iter(found.values())) if len(found) == 1 else full[r] for r, found in classes.items()}
    dones = [(*prefix, "done") for prefix in interface.env.done]
    types = {
        "action_spec": leaf["action"],
        "full_action_spec": full["action"],
        "observation_spec": full["observation"],
        "state_spec": full["state"],
        "reward_spec": leaf["reward"],
        "full_reward_spec": full["reward"],
        "done_spec": leaf["done"],
        "full_done_spec": full["done"],
    }
    keys = ", ".join(map(_type_of_only_key, (classes["action"], classes["reward"], dones)))
    doc = f"The types of the specs and keys of `{interface.name}`."
    return TypingPlan(
        f"{interface.name}Specs", (doc,), f"KeyTypes[{keys}]", tuple(Field(n, t) for n, t in types.items())
    )


def _type_of_only_key(keys: Collection[Key]) -> str:
    """The type of the only key; any key where there are several."""
    return key_type(keys) if len(keys) == 1 else "NestedKey"
