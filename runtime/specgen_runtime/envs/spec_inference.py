"""Specs from data, and data from specs: `auto_specs_`, `add_truncated_keys` and `fake_tensordict` of environments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict, TensorDictBase

from specgen_runtime.envs.done import FLAGS
from specgen_runtime.envs.keys import as_tuple, join_key, key_list, leaf_name, show_key
from specgen_runtime.envs.spec_groups import flag_spec
from specgen_runtime.specs import Composite, NonTensor, TensorSpec, Unbounded
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.layout import Layout

__all__ = ["infer_specs", "with_truncated", "zero_transition"]


def infer_specs(
    env: Any,
    policy: Callable[..., Any],
    tensordict: Any,
    action_key: NestedKey | list[NestedKey],
    done_key: NestedKey | list[NestedKey] | None,
    observation_key: NestedKey | list[NestedKey],
    reward_key: NestedKey | list[NestedKey],
) -> None:
    """Set all specs of an environment from two steps; see `EnvBase.auto_specs_`."""
    rewards, observations = key_list(reward_key), key_list(observation_key)
    roots, nexts = _two_steps(env, policy, tensordict, rewards)
    given = {join_key(as_tuple(key)) for key in nexts[0].keys(True, True)}
    dones = [key for key in given if leaf_name(key) in FLAGS] if done_key is None else key_list(done_key)
    unknown = given - set(rewards) - set(observations) - set(dones)
    if unknown:
        names = ", ".join(sorted(map(show_key, unknown)))
        raise RuntimeError(f"auto_specs_: _step gives {names}, which no argument says the meaning of")
    # Only what comes back from a step can be what the next one reads; a policy may write more than actions.
    state = [key for key in observations if all(root.get(key, None) is not None for root in roots)]
    batch = roots[0].batch_size
    drop = 0 if env.batch_locked or batch == env.batch_size else len(batch)
    found = {
        "full_action_spec": _specs(roots, key_list(action_key)),
        "full_done_spec": {
            key: flag_spec(spec.shape, env.device) for key, spec in _specs(nexts, dones).items()
        },
        "full_reward_spec": _specs(nexts, rewards),
        "full_observation_spec": _specs([*roots, *nexts], observations),
        "full_state_spec": _specs(roots, state),
    }
    env.full_state_spec = None
    for name, specs in found.items():
        if specs:
            composite = Composite(specs, shape=batch)
            setattr(env, name, composite[(0,) * drop] if drop else composite)


def _two_steps(
    env: Any, policy: Callable[..., Any], tensordict: Any, rewards: Sequence[NestedKey]
) -> tuple[list[TensorDictBase], list[TensorDictBase]]:
    root = env._reset(None) if tensordict is None else tensordict.copy()
    roots, nexts = [], []
    for _ in range(2):
        acted = policy(root)
        if acted is not root:
            root = root.update(acted)
        following = env._step(root.copy())
        roots.append(root)
        nexts.append(following)
        root = following.exclude(*rewards)
    return roots, nexts


def _specs(sources: Sequence[TensorDictBase], keys: Sequence[NestedKey]) -> dict[NestedKey, TensorSpec]:
    """A spec for each key that all sources have; dimensions that differ among them are variable."""
    found: dict[NestedKey, TensorSpec] = {}
    for key in keys:
        values = [source.get(key, None) for source in sources]
        first = values[0]
        if any(value is None for value in values):
            continue
        if not isinstance(first, torch.Tensor):
            found[key] = NonTensor(shape=sources[0].batch_size, example_data=sources[0][key])
            continue
        shapes = [value.shape for value in values]
        shape = [sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*shapes, strict=True)]
        found[key] = Unbounded(torch.Size(shape), dtype=first.dtype, device=first.device)
    return found


def with_truncated(layout: Layout) -> Composite:
    """A done spec with `truncated` in every done set."""
    spec = layout.done.spec.clone()
    for s in layout.done_sets:
        if s.truncated is None:
            spec.set((*s.prefix, "truncated"), spec[as_tuple(s.done)].clone())
    return spec


def zero_transition(layout: Layout) -> Any:
    """One transition of zeros, with the keys, shapes, dtypes and device of the specs."""
    root = TensorDict({}, batch_size=layout.batch_size, device=layout.device)
    following = root.empty()
    for group in (layout.state, layout.observation, layout.done, layout.action):
        root.update(group.spec.zero())
    for group in (layout.observation, layout.reward, layout.done):
        following.update(group.spec.zero())
    return root.set("next", following)
