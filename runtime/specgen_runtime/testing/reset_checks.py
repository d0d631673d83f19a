"""Checks of partial resets: rows in the mask start anew, all others keep every entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.check_specs import resets_itself
from specgen_runtime.envs.done import DoneSet, governing_set, rows_mask
from specgen_runtime.envs.keys import as_tuple, show_key
from specgen_runtime.envs.spec_leaves import Leaf, leaves_of
from specgen_runtime.specs.non_tensors.data import same_data
from specgen_runtime.testing.identical import assert_identical
from specgen_runtime.testing.running import Env, torch_seeded

__all__ = ["check_partial_resets"]


def check_partial_resets(env: Env, *, seed: int = 0, steps: int = 5) -> None:
    """Check that resetting some environments of a batch starts these anew and keeps every entry of the others.

    Also that a mask of False changes nothing, that masks are taken out of the tensordict, and that masks of
    another shape or dtype are refused with a RuntimeError that names them. Rows of an environment that resets
    itself cannot be reset one by one (see `AutoResetEnv`).

    Raises:
        AssertionError: naming the key and the row.
    """
    with torch_seeded(seed):
        env.set_seed(seed)
        root = env.reset()
        for _ in range(steps):
            _, root = env.step_and_maybe_reset(env.rand_action(root))
        _check_wrong_masks(env, root)
        root = _check_empty_mask(env, root)
        if not env.batch_size or env.numel() < 2 or resets_itself(env):
            return
        for row in range(min(env.numel(), 8)):
            root = _reset_row(env, root, row)
            _, root = env.step_and_maybe_reset(env.rand_action(root))


def _masks(env: Env, row: int | None) -> dict[DoneSet, Tensor]:
    """A mask for each root-most set, True in one row of the flattened batch."""
    masks = {}
    for s in env._env_layout.root_sets:
        flat = torch.zeros((env.numel(), *s.shape), dtype=torch.bool, device=env.device)
        if row is not None:
            flat[row] = True
        masks[s] = flat.reshape(*env.batch_size, *s.shape)
    return masks


def _check_empty_mask(env: Env, root: TensorDictBase) -> TensorDictBase:
    before = root.clone()
    for s, mask in _masks(env, None).items():
        root.set(s.reset, mask)
    after: TensorDictBase = env.reset(root)
    assert_identical(after, before, "a reset whose '_reset' masks are False everywhere")
    return after


def _check_wrong_masks(env: Env, root: TensorDictBase) -> None:
    for s, mask in _masks(env, 0).items():
        for wrong, what in (
            (torch.ones((*mask.shape, 2), dtype=torch.bool, device=env.device), "another shape"),
            (torch.ones(mask.shape, dtype=torch.int64, device=env.device), "dtype int64"),
        ):
            request = root.clone().set(s.reset, wrong)
            refused = ""
            try:
                env.reset(request)
            except RuntimeError as error:
                refused = str(error)
            assert refused, f"a {show_key(s.reset)} mask of {what} than {show_key(s.done)} is accepted"
            assert "_reset" in refused, (
                f"the error about a {show_key(s.reset)} mask names no '_reset': {refused}"
            )


def _reset_row(env: Env, root: TensorDictBase, row: int) -> TensorDictBase:
    roots = env._env_layout.root_sets
    before = root.clone()
    masks = _masks(env, row)
    for s, mask in masks.items():
        root.set(s.reset, mask.clone())
    after: TensorDictBase = env.reset(root)
    assert after is root, "reset(tensordict) must return the tensordict that it was given"
    for leaf in leaves_of(env.full_observation_spec) + leaves_of(env.full_done_spec):
        governing = governing_set(leaf.key, roots)
        if governing is not None:
            kept = _kept(env, leaf, leaf.find(after), leaf.find(before), masks, governing, row)
            assert kept, f"{leaf}: resetting row {row} changed another row"
    for s in roots:
        done: Any = after.get(s.done)
        if not env._allow_done_after_reset:
            assert not bool(done[masks[s]].any()), (
                f"{show_key(s.done)} is set right after a reset of row {row}"
            )
    left = [key for key in after.keys(True, True) if as_tuple(key)[-1] == "_reset"]
    assert not left, f"reset left its mask behind: {', '.join(map(show_key, left))}"
    return after


def _kept(
    env: Env,
    leaf: Leaf,
    now: Any,
    before: Any,
    masks: Mapping[DoneSet, Tensor],
    governing: DoneSet,
    row: int,
) -> bool:
    """Whether the rows of a leaf that no mask selects are as they were."""
    if isinstance(now, Tensor) and not now.is_nested and not leaf.items:
        kept = ~rows_mask(masks[governing], now, env.ndim).expand_as(now)
        return torch.equal(now[kept].nan_to_num(), before[kept].nan_to_num())
    rows = torch.ones(env.batch_size, dtype=torch.bool)
    rows.view(-1)[row] = False
    places = [tuple(place) for place in leaf.rows(rows).nonzero().tolist() if place]
    return all(same_data(now[place], before[place]) for place in places)
