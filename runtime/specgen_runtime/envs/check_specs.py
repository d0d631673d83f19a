"""`check_env_specs`: compare what an environment gives in short rollouts with its specs."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase, is_non_tensor, is_tensor_collection

from specgen_runtime.envs.done import DoneSet, any_done, governing_set, rootmost_sets
from specgen_runtime.envs.keys import as_tuple, join_key, show_key
from specgen_runtime.envs.policy import shown
from specgen_runtime.envs.spec_leaves import Leaf, leaves_of
from specgen_runtime.specs import Composite
from specgen_runtime.specs.non_tensors.data import same_data
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase

__all__ = ["check_env_specs", "resets_itself"]

_STEPS = 3


def check_env_specs(
    env: EnvBase[Any],
    return_contiguous: bool | None = None,
    check_dtype: bool = True,
    seed: int | None = None,
    tensordict: TensorDictBase | None = None,
    break_when_any_done: bool | Literal["both"] | None = "both",
) -> None:
    """Compare short rollouts of an environment with its specs.

    Checks keys, shapes, dtypes, devices and domains of every step, the rules of done flags, that a partial reset
    keeps the rows outside its mask, that flags it declares are ever given, and that later steps and resets leave
    what earlier ones returned as it is. The environment is stepped and reset; torch's generator is left as it was.

    Args:
        env: the environment.
        return_contiguous: passed to `rollout`; True fails for sizes that differ from step to step.
        check_dtype: whether dtypes are compared.
        seed: seeds torch (temporarily) and the environment.
        tensordict: a copy is passed to each reset that begins episodes in all environments. (Those of what is done,
            in rollouts that go on, get masks alone.)
        break_when_any_done: which rollouts to try; "both" (or None) tries both.

    Raises:
        AssertionError: naming the key, what is expected and what was found.
    """
    with _torch_seed(seed, env.device):
        if seed is not None:
            env.set_seed(seed)
        if break_when_any_done == "both" or break_when_any_done is None:
            modes: tuple[bool, ...] = (True, False)
        else:
            modes = (break_when_any_done,)
        given = set(env.state_keys)  # need not be observed
        if tensordict is not None:
            given.update(tensordict.keys(True, True))
        _check_one_step(env, tensordict, check_dtype, given)
        _check_data_stay(env, tensordict)
        for stop in modes:
            with _as_assertion():
                start = _begin(env, tensordict)
                data = env.rollout(
                    _STEPS,
                    auto_reset=False,
                    tensordict=start,
                    break_when_any_done=stop,
                    return_contiguous=return_contiguous,
                )
            _check_rollout(env, data, check_dtype, given)
        _check_flags_are_given(env, tensordict)
        _check_partial_reset(env, tensordict)


def _begin(env: EnvBase[Any], tensordict: TensorDictBase | None) -> Any:
    """Begin episodes in all environments, from a copy of what the caller gave."""
    return env.reset(None if tensordict is None else tensordict.copy())


@contextlib.contextmanager
def _torch_seed(seed: int | None, device: torch.device | None) -> Iterator[None]:
    devices = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        if seed is not None:
            torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def _as_assertion() -> Iterator[None]:
    """Errors of the environment's own checks are failures of this check."""
    try:
        yield
    except (KeyError, RuntimeError) as error:
        raise AssertionError(str(error.args[0]) if error.args else str(error)) from error


def _check_one_step(
    env: EnvBase[Any],
    tensordict: TensorDictBase | None,
    check_dtype: bool,
    given: Collection[NestedKey],
) -> None:
    """Reset, step, and look at all three tensordicts before any are stacked."""
    with _as_assertion():
        start = _begin(env, tensordict)
    observed = (env.full_observation_spec, env.full_done_spec)
    _check_entries(start, observed, "result of reset", check_dtype, given)
    with _as_assertion():
        record, root = env.step_and_maybe_reset(env.rand_action(start))
    following = (env.full_observation_spec, env.full_reward_spec, env.full_done_spec)
    _check_next_is_fed_back(env, record.get("next"))
    _check_entries(record.get("next"), following, "'next'", check_dtype, env.state_keys)
    _check_entries(root.exclude(*env.action_keys), observed, "root after a step", check_dtype, given)


def _check_rollout(
    env: EnvBase[Any], data: TensorDictBase, check_dtype: bool, given: Collection[NestedKey]
) -> None:
    time = data.batch_dims - 1
    steps = data.unbind(time)
    names = data.names
    assert names[-1] == "time", f"the rollout's last dimension must be named 'time', found {names}"
    root = (env.full_observation_spec, env.full_state_spec, env.full_done_spec, env.full_action_spec)
    following = (env.full_observation_spec, env.full_reward_spec, env.full_done_spec)
    for t, step in enumerate(steps):
        _check_entries(step.exclude("next"), root, f"root, step {t}", check_dtype, given)
        ended = step.get("next")
        filled = resets_itself(env) and any_done(ended, env._done_sets)  # what was observed last is not known
        _check_entries(ended, following, f"'next', step {t}", check_dtype, env.state_keys, domains=not filled)
    if isinstance(data, LazyStackedTensorDict):
        return
    for s in env._done_sets:
        for where in ((), ("next",)):
            done = data.get((*where, *as_tuple(s.done)))
            flags = [s.terminated, *([] if s.truncated is None else [s.truncated]), *s.others]
            expected = reduce(torch.logical_or, (data.get((*where, *as_tuple(flag))) for flag in flags))
            if s.truncated is not None:
                rule = " | ".join(as_tuple(flag)[-1] for flag in flags)
                right = torch.equal(done, expected)
            else:
                rule = "True where terminated is"
                right = not bool((expected & ~done).any())
            assert right, f"key {show_key((*where, *as_tuple(s.done)))} must be {rule}"


def _check_entries(
    found: TensorDictBase,
    specs: tuple[Composite, ...],
    where: str,
    check_dtype: bool,
    ignored: Collection[NestedKey] = (),
    domains: bool = True,
) -> None:
    known = {join_key(as_tuple(key)) for spec in specs for key in spec.keys(True, True)}
    known.update(leaf.key for spec in specs for leaf in leaves_of(spec))
    for key in sorted(set(_keys_of(found)), key=show_key):
        assert key in known or key in ignored, f"key {show_key(key)} is in the {where} but in no spec"
    for spec in specs:
        for leaf in leaves_of(spec):
            for part, value in _found(leaf, found):
                assert value is not None, f"key {leaf} is in the specs but missing in the {where}"
                _check_value(value, part, f"key {leaf} in the {where}", check_dtype, domains)


def _keys_of(found: Any, path: tuple[str, ...] = ()) -> Iterator[NestedKey]:
    """The keys of all leaves, those that only some items of a lazy stack have included."""
    if isinstance(found, LazyStackedTensorDict):
        for item in found.tensordicts:
            yield from _keys_of(item, path)
        return
    for name, value in found.items():
        if is_tensor_collection(value) and not is_non_tensor(value):
            yield from _keys_of(value, (*path, name))
        else:
            yield join_key((*path, name))


def _check_value(value: Any, leaf: Leaf, where: str, check_dtype: bool, domains: bool) -> None:
    spec = leaf.spec
    if isinstance(value, torch.Tensor) and spec.dtype is not None and not value.is_nested:
        if value.dtype is not spec.dtype:
            assert not check_dtype, f"{where}: expected dtype {spec.dtype}, found {value.dtype}"
            value = value.to(spec.dtype)
        fits = value.ndim == spec.ndim and all(
            want in (-1, size) for want, size in zip(spec.shape, value.shape, strict=True)
        )
        assert fits, f"{where}: expected shape {list(spec.shape)}, found {list(value.shape)}"
        assert spec.device is None or value.device == spec.device, (
            f"{where}: expected device {spec.device}, found {value.device}"
        )
    assert not domains or spec.is_in(value), (
        f"{where}: the value is outside its spec {spec}; found {shown(value)}"
    )


def _check_next_is_fed_back(env: EnvBase[Any], following: TensorDictBase) -> None:
    """Steps must give the state, observed or not, or none would ever advance it."""
    for leaf in leaves_of(env.full_state_spec):
        assert leaf.find(following) is not None, (
            f"key {leaf} is in the state spec but not in 'next': the state would never advance"
        )


def _check_data_stay(env: EnvBase[Any], tensordict: TensorDictBase | None) -> None:
    """Later steps and resets must not write into what earlier ones returned."""
    rooted = ("full_observation_spec", "full_done_spec", "full_state_spec")
    ended = ("full_observation_spec", "full_done_spec", "full_reward_spec")
    seen: list[tuple[str, Leaf, Any, Any]] = []

    def keep(data: TensorDictBase, groups: tuple[str, ...], where: str) -> None:
        for leaf in [leaf for name in groups for leaf in leaves_of(getattr(env, name))]:
            for _, value in _found(leaf, data):
                if value is not None:  # a state that nobody gives is found elsewhere
                    seen.append((where, leaf, value, value.clone()))

    root: Any = None
    with _as_assertion():
        for t in range(2 * _STEPS):
            root = root if t % _STEPS else _begin(env, tensordict)
            keep(root, rooted, f"the root of step {t}")
            record, root = env.step_and_maybe_reset(env.rand_action(root))
            keep(record.get("next"), ended, f"'next' of step {t}")
    for where, leaf, value, before in seen:
        assert same_data(value, before), (
            f"key {leaf}: {where} changed in later steps or resets; _reset and _step must return new tensors, or"
            " clones of those that change"
        )


def _check_flags_are_given(env: EnvBase[Any], tensordict: TensorDictBase | None) -> None:
    """An environment that declares how it ends, and never says whether it has, would go on forever."""
    if env._env_layout.done.is_default:
        return
    with _as_assertion():
        given = env._step(env.rand_action(_begin(env, tensordict)))
    flags = env.done_keys
    assert any(given.get(key, None) is not None for key in flags), (
        f"_step gives none of the done flags {', '.join(map(show_key, flags))} that the done spec declares:"
        " the environment would never end. Declare none if it never does"
    )


def _check_partial_reset(env: EnvBase[Any], tensordict: TensorDictBase | None) -> None:
    """Reset one environment of several: all others must keep what they have."""
    n = len(env.batch_size)
    if env.batch_size.numel() < 2 or resets_itself(env):
        return
    with _as_assertion():
        root = _begin(env, tensordict)
        begun = root.clone()
        for _ in range(_STEPS):
            _, root = env.step_and_maybe_reset(env.rand_action(root))
    roots = rootmost_sets(env._done_sets)
    kept = torch.ones(env.batch_size, dtype=torch.bool, device=env.device)
    kept[(0,) * n] = False
    for s in roots:
        mask = ~kept.reshape(*kept.shape, *(1,) * len(s.shape)).expand(*kept.shape, *s.shape)
        root.set(s.reset, mask)
    before = root.clone()
    leaves = leaves_of(env.full_observation_spec)
    with _as_assertion():
        if not env.state_keys:
            raw = env._reset(before.clone())
            own = {as_tuple(key) for key in env._kept_at_reset}
            told = [leaf for leaf in leaves if leaf.spec.dtype is not None and as_tuple(leaf.key) in own]
            changed = _changed(raw, before, kept, told, roots)
            # What has not changed since the episodes began may be what a reset of all would give, too.
            held = [leaf for leaf in _changed(before, begun, kept, told, roots) if leaf not in changed]
            assert not changed or held, (
                f"key {changed[0]}: _reset ignores its '_reset' mask. The environment has no state spec, so it"
                " keeps its state itself and must leave the rows outside the mask alone"
            )
        after = env.reset(root)
    leaves += leaves_of(env.full_done_spec)
    for leaf in _changed(after, before, kept, leaves, roots):
        raise AssertionError(f"key {leaf}: a partial reset changed rows outside its '_reset' mask")


def resets_itself(env: EnvBase[Any]) -> bool:
    """Whether an environment, or one that it wraps, cannot be told to reset a row."""
    inner: Any = None if env._resets_itself else getattr(env, "base_env", None)
    return env._resets_itself or (hasattr(inner, "_resets_itself") and resets_itself(inner))


def _found(leaf: Leaf, data: TensorDictBase) -> list[tuple[Leaf, Any]]:
    """A leaf with its value, or for each row of a lazy stack whose rows differ in size."""
    try:
        return [(leaf, leaf.find(data))]
    except RuntimeError:
        places = list(product(*map(range, data.batch_size)))
        return [(replace(leaf, spec=leaf.spec[place]), leaf.find(data[place])) for place in places]


def _changed(
    after: TensorDictBase,
    before: TensorDictBase,
    kept: torch.Tensor,
    leaves: Iterable[Leaf],
    roots: Sequence[DoneSet],
) -> list[Leaf]:
    """The leaves under a done set that differ in a row that is kept."""
    changed = []
    for leaf in leaves:
        if governing_set(leaf.key, roots) is None:
            continue
        try:
            value, old = leaf.find(after), leaf.find(before)
        except RuntimeError:  # rows of a lazy stack whose sizes differ are found one by one
            places = map(tuple, kept.nonzero().tolist())
            if not all(same_data(leaf.find(after[place]), leaf.find(before[place])) for place in places):
                changed.append(leaf)
            continue
        if value is None or old is None:
            continue
        rows = leaf.rows(kept)
        if isinstance(value, torch.Tensor) and not value.is_nested:
            same = value.shape == old.shape and torch.equal(value[rows], old[rows])
        else:
            same = all(
                same_data(value[place], old[place]) for place in map(tuple, rows.nonzero().tolist()) if place
            )
        if not same:
            changed.append(leaf)
    return changed
