"""The plan of the thin class around an environment's pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from specgen.check.model import CheckedEnv, Entry, dotted
from specgen.code import Code, named
from specgen.expr.symbols import Key, in_spec_order
from specgen.plan.docs import env_doc, init_doc
from specgen.plan.envs.model import (
    ConstsPlan,
    EntriesPlan,
    EntryPlan,
    EnvironmentPlan,
    PicturePlan,
    TablePlan,
)
from specgen.plan.interface import Call, EnvInterface, Passed, RecordField, called_by_chains
from specgen.plan.model import CallPlan, Text
from specgen.plan.per_env import param_plan
from specgen.plan.short_texts import TORCH_DTYPES, draw_text
from specgen.plan.spec_groups import specs_plan
from specgen.plan.spec_text import nested


def environment_plan(
    interface: EnvInterface,
    template: str,
    fresh: CallPlan | None,
    advance: CallPlan | None,
    doc: tuple[str, ...] = (),
    env: EnvInterface | None = None,
) -> EnvironmentPlan:
    """The class of an environment, or of a chain around one.

    Args:
        interface: of the environment or chain.
        template: which template prints it.
        fresh: what `_fresh` returns, if it is printed.
        advance: what `_advance` returns, if it is printed.
        doc: further lines of the documentation.
        env: the environment that a chain is around: parameters and constants are its own.
    """
    own = env or interface
    plain = all(field.key == (field.name,) for field in interface.root)
    holders = [("consts", interface)] + ([("env_consts", env)] if env is not None else [])
    return EnvironmentPlan(
        template=template,
        name=interface.name,
        doc=env_doc(interface, *doc),
        init_doc=init_doc(interface),
        params_record=named(f"{interface.name if interface.own_params else own.name}Params")
        if interface.params
        else None,
        env_params=named(f"{own.name}Params") if interface.own_params and own.params else None,
        params=tuple(map(param_plan, interface.params)),
        consts=tuple(
            consts_plan(attribute, holder.env) for attribute, holder in holders if holder.env.consts
        ),
        groups={group.name: list(group.agents) for group in own.env.groups},
        masks=tuple((tuple(a.split(".")), tuple(m.split("."))) for a, m in interface.env.masks.items()),
        columns=_columns(interface),
        written=interface.written,
        specs=specs_plan(interface),
        root=f"{interface.name}Root",
        next=f"{interface.name}Next",
        fields=None if plain else tuple(field.key for field in interface.root),
        constants=_constants(own, interface, in_chain=env is not None),
        fresh=fresh,
        advance=advance,
        root_entries=_root_entries(interface),
        next_entries=_next_entries(interface),
        picture=_picture(own, interface),
    )


def _columns(interface: EnvInterface) -> tuple[Key, ...]:
    """The observations with a trailing 1 that is no dimension of theirs."""
    keys = [field.key for field in interface.root if field.visible and not field.flag and field.type.col]
    keys += [one.key for one in interface.observations if one.type.col]
    return tuple(dict.fromkeys(keys))


def _constants(own: EnvInterface, interface: EnvInterface, *, in_chain: bool) -> tuple[Code, CallPlan] | None:
    """The record of what is computed of constant tables alone, and the call that makes it."""
    if own.constants is None:
        return None
    call = called_by_chains(own.constants, params=interface.own_params) if in_chain else own.constants
    return named(f"{own.name}Constants"), _call(call, own)


def consts_plan(attribute: str, env: CheckedEnv) -> ConstsPlan:
    """The constant tables of an environment or chain."""
    tables = tuple(TablePlan(c.name, c.value, TORCH_DTYPES[c.type.dtype]) for c in env.consts)
    return ConstsPlan(attribute, named(f"{env.name}Consts"), tables)


NOT_DONE = "torch.zeros((*self.batch_size, 1), dtype=torch.bool, device=self.device)"
"""How `_fresh` tells the pure functions the batch shape and the device."""


def reset_call(interface: EnvInterface, witness: str = NOT_DONE) -> CallPlan:
    """The call of the reset function; `witness` tells it the batch shape and the device."""
    return _call(interface.reset, interface, witness=witness)


def advance_call(interface: EnvInterface) -> CallPlan:
    """The call of the step function."""
    return _call(interface.advance, interface)


def inverse_call(interface: EnvInterface) -> CallPlan | None:
    """The call of the function that says what Gymnasium is given; None where that is what the policy wrote."""
    return None if interface.inverse is None else _call(interface.inverse, interface)


def _call(
    call: Call | None, interface: EnvInterface, record: str = "root", witness: str = NOT_DONE
) -> CallPlan:
    """A call of a pure function by a method that has `record` at hand, and behind a step `next_`."""
    if call is None:
        raise AssertionError("the planner made no function for what the class has to call")
    now = {field.dotted: f"{record}.{field.name}" for field in interface.root}
    later = {field.dotted: f"next_.{field.name}" for field in interface.next}
    actions = _action_texts(entry.key for entry in interface.env.action)
    written = {dotted(key): f"actions[{i}]" for i, key in enumerate(interface.written, len(actions))}

    def text(passed: Passed) -> Text:
        match passed.kind:
            case "record":
                return f"self.{passed.name}"
            case "root":
                return f"{record}.{passed.name}"
            case "next":
                return f"next_.{passed.name}"
            case "now":
                return now.get(passed.name) or actions[passed.name]
            case "written":
                return written[passed.name]
            case "later":
                return later[passed.name]
            case "local":
                return passed.name
            case "witness":
                return witness
            case "draw":
                assert passed.draw is not None
                return draw_text(passed.draw)

    return CallPlan(call.name, tuple(map(text, call.args)))


def _action_texts(keys: Iterable[Key]) -> dict[str, str]:
    """How `_advance` reads each action: they come in the order of the spec, where the keys of a group are together."""
    return {dotted(key): f"actions[{index}]" for index, key in enumerate(in_spec_order(keys))}


def _picture(own: EnvInterface, interface: EnvInterface) -> PicturePlan | None:
    """What draws a state of the environment `own`, which is in the records of `interface`."""
    if own.picture is None:
        return None
    call = own.picture.numbers
    if call is not None and own is not interface:
        call = called_by_chains(call, params=interface.own_params)
    numbers = None if call is None else _call(call, interface)
    return PicturePlan(named(own.picture.function), numbers, own.picture.render.fps)


Value = Text | CallPlan
Derived = tuple[list[tuple[str, CallPlan]], list[tuple[Key, Value]]]


def _root_entries(interface: EnvInterface) -> EntriesPlan | None:
    plan = _entries(*_observed(interface, "root"), interface.root, "root", [])
    return None if plan == EntriesPlan((), (_fields_of("root"),)) else plan


def _next_entries(interface: EnvInterface) -> EntriesPlan | None:
    """Every entry of `"next"`: rewards that the step did not compute are computed now."""
    computed, observed = _observed(interface, "next_")
    kept = {f.dotted for f in interface.next if f.visible}
    cold = tuple(o for o in interface.rewards if o.dotted not in kept)
    rewards: list[tuple[Key, Value]] = []
    if cold:
        more, rewards = _derived(interface, interface.reward, cold, "root", "rewards")
        computed = [*computed, *more]
    plan = _entries(computed, observed, interface.next, "next_", rewards)
    as_of_root = _entries(*_observed(interface, "next_"), interface.root, "next_", [])
    if plan == as_of_root:
        return None
    further = plan.entries[len(as_of_root.entries) :]
    if observed and interface.next == interface.root and plan.entries == (*as_of_root.entries, *further):
        calls = plan.computed[len(as_of_root.computed) :]
        return EntriesPlan(calls, (EntryPlan(None, "self._root_entries(next_)"), *further))
    return plan


def _observed(interface: EnvInterface, record: str) -> Derived:
    if not interface.observations:
        return [], []
    return _derived(interface, interface.observe, interface.observations, record, "observed")


def _derived(
    interface: EnvInterface, call: Call | None, outputs: tuple[Entry, ...], record: str, local: str
) -> Derived:
    """What a pure function computes of a record: the calls that come first, and entries."""
    plan = _call(call, interface, record)
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
        return EntriesPlan(tuple(computed), (*_nested(observed), _fields_of(record), *_nested(rewards)))
    listed: list[tuple[Key, Value]] = [
        (field.key, f"{record}.{field.name}") for field in fields if field.visible
    ]
    return EntriesPlan(tuple(computed), _nested([*observed, *listed, *rewards]))


def _fields_of(record: str) -> EntryPlan:
    """All fields of a record."""
    return EntryPlan(None, f"{record}._asdict()")


def _nested(entries: Iterable[tuple[Key, Value]]) -> tuple[EntryPlan, ...]:
    return _entry_plans(nested(entries))


def _entry_plans(tree: Mapping[str, Any]) -> tuple[EntryPlan, ...]:
    return tuple(
        EntryPlan(name, group=_entry_plans(value)) if isinstance(value, dict) else EntryPlan(name, value)
        for name, value in tree.items()
    )
