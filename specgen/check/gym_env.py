"""Gymnasium-backed environments: their specs come from the committed record of their spaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from specgen.check.model import Checked, CheckedEnv, Entry, Role, dotted, reward_entry
from specgen.check.names import key_refusal, reserved_in_env, shortened
from specgen.check.sources import GymnasiumSource
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import gymnasium as gym_rules
from specgen.diagnostics.rules import schema as rules
from specgen.expr import SpecType
from specgen.expr.dtypes import CONCRETE, FLOAT_RANGES, INT_RANGES
from specgen.expr.symbols import Key
from specgen.schema.env import Env
from specgen.schema.load import SchemaFile, find
from specgen.settings import identifier_fault
from specgen.source import report_slips
from specgen.source.spaces import Record, Space, Spaces, record_key

_NATIVE_ONLY = (
    "groups",
    "reward",
    "done",
    "state",
    "params",
    "consts",
    "functions",
    "reset",
    "step",
    "observe",
    "render",
    "masks",
    "python",
    "dims",
)
_RECORDED = ("action", "observation")
_RESERVED_KEYWORDS = ("device", "id", "self")
"""Keywords of the generated class and of `gymnasium.make`."""

_OWN = dict.fromkeys(("action", "reward"), "each environment has one")
"""The keys that every environment has which Gymnasium steps, besides the done flags."""


def check_gym_env(
    file: SchemaFile, name: str, module: str, records: Mapping[str, Record], sink: Sink
) -> Checked[CheckedEnv] | None:
    """Check an environment with a `gymnasium:` field against its record."""
    env = file.module.envs[name]
    path = ("envs", name)
    if env.gymnasium is None:
        return None
    for field in (*_NATIVE_ONLY, *_RECORDED):
        if getattr(env, field):
            sink.add(
                rules.WRONG_TARGET.at(
                    file.key_span(*path, field),
                    f"`{field}` has no place in a Gymnasium-backed environment",
                    help="Gymnasium says it; leave it out",
                )
            )
    kwargs = find(file.root, (*path, "gymnasium", "kwargs"))
    if kwargs is not None and report_slips(kwargs, sink):
        return None
    unusable = False
    for given in env.gymnasium.kwargs:
        if reason := "every environment has it" if given in _RESERVED_KEYWORDS else identifier_fault(given):
            span = file.key_span(*path, "gymnasium", "kwargs", given)
            message = f"`{shortened(given)}` can't be a keyword: {reason}"
            sink.add(rules.NAME_REFUSED.at(span, message, help="write a keyword that the environment takes"))
            unusable = True
    if unusable:
        return None
    record = records.get(record_key(env.gymnasium.id, env.gymnasium.kwargs))
    if record is None:
        sink.add(
            gym_rules.NOT_RECORDED.at(
                file.span(*path, "gymnasium", "id"),
                f"`{env.gymnasium.id}` is not recorded",
                help=suggestion(env.gymnasium.id, {key.split(" ", 1)[0] for key in records})
                or "run `specgen build` where Gymnasium is installed, and commit the lock file",
            )
        )
        return None
    observed, acted = dict(_leaves(record.observation)), dict(_leaves(record.action, ("action",)))
    if isinstance(record.observation, Space):
        observed = {("observation",): record.observation}
    _check_keys(file, path, observed, acted, env.gymnasium.id, sink)
    observation = [
        _entry(file, path, key, "observation", space, env, sink) for key, space in observed.items()
    ]
    action = [_entry(file, path, key, "action", space, env, sink) for key, space in acted.items()]
    if sink.has_errors or None in action or None in observation:
        return None
    return Checked(
        CheckedEnv(
            name=name,
            module=module,
            doc=" ".join(env.doc.split()) or f"Gymnasium's `{env.gymnasium.id}`.",
            action=tuple(entry for entry in action if entry is not None),
            observation=tuple(entry for entry in observation if entry is not None),
            reward=(reward_entry(("reward",)),),
            done_dims={(): ()},
            gymnasium=GymnasiumSource(
                env.gymnasium.id,
                record.module,
                dict(env.gymnasium.kwargs),
                env.gymnasium.categorical_action_encoding,
                record.max_episode_steps,
            ),
        )
    )


def _leaves(spaces: Space | Spaces, group: Key = ()) -> Iterator[tuple[Key, Space]]:
    if isinstance(spaces, Space):
        yield group, spaces
        return
    for name, space in spaces.items():
        yield from _leaves(space, (*group, name))


_RENAMED = {
    role: f"register it below a `gymnasium.{wrapper}` that calls it otherwise, and name that id"
    for role, wrapper in (("observation", "ObservationWrapper"), ("action", "ActionWrapper"))
}
"""What to do about a key that can't be a name: specs have the keys of the space."""


def _check_keys(
    file: SchemaFile,
    path: tuple[str, ...],
    observed: Iterable[Key],
    acted: Iterable[Key],
    id: str,
    sink: Sink,
) -> None:
    """The keys of Dict spaces become names of generated code, beside those that each environment has."""
    span = file.span(*path, "gymnasium", "id")
    words = {**_OWN, **reserved_in_env(path[-1], ())}
    written: dict[str, Key] = {}
    keys = [*(("observation", key, 0) for key in observed), *(("action", key, 1) for key in acted)]
    for role, key, own in keys:
        shown = f"the {role} key `{dotted(key)}` of `{id}`"
        refused = next((why for part in key[own:] if (why := key_refusal(part, foreign=True))), None)
        taken = None if own else words.get(key[0]) or words.get("_".join(key))
        if reason := refused or taken:
            sink.add(
                gym_rules.UNUSABLE_KEY.at(span, f"{shown} can't be a name: {reason}", help=_RENAMED[role])
            )
        elif (other := written.setdefault("_".join(key), key)) != key:
            message = f"{shown} and `{dotted(other)}` are the same name in Python"
            sink.add(gym_rules.UNUSABLE_KEY.at(span, message, help=_RENAMED[role]))


def _entry(
    file: SchemaFile, path: tuple[str, ...], key: Key, role: Role, space: Space, env: Env, sink: Sink
) -> Entry | None:
    categorical = env.gymnasium is not None and env.gymnasium.categorical_action_encoding
    spec = _spec(space, one_hot=role == "action" and not categorical)
    if spec is None or spec.dtype not in CONCRETE:
        part = "" if key == (role,) else f" `{dotted(key)}`"
        sink.add(
            gym_rules.UNSUPPORTED_SPACE.at(
                file.span(*path, "gymnasium", "id"),
                f"the {role} space{part} of `{env.gymnasium.id if env.gymnasium else ''}` is a {space.kind} of "
                f"{space.dtype}, which specs can't say yet",
            )
        )
        return None
    return Entry(key, role, spec, spec.type())


def _spec(space: Space, *, one_hot: bool) -> SpecType | None:
    """The spec of a space, as the runtime's `space_to_spec` has it; None where nothing declares it.

    A box is unbounded where every element is. Classes are counted from 0, wherever the space starts: the runtime
    shifts the values.
    """
    match space.kind:
        case "box" if space.dtype != "bool":
            if _everything(space):
                return SpecType("unbounded", space.dtype, space.shape)
            return SpecType(
                "bounded", space.dtype, space.shape, low=_number(space.low), high=_number(space.high)
            )
        case "discrete":
            return _classes(space.n or 0, (), space, one_hot)
        case "multi_binary":
            return SpecType("binary", "int8", space.shape)
        case "multi_discrete" if space.nvec and len(set(space.nvec)) == 1:
            return _classes(space.nvec[0], space.shape, space, one_hot)
        case "multi_discrete" if space.nvec and len(space.shape) == 1:
            if one_hot:
                return SpecType("multi_onehot", "int64", (), nvec=space.nvec)
            return SpecType("multi_categorical", space.dtype, (), nvec=space.nvec)
        case _:
            return None


def _classes(n: int, shape: tuple[int, ...], space: Space, one_hot: bool) -> SpecType:
    if one_hot:
        return SpecType("onehot", "int64", shape, n=n)
    return SpecType("categorical", space.dtype, shape, n=n)


def _everything(space: Space) -> bool:
    lows, highs = _flat(space.low), _flat(space.high)
    if space.dtype in FLOAT_RANGES:
        largest = FLOAT_RANGES[space.dtype]
        return all(low <= -largest for low in lows) and all(high >= largest for high in highs)
    low, high = INT_RANGES.get(space.dtype, (0, 1))
    return set(lows) <= {low} and set(highs) <= {high}


def _number(bound: Any) -> Any:
    """Nested tuples, so that specs can be compared and hashed; one number where all elements agree."""
    values = set(_flat(bound))
    if len(values) == 1:
        return values.pop()
    return _nested(bound)


def _nested(bound: Any) -> Any:
    return tuple(_nested(item) for item in bound) if isinstance(bound, (list, tuple)) else bound


def _flat(bound: Any) -> list[float]:
    if isinstance(bound, (list, tuple)):
        return [value for item in bound for value in _flat(item)]
    return [] if bound is None else [bound]
