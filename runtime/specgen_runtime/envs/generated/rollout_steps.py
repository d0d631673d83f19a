"""Rollouts of generated environments: a bare loop over records, everything else once over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.data_checks import check_entries, check_tensordict
from specgen_runtime.envs.finite import refuse_not_finite_rollout
from specgen_runtime.envs.flat_policy import flat_policy
from specgen_runtime.envs.generated.policy_states import kept_states
from specgen_runtime.envs.generated.records import RecordRows, carried, joined_firsts, roots_of, stacked
from specgen_runtime.envs.packing import entries_of, fast_td, overlay, peek, put, stack_tds
from specgen_runtime.envs.policy import check_actions
from specgen_runtime.envs.rollout_steps import BlockSteps, FlatRollout, RolloutSteps, stack_transitions
from specgen_runtime.envs.traced import is_traced
from specgen_runtime.plain_calls import TensorFunction

if TYPE_CHECKING:
    from specgen_runtime.envs.generated.env import GeneratedEnv
    from specgen_runtime.envs.rollout import RolloutOptions

__all__ = ["RecordBlocks", "RecordSteps"]


class RecordSteps(RolloutSteps):
    """Steps a generated environment by `_advance`, while a policy sees root tensordicts; a row is two records.

    Where torch traces the rollout, a policy writes into `"next"`, or it changes what it was given, rows are transitions
    from then on.

    Args:
        env: the environment.
        options: of the rollout.
    """

    env: GeneratedEnv[Any]

    def __init__(self, env: GeneratedEnv[Any], options: RolloutOptions) -> None:
        super().__init__(env, options)
        self.traced = is_traced() and not options.any_stops
        self._by_transitions = self.traced
        self._given_keys = env.observation_keys + env.done_keys
        self._roots: list[Any] = []
        self._nexts: list[Any] = []
        self._actions: list[tuple[Tensor, ...]] = []
        self._seen: list[Any] = []

    def blocks(self, root: Any) -> BlockSteps | None:
        """What takes random actions in blocks; None where the state decides which actions are allowed."""
        env = self.env
        if self.traced or env._action_masks:
            return None
        record = self._read(root)
        return None if self.has_more(root) else env._record_blocks(record, root, self.options)

    def flat(self, root: Any) -> FlatRollout | None:
        """What calls the policy with tensors; None where it has to see the tensordict."""
        env, options = self.env, self.options
        if self.traced or not env._one_action or self.has_more(root):
            return None
        policy = flat_policy(env._env_layout, options.policy, options.trust_policy)
        if policy is None or not {*self._given_keys}.issuperset(policy.in_keys):
            return None
        return RecordPolicyRollout(env._record_blocks(self._read(root), root, options), policy)

    def has_more(self, root: Any) -> bool:
        """Whether a root holds entries that would have to be repeated."""
        if root is None:
            return False
        known = {*self._given_keys, *self.env.action_keys}
        held = entries_of(root)
        if known.issuperset(held) and all(type(value) is Tensor for value in held.values()):
            return False
        return any(key not in known for key in root.keys(True, True))

    def _open(self) -> None:
        """Note that the environment is used.

        Raises:
            RuntimeError: it is closed.
        """
        self.env._refuse_if_closed()
        self.env.__dict__["_begun"] = True

    def _read(self, root: Any) -> Any:
        """The Root record of a root tensordict; that of new episodes if it is None."""
        env = self.env
        self._open()
        if root is None:
            return env._fresh()
        check_tensordict(env._env_layout, root, "rollout")
        record = env._read(root)
        env._check_root(record, root, "rollout")
        return record

    def begin(self, root: Any) -> Any:
        """The root tensordict of the first step; None starts new episodes."""
        if self._by_transitions:
            return super().begin(root)
        self._record = self._read(root)
        if root is None:
            root = self._pack(self.env._root_entries(self._record))
        return self._given(root)

    def _pack(self, entries: dict[str, Any]) -> TensorDict:
        env = self.env
        return fast_td(entries, env.batch_size, env.device, agents=env._agents)

    def _given(self, root: Any) -> Any:
        """Note what the policy is given."""
        self._before = [peek(root, key) for key in self._given_keys]
        return root

    def step(self, root: Any, *, last: bool) -> Any:
        """Take a step, and keep its row; see `RolloutSteps.step`."""
        if not self._by_transitions and (
            "next" in entries_of(root)
            or any(
                peek(root, key) is not value
                for key, value in zip(self._given_keys, self._before, strict=True)
            )
        ):
            self.transitions, self._by_transitions = self._as_transitions(), True
        if self._by_transitions:
            return super().step(root, last=last)
        env = self.env
        check_entries(env._env_layout, root, env._env_layout.action.entries, "step")
        actions = (*env._actions(root), *kept_states(env, self._record))
        next_ = env._advance(self._record, actions)
        self._roots.append(self._record)
        self._nexts.append(next_)
        self._actions.append(actions)
        self._seen.append(root)
        self.over = last or (bool(self.options.any_stops) and bool(next_.done.any()))
        if self.over and not self.options.goes_on:
            return None
        self._record = env._following(self._record, next_)
        return self._given(self._pack(overlay(root, env._root_entries(self._record))))

    def _as_transitions(self) -> list[Any]:
        """The rows so far as tensordicts with `"next"`."""
        rows = zip(self._seen, self._roots, self._actions, self._nexts, strict=True)
        return [
            seen.set("next", self._pack(self.env._next_entries(root, actions, next_)))
            for seen, root, actions, next_ in rows
        ]

    def packed(self) -> Any:
        """All rows as one tensordict."""
        env, time = self.env, self.env.ndim
        if self._by_transitions:
            return super().packed()
        try:
            entries, roots = stack_tds(self._seen, time), stacked(self._roots, time)
        except RuntimeError:
            # What the policy writes differs in its keys or sizes, or a chain made another of what was given.
            return stack_transitions(self._as_transitions(), self.options.return_contiguous)
        actions = tuple(torch.stack(column, time) for column in zip(*self._actions, strict=True))
        nexts = stacked(self._nexts, time)
        result = _timed(env, entries, len(self._seen))
        return result.set("next", _timed(env, env._next_entries(roots, actions, nexts), len(self._seen)))

    def check(self, rollout: TensorDictBase) -> None:
        """Refuse actions of a policy that are outside their spec, and what is not finite if that is asked for."""
        if self.traced:
            return
        if self.options.policy is not None:
            check_actions(self.env._env_layout, rollout)
        _check_finite(self.env, rollout)


class RecordBlocks(BlockSteps):
    """Takes given actions by `_advance` alone; a row is two records.

    Args:
        env: the environment.
        record: the Root record to start from.
        root: the tensordict that it was read from, if any.
        options: of the rollout.
    """

    env: GeneratedEnv[Any]

    def __init__(self, env: GeneratedEnv[Any], record: Any, root: Any, options: RolloutOptions) -> None:
        self.env, self.options = env, options
        self._record, self._root = record, root
        self._firsts, self._starts = [record], [0]
        self._rows = RecordRows(env.ndim, None if options.any_stops else options.max_steps)

    def given(self, keys: tuple[str, ...]) -> list[Any]:
        """Entries of the root that the next step starts from; of the first one they are the caller's own."""
        if not self.steps and self._root is not None:
            return [self._root.get(key) for key in keys]
        entries = self.env._root_entries(self._record)
        return [entries[key] for key in keys]

    def take(self, actions: tuple[Tensor, ...]) -> None:
        """Take actions `(T, *batch, ...)`; see `BlockSteps.take`."""
        env, record, rows, keep = self.env, self._record, self._rows, self._rows.add
        advance, batched, most = env._advance, bool(env.batch_size), self.options.max_steps
        states = bool(env._policy_states)
        env.__dict__["_stacking"] = True
        try:
            for action in zip(*(column.unbind(0) for column in actions), strict=True):
                next_ = keep(advance(record, (*action, *kept_states(env, record)) if states else action))
                done = next_.done
                if not (done.any() if batched else done):
                    record = carried(record, next_)
                elif self.options.any_stops:
                    self.over = True
                    break
                elif len(rows) < most:
                    record = env._following(record, next_)
                    self._firsts.append(record)
                    self._starts.append(len(rows))
                elif self.options.goes_on:
                    record = env._following(record, next_)
        finally:
            env.__dict__["_stacking"] = False
        self._record, self.steps = record, len(rows)

    def following(self, rollout: TensorDictBase) -> Any:
        """The root behind the last step; see `BlockSteps.following`."""
        del rollout
        env = self.env
        root = fast_td(env._root_entries(self._record), env.batch_size, env.device, agents=env._agents)
        return root.clone()  # what only was to be stacked may share tensors

    def records(self) -> tuple[Any, Any]:
        """The Root and the Next records of all steps, `(*batch, T, ...)`."""
        nexts, time = self._rows.stacked(), self.env.ndim
        first, *others = self._firsts
        firsts = joined_firsts(first, stacked(others, time) if others else None, time)
        return roots_of(firsts, self._starts, nexts, time), nexts

    def packed(self, actions: tuple[Tensor, ...]) -> TensorDict:
        """All rows as one tensordict; see `BlockSteps.packed`."""
        env, root = self.env, self._root
        roots, nexts = self.records()
        result = _timed(env, env._root_entries(roots), self.steps)
        if root is not None:
            # The caller's own values stand in the first row, even where they are not what the records derive.
            begins = {id(rows): first for first, rows in zip(self._firsts[0], roots, strict=True)}
            for key in [*env.observation_keys, *env.done_keys]:
                rows: Tensor = peek(result, key)
                value: Tensor = peek(root, key)
                if begins.get(id(rows)) is value and _alike(rows, value, env.ndim):
                    continue  # a field of the records as it is
                whole = rows.clone()
                whole.select(env.ndim, 0).copy_(value)
                put(result, key, whole)
        for key, action in zip(env._action_paths, actions, strict=True):
            put(result, key, action)
        actions = (*actions, *kept_states(env, roots))
        put(result, "next", _timed(env, env._next_entries(roots, actions, nexts), self.steps))
        return result

    def check(self, rollout: TensorDictBase) -> None:
        """Refuse what is not finite if that is asked for."""
        _check_finite(self.env, rollout)


class RecordPolicyRollout(FlatRollout):
    """Calls a policy with what it reads of each root.

    Args:
        blocks: takes its actions.
        policy: gives the action, and what else it writes.
    """

    env: GeneratedEnv[Any]

    def __init__(self, blocks: RecordBlocks, policy: TensorFunction) -> None:
        self.env, self._blocks, self._policy = blocks.env, blocks, policy

    def rolled_out(self) -> Any:
        """Take all steps; all rows as one tensordict."""
        blocks, policy, time = self._blocks, self._policy, self.env.ndim
        ((key, leaf),) = self.env._action_leaves
        place, most, written = policy.out_keys.index(key), blocks.options.max_steps, []
        while blocks.steps < most and not blocks.over:
            outputs = policy.call(*blocks.given(policy.in_keys))
            action = outputs[place]
            if type(action) is not Tensor or action.shape != leaf.shape or action.dtype is not leaf.dtype:
                outputs = (*outputs[:place], self._checked(key, action), *outputs[place + 1 :])
            blocks.take((outputs[place].unsqueeze(0),))
            written.append(outputs)
        columns = [torch.stack(column, time) for column in zip(*written, strict=True)]
        result = blocks.packed((columns[place],))
        for name, column in zip(policy.out_keys, columns, strict=True):
            put(result, name, column)
        return result

    def _checked(self, key: str, action: Any) -> Tensor:
        """An action that is not as its spec says: refused in the words of `step`, or in the dtype that is stored."""
        env = self.env
        root = fast_td({key: action}, env.batch_size, env.device)
        check_entries(env._env_layout, root, env._env_layout.action.entries, "step")
        checked: Tensor = root.get(key)
        return checked

    def following(self, rollout: TensorDictBase) -> Any:
        """The root behind the last step."""
        return self._blocks.following(rollout)


def _alike(rows: Tensor, value: Tensor, time: int) -> bool:
    """Whether a value has the dtype and shape of each of some rows, which are along the dimension `time`."""
    return rows.dtype is value.dtype and rows.shape[time + 1 :] == value.shape[time:]


def _timed(env: GeneratedEnv[Any], entries: dict[str, Any], steps: int) -> Any:
    """The tensordict of entries `(*batch, T, ...)`."""
    size = torch.Size((*env.batch_size, steps))
    return fast_td(entries, size, env.device, [*[None] * env.ndim, "time"], env._agents)


def _check_finite(env: GeneratedEnv[Any], rollout: TensorDictBase) -> None:
    if env._check_finite:
        refuse_not_finite_rollout(env._env_layout, rollout)
