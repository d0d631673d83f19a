"""The specs of an environment in their five groups, and their types."""

from __future__ import annotations

from collections.abc import Collection

from specgen.code import named
from specgen.expr import Type
from specgen.expr.symbols import Key
from specgen.plan.envs.model import SpecsPlan
from specgen.plan.interface import EnvInterface
from specgen.plan.model import KeyType, SpecTypesPlan
from specgen.plan.spec_text import SpecCode, composite_code, flag_code, spec_code
from specgen.plan.typed_keys import composite_types, key_types

SpecGroup = dict[Key, SpecCode]

_USUAL_FLAGS: tuple[Key, ...] = (("done",), ("terminated",), ("truncated",))
"""The done flags of environments that end as a whole."""


def specs_plan(interface: EnvInterface) -> SpecsPlan:
    """The specs of an environment, without batch dimensions, as `_specs` makes them."""
    agents = {group.name: group.size for group in interface.env.groups}
    groups = _groups(interface)
    flags: dict[Type, tuple[str, SpecCode]] = {}
    done: SpecGroup = {}
    if tuple(groups["done"]) != _USUAL_FLAGS:
        for field in (each for each in interface.root if each.flag):
            flag = "_".join((*field.key[:-1], "flag")), groups["done"][field.key]
            done[field.key] = SpecCode(flags.setdefault(field.type, flag)[0])
    return SpecsPlan(
        tuple(flags.values()),
        composite_code(groups["action"].items(), agents),
        composite_code(groups["observation"].items(), agents),
        tuple(groups["state"]),
        composite_code(groups["reward"].items(), agents),
        composite_code(done.items(), agents) if done else None,
    )


def _groups(interface: EnvInterface) -> dict[str, SpecGroup]:
    """The specs by group and key; those of the state are among the observations."""
    env = interface.env
    state = {e.key: spec_code(e.spec) for e in env.state}
    extra = {f.key: interface.extra[f.key] for f in interface.root if f.visible and f.key in interface.extra}
    observation = {o.key: spec_code(o.spec, col=o.type.col) for o in interface.observations}
    return {
        "action": {e.key: spec_code(e.spec) for e in env.action},
        # a state key is as a transform left it
        "observation": {
            **observation,
            **{key: code for key, code in state.items() if key not in observation},
            **{key: each.spec for key, each in extra.items()},
        },
        "state": {
            **{key: observation.get(key, code) for key, code in state.items()},
            **{key: each.spec for key, each in extra.items() if each.carried},
        },
        "reward": {o.key: spec_code(o.spec, col=True) for o in interface.rewards},
        "done": {f.key: flag_code(f.type) for f in interface.root if f.flag},
    }


def spec_types(interface: EnvInterface) -> SpecTypesPlan:
    """What type checkers know of the specs and of the keys that environments name."""
    classes = {
        role: {key: named(code.cls) for key, code in g.items()} for role, g in _groups(interface).items()
    }
    bases = {
        "OneAction" if len(classes["action"]) == 1 else "Actions": classes["action"],
        "Observations": classes["observation"],
        "States" if classes["state"] else "NoState": classes["state"],
        "OneReward" if len(classes["reward"]) == 1 else "Rewards": classes["reward"],
        "Dones": classes["done"],
    }
    dones = [(*prefix, "done") for prefix in interface.env.done]
    return SpecTypesPlan(
        f"{interface.name}Specs",
        f"The types of the specs and keys of `{interface.name}`.",
        tuple(map(_only, (classes["action"], classes["reward"], dones))),
        tuple((base, composite_types(found)) for base, found in bases.items()),
    )


def _only(keys: Collection[Key]) -> KeyType | None:
    """The type of the only key; None where there are several."""
    return key_types(keys)[0] if len(keys) == 1 else None
