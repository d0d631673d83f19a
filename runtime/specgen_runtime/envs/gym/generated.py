"""`GeneratedGymEnv`: generated environments whose dynamics are a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.base import D, S
from specgen_runtime.envs.generated.env import GeneratedEnv
from specgen_runtime.envs.generated.rollout_steps import RecordBlocks
from specgen_runtime.envs.generated.specs import EnvSpecs
from specgen_runtime.envs.gym.actions import actions_decoder, leaves_decoder
from specgen_runtime.envs.gym.dynamics import GymDynamics
from specgen_runtime.envs.gym.policy_rollout import GymRecordSteps
from specgen_runtime.envs.gym.rollout_steps import LiftedGymBlocks
from specgen_runtime.envs.gym.row_format import RowFormat, row_format
from specgen_runtime.envs.gym.row_statistics import RowStatistics
from specgen_runtime.envs.gym.rows import GymRowSteps
from specgen_runtime.envs.gym.source import GymSource
from specgen_runtime.envs.gym.space_mismatch import GymSpaceMismatch, compare_spaces
from specgen_runtime.envs.gym.values import NOT_RAISED, leaves_encoder, reward_tensor, value_encoder
from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.envs.rollout import RolloutOptions
from specgen_runtime.specs.gymnasium import has_parts, import_gymnasium
from specgen_runtime.typing import DEVICE_TYPING, Array

__all__ = ["GeneratedGymEnv"]

_CONVERTERS = ("_encode_all", "_decode", "_decode_all", "_row_format", "_rows", "_gym_consts", "_gym_learned")


class GeneratedGymEnv(GeneratedEnv[D, S]):
    """Base of generated environments that step a Gymnasium environment; the batch size is `()`.

    A subclass sets `_gym_id`, `_root_record` and `_next_record`: observations, done flags, and in Next the reward.
    One that makes something else of what Gymnasium returns writes `_fresh`, which calls `self._gym_reset()`, and
    `_advance`, which calls `self._gym_step(action)`. The spaces are compared with the declared specs at
    construction.

    Args:
        device: the device of all data; None leaves it open (tensors are on the CPU).
        **gym_kwargs: passed to `gymnasium.make`.

    Raises:
        ImportError: Gymnasium is not installed.
        GymSpaceMismatch: at `_build`, if Gymnasium's spaces or time limit differ from the declared ones.
    """

    _gym_id: ClassVar[str]
    """The id that `gymnasium.make` takes."""

    _gym_options: ClassVar[Mapping[str, Any]] = {}
    """The declared keywords of `gymnasium.make`; those of the constructor go before them."""

    _next_record: ClassVar[type[Any]]
    """The Next record, for the `_advance` of this class."""

    _gym_max_episode_steps: ClassVar[int | None] = None
    """The declared time limit; `gymnasium.make(max_episode_steps=...)` overrides it. None is no limit."""

    _keeps_state = True
    _record_steps = GymRecordSteps

    _gym_row_reads: ClassVar[tuple[str, ...]] = ()
    """The keys of the state and done flags that `_gym_row` reads."""

    _gym_consts: Any
    """The constant tables for `_gym_row`: NumPy's arrays, and its numbers where a table is one number."""

    _gym_learned: Any
    """What transforms of a chain have learned, for `_gym_row`."""

    _gym_lifts: ClassVar[bool] = False
    """Whether there are `_gym_stop` and `_gym_lift`: rollouts then make tensors once for all steps."""

    _gym_inverts: ClassVar[bool] = False
    """Whether Gymnasium is given what `_gym_action` makes of what the policy writes."""

    def __init__(self, *, device: DEVICE_TYPING | None = None, **gym_kwargs: Any) -> None:
        super().__init__(device=device)
        self._gym_kwargs = {**self._gym_options, **gym_kwargs}
        self._gym_source = GymSource(import_gymnasium().make(self._gym_id, **self._gym_kwargs))
        place = self._device or "cpu"
        self._true = torch.tensor([True], device=place)
        self._false = torch.tensor([False], device=place)

    @property
    def _gym(self) -> Any:
        """The Gymnasium environment."""
        return self._gym_source.env

    def _build(self) -> None:
        declared = self._specs()
        self._declare(declared)
        specs = self._env_specs() or declared  # what `_gym_reset` and `_gym_step` give and take
        self._check_gym(specs)
        observations, actions = specs.observation, specs.to(self._device).action
        self._gym_actions = actions
        self._single_observation = not has_parts(self._gym.observation_space)
        if self._single_observation:
            spec = next(iter(observations.values(True, True)))
            encode = value_encoder(self._gym.observation_space, spec)
            self._encode_all = encode
        else:
            self._encode_all = leaves_encoder(self._gym.observation_space, observations)
        action_space = self._gym.action_space
        single_action = not has_parts(action_space)
        leaves = {() if single_action else as_tuple(key)[1:]: leaf for key, leaf in actions.items(True, True)}
        self._decode = leaves_decoder(action_space, leaves)
        self._row_format: RowFormat | None = None
        if self._single_observation:
            self._row_format = row_format(self._gym.observation_space, spec)
        decode = self._decode
        self._decode_all = (
            actions_decoder(action_space, leaves[()])
            if single_action
            else lambda *columns: [
                decode(*values) for values in zip(*(column.unbind(0) for column in columns), strict=True)
            ]
        )
        self._off_cpu = self._device is not None and self._device.type != "cpu"

    def _check_gym(self, specs: EnvSpecs) -> None:
        """Compare the declared specs with the installed environment.

        Raises:
            GymSpaceMismatch: naming the key, what is declared and what was found.
        """
        compare = partial(compare_spaces, self._gym_id, device=self._device)
        compare(specs.action, self._gym.action_space, "action")
        compare(specs.observation, self._gym.observation_space, "observation")
        declared = self._gym_kwargs.get("max_episode_steps", self._gym_max_episode_steps)
        declared = None if declared == -1 else declared
        found = None if self._gym.spec is None else self._gym.spec.max_episode_steps
        if declared != found:
            raise GymSpaceMismatch(self._gym_id, "max_episode_steps", declared, found)

    def __getstate__(self) -> dict[str, Any]:
        # What converts between Gymnasium's data and tensors is closures over the spaces: made again by `_build`.
        return {name: value for name, value in self.__dict__.items() if name not in _CONVERTERS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._build()

    # what is made of it, where a subclass does not say otherwise

    def _fresh(self) -> Any:
        observed = self._gym_reset()
        not_done = torch.zeros((1,), dtype=torch.bool, device=self._device)
        if isinstance(observed, tuple):
            return self._root_record(*observed, not_done, not_done.clone(), not_done.clone())
        return self._gym_firsts(not_done, observed)

    def _advance(self, root: Any, actions: tuple[Tensor, ...]) -> Any:
        observation, reward, terminated, truncated = self._gym_step(*actions)
        done = terminated | truncated
        return self._next_record(*_listed(observation), done, terminated, truncated, reward)

    def _gym_action(self, actions: tuple[Tensor, ...]) -> Any:
        """Gymnasium's action as a tensor of its declared spec, for any leading dimensions if it draws nothing.

        It is a tuple of them where Gymnasium takes several. Called where `_gym_inverts` is set.

        Args:
            actions: what the policy wrote, in the order of `action_keys`.
        """
        return actions[0] if len(actions) == 1 else actions

    # what `_fresh` and `_advance` call

    def _gym_reset(self) -> Any:
        """Start a new episode.

        Returns:
            The observation: a tensor as declared, or a tuple of several in the order of the observation specs.
        """
        source = self._gym_source
        kwargs, source.asked = source.asked, {}
        observation, _info = source.reset(kwargs)
        return self._encode_all(observation)

    def _gym_step(self, *actions: Tensor) -> tuple[Any, Tensor, Tensor, Tensor]:
        """Take a step.

        Args:
            actions: a tensor as declared: class index, one-hot vector or numbers; of a Dict or a Tuple one for each
                part, in the order of the action specs.

        Returns:
            The observation (as `_gym_reset`), reward float32 `(1,)`, terminated and truncated bool `(1,)`.
        """
        observation, reward, terminated, truncated, _info = self._gym_source.step(self._decode(*actions))
        new = torch.from_numpy
        gain = reward_tensor(reward)
        if self._stacking:
            ended = self._true if terminated else self._false
            cut = self._true if truncated else self._false
        else:
            ended = new(np.array((bool(terminated),)) if terminated else NOT_RAISED.copy())
            cut = new(np.array((bool(truncated),)) if truncated else NOT_RAISED.copy())
        if self._off_cpu:
            gain, ended, cut = self._on_device(gain), self._on_device(ended), self._on_device(cut)
        return self._encode_all(observation), gain, ended, cut

    @property
    def dynamics(self) -> GymDynamics:
        """What the functions of a chain step that takes several of Gymnasium's steps as one, or some after a reset."""
        return GymDynamics(self._gym_step, self._gym_reset, self._gym_actions)

    # steps of NumPy's

    def _gym_row(
        self,
        held: Sequence[Any],
        observation: Array,
        reward: Any,
        terminated: Any,
        truncated: Any,
        /,
    ) -> dict[str, Any]:
        """What `"next"` holds after a step: what `_advance` and `_next_entries` give, bit by bit, by NumPy.

        What is stored as `(1,)` and has no dimension of its own is one of NumPy's numbers, all else an array.
        It is called for environments with one observation whose keys are flat. A class that writes `_advance` anew,
        and not this, is stepped by that.

        Args:
            held: what `_gym_row_reads` names, of the root.
            observation: as Gymnasium gave it, which may write into it again: what is returned has memory of its own.
            reward: a float32.
            terminated: a bool.
            truncated: likewise.
        """
        fields = self._next_record._fields
        return dict(
            zip(
                fields,
                (observation.copy(), terminated | truncated, terminated, truncated, reward),
                strict=True,
            )
        )

    def _gym_first_row(self, observation: Array, /) -> dict[str, Any]:
        """What the root holds after a reset, likewise: what `_fresh` and `_root_entries` give.

        Args:
            observation: as for `_gym_row`.
        """
        return dict(zip(self._root_record._fields, (observation.copy(), False, False, False), strict=True))

    def _row_steps(self) -> GymRowSteps | None:
        """What takes steps by `_gym_row`; None where there is none."""
        try:
            rows: GymRowSteps | None = self.__dict__["_rows"]
        except KeyError:
            consts, learned = self.__dict__.get("consts"), self.__dict__.get("learned")
            if consts is not None and not self._off_cpu:
                self.__dict__["_gym_consts"] = type(consts)._make([table.numpy()[()] for table in consts])
            if learned is not None:
                self.__dict__["_gym_learned"] = type(learned)._make(map(RowStatistics, learned))
            rows = self.__dict__["_rows"] = GymRowSteps.of(self)
        return rows

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self.__dict__.pop("_rows", None)

    def step(self, tensordict: D) -> D:
        """Advance by one step; see `EnvBase.step`."""
        rows = self.__dict__.get("_rows") or self._row_steps()
        if rows is not None and rows.step(tensordict):
            return tensordict
        return super().step(tensordict)

    def step_and_maybe_reset(self, tensordict: D) -> tuple[D, D]:
        """Advance by one step, then reset if it ended the episode; see `EnvBase`."""
        rows = self.__dict__.get("_rows") or self._row_steps()
        following = None if rows is None else rows.step_and_reset(tensordict)
        if following is None:
            return super().step_and_maybe_reset(tensordict)
        return tensordict, following

    def rand_action(self, tensordict: D | None = None) -> D:
        """Write random actions; see `EnvBase.rand_action`."""
        rows = self.__dict__.get("_rows") or self._row_steps()
        if rows is not None and tensordict is not None and rows.draw(tensordict):
            return tensordict
        return super().rand_action(tensordict)

    # the lifted rollout

    def _gym_firsts(self, not_done: Tensor, observation: Tensor, /) -> Any:
        """The Root records that episodes begin with, where there is one observation.

        Args:
            not_done: bool `(..., 1)`, False: as many as there are episodes.
            observation: what `_gym_reset` gave, `(..., *shape)`.
        """
        return self._root_record(observation, not_done, not_done.clone(), not_done.clone())

    def _gym_stop(self, root: Any) -> int | None:
        """After how many steps from `root` (at least 1) the transforms end the episode; None is never.

        Called where `_gym_lifts` is set.
        """
        return None

    def _gym_lift(
        self,
        firsts: Any,
        lengths: Sequence[int],
        observation: Tensor,
        reward: Tensor,
        terminated: Tensor,
        truncated: Tensor,
    ) -> Any:
        """The Next records of many steps: what `_advance` gives step by step, bit by bit.

        Called where `_gym_lifts` is set. Where transforms are fused in, the function that `_advance` calls can be
        called once on all steps, with what it carries from `specgen_runtime.envs.generated.lifting`.

        Args:
            firsts: the Root records that the episodes begin with, `(episodes, ...)`.
            lengths: how many steps each episode has, n in all.
            observation: as Gymnasium gave them, `(n, ...)`.
            reward: float32 `(n, 1)`.
            terminated: bool `(n, 1)`; only the last of an episode can be True.
            truncated: likewise.

        Returns:
            The Next record of tensors `(n, ...)`.
        """
        return self._next_record(observation, terminated | truncated, terminated, truncated, reward)

    def _record_blocks(
        self, record: Any, root: TensorDictBase | None, options: RolloutOptions
    ) -> RecordBlocks:
        if self._gym_lifts and self._row_format is not None:
            return LiftedGymBlocks(self, record, root, options)
        return super()._record_blocks(record, root, options)

    def _on_device(self, value: Tensor) -> Tensor:
        return value.to(self._device) if self._off_cpu else value

    # pictures

    @property
    def render_mode(self) -> str | None:
        """What `gymnasium.make` was given as `render_mode`; None is nothing."""
        mode: str | None = self._gym.render_mode
        return mode

    @property
    def metadata(self) -> dict[str, Any]:
        """What the Gymnasium environment tells of its pictures."""
        metadata: dict[str, Any] = self._gym.metadata
        return metadata

    def render(self) -> Any:
        """What Gymnasium's `render` gives: with `render_mode="rgb_array"` uint8 `[H, W, 3]`."""
        return self._gym.render()

    # seeds, devices, closing

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        self._gym_source.asked = kwargs
        return super()._reset(tensordict)

    def _set_seed(self, seed: int | None) -> None:
        """The next reset passes the seed on; later resets continue from it, as Gymnasium's own do."""
        super()._set_seed(seed)
        self._gym_source.seed = seed

    def _move_specs(self, device: torch.device) -> None:
        super()._move_specs(device)
        self._true, self._false = self._true.to(device), self._false.to(device)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the Gymnasium environment too."""
        super().close(raise_if_closed=raise_if_closed)
        self._gym.close()


def _listed(observation: Any) -> tuple[Tensor, ...]:
    """What `_gym_reset` returns as a tuple, also where it is one tensor."""
    return observation if isinstance(observation, tuple) else (observation,)
