"""The thin class around an environment's pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from specgen.check.model import CheckedEnv, Key, dotted
from specgen.literals import literal
from specgen.plan.docs import env_doc, init_doc
from specgen.plan.interface import Call, EnvInterface, Output
from specgen.plan.model import Argument, ClassPlan, FunctionPlan, Line
from specgen.plan.per_env import read_text
from specgen.plan.spec_groups import spec_groups
from specgen.plan.spec_text import (
    composite_text,
    key_text,
    nested_dict_text,
    number_text,
)
from specgen.plan.writer import TORCH_DTYPES


def env_class(interface: EnvInterface) -> ClassPlan:
    """The `GeneratedEnv` subclass of a native environment."""
    name = interface.name
    attributes = []
    if interface.params:
        attributes.append(f"params: {name}Params")
    if interface.env.consts:
        attributes.append(f"consts: {name}Consts")
    attributes += [*group_attribute(interface.env), *mask_attribute(interface.env)]
    return ClassPlan(
        name,
        (f"GeneratedEnv[{literal(f'{name}Data')}, {literal(f'{name}Specs')}]",),
        env_doc(interface),
        tuple(attributes),
        (
            init_method(interface, name),
            *build_method(interface),
            specs_method(interface),
            read_method(interface),
            _fresh(interface),
            _advance(interface),
            entries_method(interface, "_root_entries"),
            entries_method(interface, "_next_entries"),
        ),
    )


_FIXED = {
    "dynamics": "self.dynamics",
    "params": "self.params",
    "consts": "self.consts",
    "env_consts": "self.env_consts",
}
"""How a method reads the records that every pure function may take, and the object behind a Python environment."""

NOT_DONE = "torch.zeros((*self.batch_size, 1), dtype=torch.bool, device=self.device)"
"""How `_fresh` tells the pure functions the batch shape and the device."""


def method(name: str, args: tuple[Argument, ...], returns: str, doc: str, *lines: str) -> FunctionPlan:
    """A method of plain lines."""
    return FunctionPlan(name, args, returns, (doc,) if doc else (), tuple(map(Line, lines)), method=True)


def mask_attribute(env: CheckedEnv) -> list[str]:
    """Which observation masks which action."""
    pairs = [
        f"({key_text(tuple(action.split('.')))}, {key_text(tuple(mask.split('.')))}),"
        for action, mask in env.masks.items()
    ]
    return [f"_action_masks = ({' '.join(pairs)})"] if pairs else []


def group_attribute(env: CheckedEnv) -> list[str]:
    """The agents of each group."""
    if not env.groups:
        return []
    groups = {group.name: list(group.agents) for group in env.groups}
    return [f"group_map: ClassVar[dict[str, list[str]]] = {literal(groups)}"]


def init_method(interface: EnvInterface, params_of: str) -> FunctionPlan:
    """The constructor: reads the parameters, of their types and in their ranges, into the record of `params_of`."""
    params = interface.params
    lines = ["super().__init__(batch_size=batch_size, device=device)"]
    if params:
        lines.append(
            f"self.params = {params_of}Params({', '.join(f'{p.name}={read_text(p)}' for p in params)})"
        )
    lines.append("self._build()")
    keywords = (
        *(Argument(p.name, p.annotation, literal(p.default)) for p in params),
        Argument("batch_size", "Sequence[int]", "()"),
        Argument("device", "DEVICE_TYPING | None", "None"),
    )
    return FunctionPlan(
        "__init__", (), "None", init_doc(interface), tuple(map(Line, lines)), keywords, method=True
    )


def build_method(interface: EnvInterface, env: EnvInterface | None = None) -> list[FunctionPlan]:
    """`_build` with the constant tables, made anew for each device; a chain keeps its environment's too."""
    lines = []
    for attribute, owner in (("consts", interface), ("env_consts", env)):
        if owner is None or not owner.env.consts:
            continue
        values = ", ".join(
            f"{c.name}=torch.tensor({number_text(c.value)}, dtype={TORCH_DTYPES[c.type.dtype]}, device=self.device)"
            for c in owner.env.consts
        )
        lines.append(f"self.{attribute} = {owner.name}Consts({values})")
    return [method("_build", (), "None", "", *lines, "super()._build()")] if lines else []


def specs_method(interface: EnvInterface) -> FunctionPlan:
    """`_specs`: the spec objects, without batch dimensions."""
    agents = {group.name: group.size for group in interface.env.groups}
    text = ", ".join(
        f"{role}={composite_text(entries.items(), agents=agents)}"
        for role, entries in spec_groups(interface).items()
    )
    return method("_specs", (), "EnvSpecs", "", "device = self.device", f"return EnvSpecs({text})")


def read_method(interface: EnvInterface) -> FunctionPlan:
    """`_read`: the record behind a tensordict."""
    fields = ", ".join(f"{f.name}=tensordict.get({key_text(f.key)})" for f in interface.root)
    return method(
        "_read",
        (Argument("tensordict", "Entries"),),
        f"{interface.name}Root",
        "",
        f"return {interface.name}Root({fields})",
    )


def _fresh(interface: EnvInterface) -> FunctionPlan:
    return method("_fresh", (), f"{interface.name}Root", "", f"return {reset_text(interface, {})}")


def _advance(interface: EnvInterface) -> FunctionPlan:
    return advance_method(interface, f"return {advance_text(interface, {})}")


def advance_method(interface: EnvInterface, *lines: str) -> FunctionPlan:
    """`_advance`, of the given lines."""
    args = (Argument("root", f"{interface.name}Root"), Argument("actions", "tuple[Tensor, ...]"))
    return method("_advance", args, f"{interface.name}Next", "", *lines)


def reset_text(interface: EnvInterface, further: Mapping[str, str]) -> str:
    """The call of the reset function; `further` are values that `_fresh` has at hand, by argument."""
    return _call_text(interface.reset, {**_FIXED, "not_done": NOT_DONE, **further}, interface.reset_draws)


def advance_text(interface: EnvInterface, further: Mapping[str, str]) -> str:
    """The call of the step function; `further` are values that `_advance` has at hand, by argument."""
    return _call_text(interface.advance, {**argument_texts(interface), **further}, interface.advance_draws)


def _call_text(call: Call | None, texts: Mapping[str, str], draws: Iterable[str]) -> str:
    """A call of a pure function: what no text stands for is a draw, in order."""
    call = _required(call)
    drawn = iter(draws)
    return f"{call.name}({', '.join(texts[a] if a in texts else next(drawn) for a in call.args)})"


def unpacked(names: Sequence[str]) -> str:
    """The target of what Gymnasium returns: one observation, or one for each key of a Dict space."""
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def argument_texts(interface: EnvInterface, record: str = "root") -> dict[str, str]:
    """How the hooks read each argument of a pure function."""
    texts = dict(_FIXED)
    texts |= {name: f"{record}.{f.name}" for f in interface.root for name in (f.dotted, f"root.{f.name}")}
    texts |= action_texts(e.key for e in interface.env.action)
    texts |= {
        name: f"next_.{f.name}" for f in interface.next for name in (f"next.{f.dotted}", f"next.{f.name}")
    }
    return texts


def action_texts(keys: Iterable[Key]) -> dict[str, str]:
    """How `_advance` reads each action: they come in the order of the spec, where the keys of a group are together."""
    firsts: dict[Key, int] = {}
    keys = list(keys)
    for index, key in enumerate(keys):
        for end in range(1, len(key) + 1):
            firsts.setdefault(key[:end], index)
    order = sorted(keys, key=lambda key: [firsts[key[:end]] for end in range(1, len(key) + 1)])
    return {dotted(key): f"actions[{index}]" for index, key in enumerate(order)}


def entries_method(interface: EnvInterface, name: str) -> FunctionPlan:
    """`_root_entries` or `_next_entries`: every entry of the tensordict, derived ones computed."""
    after = name == "_next_entries"
    record = "next_" if after else "root"
    lines: list[str] = []
    entries: list[tuple[Key, str]] = []
    if interface.observations:
        entries += _derived(interface, interface.observe, interface.observations, record, "observed", lines)
    entries += [(f.key, f"{record}.{f.name}") for f in interface.root if f.visible]
    if after:
        kept = {f.dotted for f in interface.next if f.visible}
        cold = tuple(o for o in interface.rewards if o.dotted not in kept)
        if cold:
            entries += _derived(interface, interface.reward, cold, "root", "rewards", lines)
        entries += [(o.key, f"next_.{o.name}") for o in interface.rewards if o.dotted in kept]
    root = Argument("root", f"{interface.name}Root")
    args = (root, Argument("actions", "tuple[Tensor, ...]"), Argument("next_", f"{interface.name}Next"))
    return method(
        name, args if after else (root,), "dict[str, Any]", "", *lines, f"return {nested_dict_text(entries)}"
    )


def _derived(
    interface: EnvInterface,
    call: Call | None,
    outputs: tuple[Output, ...],
    record: str,
    local: str,
    lines: list[str],
) -> list[tuple[Key, str]]:
    call = _required(call)
    texts: Mapping[str, str] = argument_texts(interface, record)
    text = f"{call.name}({', '.join(texts[a] for a in call.args)})"
    if call.record is None:
        return [(outputs[0].key, text)]
    lines.append(f"{local} = {text}")
    return [(o.key, f"{local}.{o.name}") for o in outputs]


def _required(call: Call | None) -> Call:
    if call is None:
        raise AssertionError("the planner made no function for what the class has to call")
    return call
