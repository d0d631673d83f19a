"""The plan of the thin class around an environment's pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from specgen.check.model import CheckedEnv, Entry, dotted
from specgen.expr.symbols import Key
from specgen.plan.docs import env_doc, init_doc
from specgen.plan.env_model import ConstsPlan, EntriesPlan, EntryPlan, EnvironmentPlan, TablePlan
from specgen.plan.interface import NEXT, RECORD, ROOT, Call, EnvInterface, RecordField
from specgen.plan.model import CallPlan
from specgen.plan.per_env import param_plan
from specgen.plan.short_texts import TORCH_DTYPES
from specgen.plan.spec_groups import specs_plan
from specgen.plan.spec_text import nested


def environment_plan(
    interface: EnvInterface,
    template: str,
    fresh: CallPlan,
    advance: CallPlan,
    doc: tuple[str, ...] = (),
    env: EnvInterface | None = None,
) -> EnvironmentPlan:
    """The class of an environment, or of a chain around one.

    Args:
        interface: of the environment or chain.
        template: which template prints it.
        fresh: what `_fresh` returns.
        advance: what `_advance` returns.
        doc: further lines of the documentation.
        env: the environment that a chain is around: parameters and constants are its own.
    """
    own = env or interface
    plain = all(field.key == (field.name,) for field in interface.root)
    holders = [("consts", interface)] + ([("env_consts", env)] if env is not None else [])
    return EnvironmentPlan(
        template,
        interface.name,
        env_doc(interface, *doc),
        init_doc(interface),
        f"{own.name}Params" if own.params else None,
        tuple(map(param_plan, interface.params)),
        tuple(consts_plan(attribute, holder.env) for attribute, holder in holders if holder.env.consts),
        {group.name: list(group.agents) for group in own.env.groups},
        tuple((tuple(a.split(".")), tuple(m.split("."))) for a, m in own.env.masks.items()),
        specs_plan(interface),
        f"{interface.name}Root",
        f"{interface.name}Next",
        None if plain else tuple(field.key for field in interface.root),
        _constants(own, "consts" if env is None else "env_consts"),
        fresh,
        advance,
        _root_entries(interface),
        _next_entries(interface),
    )


def _constants(own: EnvInterface, consts: str) -> tuple[str, CallPlan] | None:
    """The record of what is computed of constant tables alone, and the call that makes it."""
    if own.constants is None:
        return None
    return f"{own.name}Constants", _call(own.constants, {f"{RECORD}consts": f"self.{consts}"})


def consts_plan(attribute: str, env: CheckedEnv) -> ConstsPlan:
    """The constant tables of an environment or chain."""
    tables = tuple(TablePlan(c.name, c.value, TORCH_DTYPES[c.type.dtype]) for c in env.consts)
    return ConstsPlan(attribute, f"{env.name}Consts", tables)


NOT_DONE = "torch.zeros((*self.batch_size, 1), dtype=torch.bool, device=self.device)"
"""How `_fresh` tells the pure functions the batch shape and the device."""


def reset_call(interface: EnvInterface, **further: str) -> CallPlan:
    """The call of the reset function; `further` are values that `_fresh` has at hand, by argument."""
    return _call(interface.reset, {"not_done": NOT_DONE, **further}, interface.reset_draws)


def advance_call(interface: EnvInterface, **further: str) -> CallPlan:
    """The call of the step function; `further` are values that `_advance` has at hand, by argument."""
    return _call(interface.advance, {**_argument_texts(interface), **further}, interface.advance_draws)


def _call(call: Call | None, texts: Mapping[str, str], draws: Iterable[str] = ()) -> CallPlan:
    """A call of a pure function: records are read as they are called; what no text stands for is a draw, in order."""
    if call is None:
        raise AssertionError("the planner made no function for what the class has to call")
    drawn = iter(draws)
    args = (texts.get(a) or _record_text(a) or next(drawn) for a in call.args)
    return CallPlan(call.name, tuple(args))


def _record_text(argument: str) -> str | None:
    """How a method reads a record; None for other arguments."""
    return f"self.{argument.removeprefix(RECORD)}" if argument.startswith(RECORD) else None


def _argument_texts(interface: EnvInterface, record: str = "root") -> dict[str, str]:
    """How the hooks read each argument of a pure function."""
    texts = {name: f"{record}.{f.name}" for f in interface.root for name in (f.dotted, f"{ROOT}{f.name}")}
    texts |= _action_texts(e.key for e in interface.env.action)
    texts |= {
        name: f"next_.{f.name}" for f in interface.next for name in (f"next.{f.dotted}", f"{NEXT}{f.name}")
    }
    return texts


def _action_texts(keys: Iterable[Key]) -> dict[str, str]:
    """How `_advance` reads each action: they come in the order of the spec, where the keys of a group are together."""
    firsts: dict[Key, int] = {}
    keys = list(keys)
    for index, key in enumerate(keys):
        for end in range(1, len(key) + 1):
            firsts.setdefault(key[:end], index)
    order = sorted(keys, key=lambda key: [firsts[key[:end]] for end in range(1, len(key) + 1)])
    return {dotted(key): f"actions[{index}]" for index, key in enumerate(order)}


Value = str | CallPlan
Derived = tuple[list[tuple[str, CallPlan]], list[tuple[Key, Value]]]


def _root_entries(interface: EnvInterface) -> EntriesPlan:
    computed, observed = _observed(interface, "root")
    return _entries(computed, observed, interface.root, "root", [])


def _next_entries(interface: EnvInterface) -> EntriesPlan:
    """Every entry of `"next"`: rewards that the step did not compute are computed now."""
    computed, observed = _observed(interface, "next_")
    kept = {f.dotted for f in interface.next if f.visible}
    cold = tuple(o for o in interface.rewards if o.dotted not in kept)
    rewards: list[tuple[Key, Value]] = []
    if cold:
        more, rewards = _derived(interface, interface.reward, cold, "root", "rewards")
        computed = [*computed, *more]
    return _entries(computed, observed, interface.next, "next_", rewards)


def _observed(interface: EnvInterface, record: str) -> Derived:
    if not interface.observations:
        return [], []
    return _derived(interface, interface.observe, interface.observations, record, "observed")


def _derived(
    interface: EnvInterface, call: Call | None, outputs: tuple[Entry, ...], record: str, local: str
) -> Derived:
    """What a pure function computes of a record: the calls that come first, and entries."""
    plan = _call(call, _argument_texts(interface, record))
    if call is None or call.record is None:
        return [], [(outputs[0].key, plan)]
    return [(local, plan)], [(o.key, f"{local}.{o.name}") for o in outputs]


def _entries(
    computed: list[tuple[str, CallPlan]],
    observed: list[tuple[Key, Value]],
    fields: tuple[RecordField, ...],
    record: str,
    rewards: list[tuple[Key, Value]],
) -> EntriesPlan:
    """Entries in order: observations, the fields of the record, rewards."""
    apart = {key[0] for key, _ in observed}.isdisjoint(key[0] for key, _ in rewards)
    if apart and all(field.visible and field.key == (field.name,) for field in fields):
        whole = EntryPlan(None, f"{record}._asdict()")
        return EntriesPlan(tuple(computed), (*_nested(observed), whole, *_nested(rewards)))
    listed: list[tuple[Key, Value]] = [
        (field.key, f"{record}.{field.name}") for field in fields if field.visible
    ]
    return EntriesPlan(tuple(computed), _nested([*observed, *listed, *rewards]))


def _nested(entries: Iterable[tuple[Key, Value]]) -> tuple[EntryPlan, ...]:
    return _entry_plans(nested(entries))


def _entry_plans(tree: Mapping[str, Any]) -> tuple[EntryPlan, ...]:
    return tuple(
        EntryPlan(name, group=_entry_plans(value)) if isinstance(value, dict) else EntryPlan(name, value)
        for name, value in tree.items()
    )
