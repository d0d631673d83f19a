"""`Collector`: batches of transitions from an environment in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch

from specgen_runtime.collectors.arguments import (
    Buffer,
    devices,
    made_env,
    made_policy,
    refuse_contradictions,
    register_collector,
    steps_of_batch,
    write_reset_masks,
)
from specgen_runtime.collectors.base import BaseCollector
from specgen_runtime.collectors.policies import (
    Weights,
    compiled_policy,
    load_weights,
    placed_policy,
    policy_outputs,
)
from specgen_runtime.collectors.prepared import with_primers, with_step_limit
from specgen_runtime.collectors.state import go_on_with, plain_tensordict, random_states, tensordict_of
from specgen_runtime.collectors.trajectories import TrajectoryNumbers, ended, in_first_episodes
from specgen_runtime.envs.base import D, EnvBase
from specgen_runtime.envs.done import mark_truncated
from specgen_runtime.envs.env_state import learned_state, load_learned_state
from specgen_runtime.envs.exploration import ExplorationType, set_exploration_type
from specgen_runtime.envs.keys import MASK_KEY, TRAJECTORY_KEY, as_tuple
from specgen_runtime.envs.packing import put_checked
from specgen_runtime.envs.rollout import RolloutOptions, run_rollout
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["Collector"]


class Collector(BaseCollector[D]):
    """Steps an environment with a policy, and gives batches of transitions; episodes go on from batch to batch.

    A batch has the batch size `(*env.batch_size, T)`, its last dimension is named ``"time"``, and its rows are those of
    `env.rollout(T, policy, break_when_any_done=False)`. It holds the number of each row's trajectory at
    ``("collector", "traj_ids")``, int64 of the batch size. Nothing in it has gradients.

    Args:
        create_env_fn: an environment, or what makes one.
        policy: as `EnvBase.rollout` takes it. None: random actions.
        policy_factory: makes the policy, in place of `policy`.
        frames_per_batch: how many transitions a batch has, all environments together; rounded up to a multiple of their
            number, with a warning.
        total_frames: how many transitions to collect in all; -1: no end. Batches are whole: the last one may go beyond.
        device: of all that has no device of its own below.
        storing_device: of the batches. None: where their tensors come about.
        policy_device: where the policy is called. A policy with parameters elsewhere is copied there;
            `update_policy_weights_` brings its weights up to date.
        env_device: where the environment is moved to. None: where it is.
        create_env_kwargs: keyword arguments of `create_env_fn`.
        max_frames_per_traj: the longest trajectory; longer ones are truncated. It adds ``"step_count"`` to the data. (A time
            limit in the environment's own chain is faster.)
        init_random_frames: how many transitions have random actions before the policy is asked, in whole batches. With a
            replay buffer these are counted by its `write_count`.
        reset_at_each_iter: begin each batch with new episodes.
        whole_episodes: give one episode of each environment, from its beginning to its end, in each batch, whose last
            dimension is as long as the longest of them, `T` at most. An environment whose episode is over waits for the
            others, and repeats its last row; ``("collector", "mask")``, bool of the batch size, is False there.
        postproc: called with each batch, gives what the collector gives.
        split_trajs: give batches split by `split_trajectories`.
        track_traj_ids: number trajectories.
        exploration_type: in force while the policy is called.
        return_same_td: write each batch into the tensors of the first one, in place.
        set_truncated: mark the last row of each batch as truncated.
        use_buffers: accepted; so is `no_cuda_sync`, since no copy here is left unfinished.
        replay_buffer: is extended by each batch; the collector then gives None. Its rows are transitions: a batch of
            environments is flattened unless the buffer's storage has as many dimensions as the batch.
        trust_policy: call the policy with the tensordict whatever its parameters are.
        compile_policy: run the policy through `torch.compile`; a dict has its keywords.
        track_policy_version: write the number of weight updates that the policy has had to ``"policy_version"``, int64 of
            the batch size, and the same under ``"next"``.
        auto_register_policy_transforms: give the environment the primers that recurrent modules of the policy need.
        pre_collect_hook: called before each batch is collected.
        post_collect_hook: called with each batch before it is given.
        compact_obs: leave observations and states out of ``"next"``, where the next row has them.
        first_traj_id: the number of the first trajectory.
        traj_id_stride: from one number of a trajectory to the next.

    Attributes:
        env: the environment.
        policy: what is called, on its device; None for random actions.
        version: how many times `update_policy_weights_` was called.
        frames_per_batch: `T`.

    Raises:
        TypeError: `create_env_fn` gives no `EnvBase`; a policy and a factory; keywords for an environment that is there.
        ValueError: `frames_per_batch` is less than 1; `max_frames_per_traj` where there is a ``"step_count"``; `split_trajs`
            without numbers of trajectories; `return_same_td` with a replay buffer; `whole_episodes` with `split_trajs`,
            `return_same_td`, `init_random_frames` or a replay buffer.
        RuntimeError: `set_truncated` without a ``"truncated"`` flag.

    Example:
        >>> collector = Collector(CartPole(batch_size=[8]), frames_per_batch=400, total_frames=2_000)
        >>> for batch in collector:
        ...     print(batch.shape)  # torch.Size([8, 50]), five times
    """

    def __init__(
        self,
        create_env_fn: EnvBase[D, Any] | Callable[..., EnvBase[D, Any]],
        policy: Callable[..., Any] | None = None,
        *,
        policy_factory: Callable[[], Callable[..., Any]] | None = None,
        frames_per_batch: int,
        total_frames: int = -1,
        device: DEVICE_TYPING | None = None,
        storing_device: DEVICE_TYPING | None = None,
        policy_device: DEVICE_TYPING | None = None,
        env_device: DEVICE_TYPING | None = None,
        create_env_kwargs: Mapping[str, Any] | None = None,
        max_frames_per_traj: int | None = None,
        init_random_frames: int | None = None,
        reset_at_each_iter: bool = False,
        whole_episodes: bool = False,
        postproc: Callable[[Any], Any] | None = None,
        split_trajs: bool | None = None,
        track_traj_ids: bool = True,
        exploration_type: ExplorationType = ExplorationType.RANDOM,
        return_same_td: bool = False,
        set_truncated: bool = False,
        use_buffers: bool | None = None,
        replay_buffer: Buffer | None = None,
        trust_policy: bool | None = None,
        compile_policy: bool | Mapping[str, Any] | None = None,
        no_cuda_sync: bool = False,
        track_policy_version: bool = False,
        auto_register_policy_transforms: bool | None = None,
        pre_collect_hook: Callable[[], None] | None = None,
        post_collect_hook: Callable[[Any], None] | None = None,
        compact_obs: bool = False,
        first_traj_id: int = 0,
        traj_id_stride: int = 1,
    ) -> None:
        del use_buffers, no_cuda_sync
        super().__init__(
            total_frames=total_frames,
            postproc=postproc,
            split_trajs=split_trajs,
            replay_buffer=replay_buffer,
            post_collect_hook=post_collect_hook,
        )
        places = devices(device, storing_device, policy_device, env_device)
        self.storing_device, self.policy_device, self.env_device = places
        env: EnvBase[Any] = made_env(create_env_fn, create_env_kwargs or {})
        self._given_policy = made_policy(policy, policy_factory)
        self.policy: Any = placed_policy(self._given_policy, self.policy_device)
        if auto_register_policy_transforms:
            env = with_primers(env, self.policy)
        if self.env_device is not None:
            env = env.to(self.env_device)
        if max_frames_per_traj is not None:
            env = with_step_limit(env, max_frames_per_traj)
        self.env: EnvBase[D, Any] = env
        if set_truncated and not any(s.truncated for s in env._env_layout.done_sets):
            raise RuntimeError("set_truncated=True needs a 'truncated' flag, and the done spec has none")
        refuse_contradictions(
            split_trajs=split_trajs,
            track_traj_ids=track_traj_ids,
            same=return_same_td,
            buffer=replay_buffer,
            whole=whole_episodes,
            random=init_random_frames,
        )
        self.n_env = env.batch_size.numel()
        self.frames_per_batch = steps_of_batch(frames_per_batch, self.n_env)
        self.requested_frames_per_batch = self.frames_per_batch * self.n_env
        self.init_random_frames = max(0, int(init_random_frames or 0))
        self.reset_at_each_iter, self.whole_episodes = bool(reset_at_each_iter), bool(whole_episodes)
        self.set_truncated = bool(set_truncated)
        self.track_traj_ids, self.track_policy_version = bool(track_traj_ids), bool(track_policy_version)
        self.exploration_type = exploration_type
        self.return_same_td, self.compact_obs = bool(return_same_td), bool(compact_obs)
        self.trust_policy = bool(trust_policy)
        self.pre_collect_hook = pre_collect_hook
        self._call = compiled_policy(self.policy, compile_policy)
        here = env.device or torch.get_default_device()
        self._called_on = None if self.policy_device == here else self.policy_device
        self._numbers = TrajectoryNumbers(first_traj_id, traj_id_stride)
        self._root: Any = None
        self._outputs: dict[Any, torch.Tensor] | None = None
        self._same: Any = None
        register_collector(self, self.policy, self.env)
        self.closed = False

    # collecting

    def _collected(self) -> D:
        return self.rollout()

    @torch.no_grad()
    def rollout(self) -> D:
        """Collect the transitions of a batch; they are not counted, and nothing is done with them.

        Raises:
            RuntimeError: the collector is closed.
        """
        self._refuse_if_closed()
        if self.pre_collect_hook is not None:
            self.pre_collect_hook()
        if self._root is None or self.reset_at_each_iter:
            self._begin_all(self._root is None)
        options = RolloutOptions(
            self.frames_per_batch,
            None if self._draws_randomly() else self._call,
            any_stops=False,
            all_stops=self.whole_episodes,
            tensordict=self._root,
            trust_policy=self.trust_policy,
            storing_device=self._moved_to(),
            policy_device=self._called_on,
            goes_on=not self.whole_episodes,
        )
        self._root = None
        with set_exploration_type(self.exploration_type):
            batch = run_rollout(self.env, options)
        self._root = None if self.whole_episodes else options.following
        if options.policy is None and self.policy is not None:
            self._add_policy_outputs(batch)
        return cast("D", self._completed(batch))

    def _add_policy_outputs(self, batch: Any) -> None:
        """Write zeros for what the policy would have written, so that all batches have the same keys."""
        if self._outputs is None:
            place = self._called_on
            options = RolloutOptions(1, self._call, trust_policy=self.trust_policy, policy_device=place)
            with set_exploration_type(self.exploration_type):
                self._outputs = policy_outputs(self.env, options, self._root, {*batch.keys(True, True)})
        for key, zeros in self._outputs.items():
            batch.set(key, torch.stack([zeros] * self.frames_per_batch, self.env.ndim))

    def _begin_all(self, first: bool) -> None:
        """Begin episodes in all environments; the rollout itself begins the first."""
        self._root = None if first else self.env.reset()
        self._numbers.begin(self.env.batch_size)

    def _draws_randomly(self) -> bool:
        if self.policy is None:
            return True
        done = self.frames if self.replay_buffer is None else self.replay_buffer.write_count
        return done < self.init_random_frames

    def _moved_to(self) -> torch.device | None:
        """Where transitions are moved at once; None if the whole batch can be, or is there."""
        place = self.storing_device
        return None if place is None or self.env.device in (None, place) else place

    def _completed(self, batch: Any) -> Any:
        """A batch with what the collector itself says of it."""
        sets = self.env._env_layout.done_sets
        if self.storing_device is not None and batch.device != self.storing_device:
            batch = batch.to(self.storing_device)
        added: dict[Any, Any] = {}
        if self.whole_episodes:
            added[MASK_KEY] = in_first_episodes(batch, self.env._env_layout.root_sets)
        if self.track_traj_ids:
            over = ended(batch, self.env._env_layout.root_sets)
            added[TRAJECTORY_KEY] = self._numbers.numbered(over & (not self.whole_episodes))
        if self.track_policy_version:
            version = torch.full(batch.batch_size, self.version, device=batch.device)
            added["policy_version"], added["next", "policy_version"] = version, version.clone()
        for key, value in added.items():
            put_checked(batch, key, value if batch.device is None else value.to(batch.device))
        if self.set_truncated:
            mark_truncated(batch, sets)
        if self.compact_obs:
            keys = (*self.env.observation_keys, *self.env.state_keys)
            batch = batch.exclude(*[("next", *as_tuple(key)) for key in keys])
        if not self.return_same_td:
            return batch
        self._same = batch if self._same is None else self._same.update_(batch)
        return self._same

    @torch.no_grad()
    def reset(self, index: Any = None, **kwargs: Any) -> None:
        """Begin new episodes, and trajectories with new numbers.

        Args:
            index: of the environments, as an index into the batch size; None for all.
            **kwargs: of `env.reset`.

        Raises:
            RuntimeError: an index, and the environment has no batch.
        """
        env, size = self.env, self.env.batch_size
        if index is not None and not size:
            raise RuntimeError("reset(index) needs a batch of environments")
        if index is None or self._root is None:
            self._root = env.reset(**kwargs)
            self._numbers.begin(size)
            return
        mask = write_reset_masks(env, self._root, index)
        self._root = env.reset(self._root, select_reset_only=True, **kwargs)
        self._numbers.begin(size, mask)

    def forget_episodes(self) -> None:
        """Begin the next batch with new episodes, as the first."""
        self._root = None

    # weights, seeds, state

    def update_policy_weights_(
        self, policy_or_weights: Weights | None = None, *, worker_ids: Any = None
    ) -> None:
        """Give the policy new weights, in place, and count its version.

        Args:
            policy_or_weights: a tensordict of parameters and buffers, a module like the policy, or a state dict. None: the
                policy that the collector was given, which needs it only where it is called on another device.
            worker_ids: for collectors with workers.

        Raises:
            TypeError: there are weights, and the policy is no module.
            KeyError: the names of the weights are not the policy's.
            RuntimeError: their shapes are not the policy's.
        """
        del worker_ids
        if policy_or_weights is not None:
            load_weights(self.policy, policy_or_weights)
        elif self.policy is not self._given_policy:
            load_weights(self.policy, self._given_policy)
        self.version += 1

    def set_seed(self, seed: int, static_seed: bool = False) -> int | None:
        """Seed the environment; returns the seed for a next one, as `EnvBase.set_seed`."""
        return self.env.set_seed(seed, static_seed=static_seed)

    def state_dict(self) -> dict[str, Any]:
        """All that the next batches depend on, as tensors, numbers and text.

        A collector of the same arguments that loads it goes on bit by bit: policy, statistics, counters, episodes, and the random
        numbers of the environment and of torch. A simulator begins new episodes instead: ``"root"`` is None then.
        """
        random = random_states(self.env, self.policy_device, self.env.device)
        state: dict[str, Any] = {
            "env_state_dict": learned_state(self.env),
            "frames": self.frames,
            "iter": self._iter,
            "policy_version": self.version,
            "traj_pool": {"traj_id": self._numbers.free},
            "traj_ids": None if self._numbers.current is None else self._numbers.current.clone(),
            "root": None if random["env"] is None else plain_tensordict(self._root),
            "random_state": random,
        }
        if isinstance(self.policy, torch.nn.Module):
            state["policy_state_dict"] = self.policy.state_dict()
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], *, strict: bool = True) -> None:
        """Go on where the state dict was made; see `state_dict`.

        Args:
            state_dict: of a collector with the same arguments.
            strict: whether the names of all weights and statistics must agree.

        Raises:
            KeyError: it has no such entry.
            RuntimeError: weights or statistics do not agree.
        """
        if isinstance(self.policy, torch.nn.Module):
            self.policy.load_state_dict(state_dict["policy_state_dict"], strict=strict)
        load_learned_state(self.env, state_dict["env_state_dict"], strict=strict)
        self.frames, self._iter = int(state_dict["frames"]), int(state_dict["iter"])
        self.version = int(state_dict["policy_version"])
        self._numbers.free = int(state_dict["traj_pool"]["traj_id"])
        self._numbers.current = state_dict["traj_ids"]
        self._root = tensordict_of(state_dict["root"], self.env.device)
        go_on_with(self.env, state_dict["random_state"], self.frames)

    def shutdown(
        self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True
    ) -> None:
        """Close the collector, and its environment; may be repeated.

        Args:
            timeout: for collectors with workers.
            close_env: whether the environment is closed.
            raise_on_error: whether what the environment raises is passed on.
        """
        del timeout
        was_closed, self.closed, self._root = self.closed, True, None
        if close_env and not was_closed:
            with contextlib.suppress(*() if raise_on_error else (Exception,)):
                self.env.close(raise_if_closed=False)

    def __repr__(self) -> str:
        policy = "random actions" if self.policy is None else type(self.policy).__name__
        return f"{type(self).__name__}({self.env!r}, {policy}, frames_per_batch={self.requested_frames_per_batch})"
