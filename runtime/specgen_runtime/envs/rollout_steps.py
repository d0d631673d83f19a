"""The steps of rollouts: each gives a row, and all rows become one tensordict at the end.

`RolloutSteps` fit any environment: they step with root tensordicts, and a row is a transition. Environments for which
that is more work than needed have steps of their own, and `BlockSteps` for random actions: those take many
actions at once and make tensors once for all steps. What they give is the same, bit by bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.done import any_done
from specgen_runtime.envs.finite import NotFiniteError
from specgen_runtime.envs.in_place import noted_versions, refuse_changes
from specgen_runtime.envs.keys import as_tuple, show_key
from specgen_runtime.envs.packing import peek, stack_alike
from specgen_runtime.envs.policy import check_actions
from specgen_runtime.random_state import random_state, set_random_state

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.envs.rollout import RolloutOptions

__all__ = [
    "BlockSteps",
    "FlatRollout",
    "RolloutSteps",
    "fill_randomly",
    "over_time",
    "root_behind",
    "stack_transitions",
]

_FIRST_BLOCK = 64
"""How many actions are drawn at first where nobody knows how many will be needed."""


class RolloutSteps:
    """Steps any environment with root tensordicts; a row is the transition that a step gives.

    Args:
        env: the environment.
        options: of the rollout.

    Attributes:
        transitions: the rows.
        over: whether the rollout ends with the last of them.
    """

    def __init__(self, env: EnvBase[Any], options: RolloutOptions) -> None:
        self.env, self.options = env, options
        self.transitions: list[Any] = []
        self.over = False
        self._finished: Tensor | None = None
        self._last: Any = None

    def blocks(self, root: Any) -> BlockSteps | None:
        """What takes random actions in blocks, or None if there is no such thing here.

        Args:
            root: where to start from; None starts new episodes.
        """
        del root
        return None

    def flat(self, root: Any) -> FlatRollout | None:
        """What calls the policy with tensors in place of tensordicts, or None if there is no such thing here.

        Args:
            root: where to start from; None starts new episodes.
        """
        del root
        return None

    def whole(self, root: Any) -> FlatRollout | None:
        """What takes all steps by itself, or None if there is no such thing here.

        Args:
            root: where to start from; None starts new episodes.
        """
        return None if self.options.policy is None else self.flat(root)

    def begin(self, root: Any) -> Any:
        """The root tensordict of the first step; None starts new episodes."""
        return self.env.reset() if root is None else root

    def step(self, root: Any, *, last: bool) -> Any:
        """Take a step, and keep its row.

        Args:
            root: with the actions.
            last: whether no step follows in any case.

        Returns:
            The root of the next step, without its actions.
        """
        env, options, rows = self.env, self.options, self.transitions
        ends = last and not options.goes_on
        finished = self._finished
        held = noted_versions(env._env_layout.reward_tensors, peek(rows[-1], "next")) if rows else []
        try:
            if ends or options.any_stops or options.all_stops:
                record = env.step(root)
                following = None if ends else env.step_mdp(record)
            else:
                record, following = env.step_and_maybe_reset(root)
        except NotFiniteError as error:
            raise error.at(len(rows)) from None
        refuse_changes(env._env_layout, held, "_step")
        if finished is not None:  # what is done repeats its row
            merged: Any = torch.where(finished, self._last, record)
            record = merged
        rows.append(record if options.storing_device is None else record.to(options.storing_device))
        if options.all_stops:
            self._last = record
        self.over = last or self._ends(record)
        if self._finished is not None and not bool(self._finished.any()):
            self._finished = None
        if self._finished is not None and following is not None and not self.over and env._steps_rows():
            following.set("_step", ~self._finished)  # before the policy: it need not act for what is done
        if options.callback is not None and not self.over:
            options.callback(env, record)
        return following

    def _ends(self, record: TensorDictBase) -> bool:
        """Whether what is done after a step is enough to stop."""
        layout = self.env._env_layout
        if self.options.any_stops:
            return any_done(peek(record, "next"), layout.done_sets)
        if not self.options.all_stops:
            return False
        following = record.get("next")
        n = following.batch_dims
        rows = torch.stack([following.get(s.done).flatten(n).all(-1) for s in layout.root_sets]).all(0)
        self._finished = rows if self._finished is None else rows | self._finished
        return bool(self._finished.all())

    def packed(self) -> Any:
        """All rows as one tensordict."""
        return stack_transitions(self.transitions, self.options.return_contiguous)

    def check(self, rollout: TensorDictBase) -> None:
        """Refuse what the steps have not looked at: actions of a policy that are outside their spec."""
        if self.options.policy is not None:
            check_actions(self.env._env_layout, rollout, self.options.storing_device, zeros=True)


class BlockSteps(ABC):
    """Takes given actions in an environment, many at once.

    Attributes:
        env: the environment.
        steps: how many steps were taken.
        over: whether the last one ended an episode, and the rollout with it.
    """

    env: EnvBase[Any]
    steps: int = 0
    over: bool = False

    @abstractmethod
    def take(self, actions: tuple[Tensor, ...]) -> None:
        """Take actions `(T, *batch, ...)`, in the order of `action_keys`, until they are all taken or it is over."""

    @abstractmethod
    def packed(self, actions: tuple[Tensor, ...]) -> Any:
        """All rows as one tensordict.

        Args:
            actions: those of all steps, `(*batch, T, ...)`.
        """

    def following(self, rollout: TensorDictBase) -> Any:
        """The root behind the last step of a rollout that goes on, given its rows."""
        return root_behind(self.env, rollout)

    def check(self, rollout: TensorDictBase) -> None:
        """Refuse what the steps have not looked at; here they have looked at everything."""
        del rollout


class FlatRollout(ABC):
    """A rollout that takes all its steps by itself: nobody sees a tensordict before the end, not even its policy."""

    env: EnvBase[Any]

    @abstractmethod
    def rolled_out(self) -> Any:
        """Take all steps; all rows as one tensordict."""

    def following(self, rollout: TensorDictBase) -> Any:
        """The root behind the last step of a rollout that goes on, given its rows."""
        return root_behind(self.env, rollout)


def fill_randomly(env: EnvBase[Any], rows: BlockSteps, options: RolloutOptions) -> Any:
    """Take random actions, drawn in blocks: they, and all generators' states, are those of drawing step by step.

    Some environments draw from torch's global generator, as random actions do. Whether one does is looked at after
    each block, beginning with one of a single step; where it does, and where resets draw random actions, all further
    blocks are of single steps.

    Args:
        env: whose action specs.
        rows: takes the actions.
        options: of the rollout.

    Returns:
        The rollout.
    """
    keys = env._env_layout.action.keys
    spec: Any = env._env_layout.action.spec
    spec = spec[keys[0]] if len(keys) == 1 else spec
    leaf = spec if len(keys) == 1 else next(iter(spec.values(True, True)))
    device, batch_ndim = leaf.device, len(env.batch_size)
    blocks: list[tuple[Tensor, ...]] = []
    while rows.steps < options.max_steps and not rows.over:
        at, wanted = rows.steps, options.max_steps - rows.steps
        if env._draws_torch is not False or env._acts_in_resets:
            wanted = 1
        elif options.any_stops:
            wanted = min(wanted, max(_FIRST_BLOCK, 2 * at))
        before = random_state(device) if options.any_stops else None
        drawn = spec.rand_sequence(wanted)
        after = random_state(device)
        block = (drawn,) if len(keys) == 1 else tuple(drawn.get(key) for key in keys)
        rows.take(block)
        taken = rows.steps - at
        if random_state(device).numpy().tobytes() != after.numpy().tobytes():
            env.__dict__["_draws_torch"] = True  # what it drew must not be drawn again
        else:
            if env._draws_torch is None:
                env.__dict__["_draws_torch"] = False
            if before is not None and taken < wanted:
                set_random_state(device, before)
                spec._skip_draws(taken)
        blocks.append(block if taken == wanted else tuple(actions[:taken].clone() for actions in block))
    columns = [parts[0] if len(parts) == 1 else torch.cat(parts) for parts in zip(*blocks, strict=True)]
    return rows.packed(tuple(over_time(column, batch_ndim) for column in columns))


def root_behind(env: EnvBase[Any], rollout: TensorDictBase) -> Any:
    """The root that follows the last row of a rollout, in which what is done begins anew."""
    return env.maybe_reset(env.step_mdp(rollout[..., -1].clone()))


def over_time(column: Tensor, batch_ndim: int) -> Tensor:
    """Bring the first dimension, which is time, behind the batch dimensions."""
    return column.movedim(0, batch_ndim).contiguous() if batch_ndim else column


def stack_transitions(transitions: list[Any], contiguous: bool | None = None) -> Any:
    """Join transitions in a new dimension behind their batch dimensions, named `"time"`.

    What the first root lacks, since only `"next"` gave it, is left out of the later ones.

    Args:
        transitions: one at least.
        contiguous: whether to stack the entries; False makes a lazy stack of the transitions. If None, they are
            stacked where their keys and sizes are the same at all steps.

    Raises:
        RuntimeError: `contiguous` is True, and an entry differs in its size from step to step.
    """
    lazy, time = LazyStackedTensorDict, transitions[0].batch_dims
    transitions = _without_late_entries(transitions)
    if contiguous is not False and (stacked := stack_alike(transitions, time)) is not None:
        return stacked
    join: Any = {True: torch.stack, False: lazy.lazy_stack, None: lazy.maybe_dense_stack}[contiguous]
    try:
        result = join(transitions, time)
    except (NotImplementedError, RuntimeError) as error:
        if contiguous:  # torch stacks no nested tensors, and no entries of different sizes
            raise RuntimeError(
                f"rollout(return_contiguous=True) cannot stack its steps: {_difference(transitions)}. Call rollout with"
                " return_contiguous=False, or None, for a lazy stack of them"
            ) from error
        result = lazy.lazy_stack(transitions, time)
    result.names = [*[None] * time, "time"]
    return result


def _difference(transitions: list[Any]) -> str:
    """In what the first step and another one differ."""
    first = dict(transitions[0].items(True, True))
    for t, transition in enumerate(transitions):
        entries = dict(transition.items(True, True))
        for key in first.keys() ^ entries.keys():
            return f"{show_key(key)} is at step {t if key in entries else 0} only"
        for key, value in entries.items():
            sizes = [
                "of several sizes" if each.is_nested else list(each.shape)
                for each in (first[key], value)
                if isinstance(each, Tensor)
            ]
            if len(sizes) == 2 and (sizes[0] != sizes[1] or isinstance(sizes[0], str)):
                return f"{show_key(key)} is {sizes[0]} at step 0 and {sizes[1]} at step {t}"
    return "entries of their lazy stacks differ"


def _without_late_entries(transitions: list[Any]) -> list[Any]:
    """Transitions whose roots have the keys of the first one, where what is more came from its `"next"`."""
    if len(transitions) < 2:
        return transitions
    keys = set(transitions[0].keys(True, True))
    late = [
        key
        for key in transitions[1].keys(True, True)
        if key not in keys and key[0] != "next" and ("next", *as_tuple(key)) in keys
    ]
    return [transition.exclude(*late) for transition in transitions] if late else transitions
