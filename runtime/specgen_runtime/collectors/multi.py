"""`MultiCollector`: several collectors in workers, wherever these run."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn

from specgen_runtime.collectors.arguments import Buffer, made_policy, refuse_contradictions, steps_of_batch
from specgen_runtime.collectors.base import BaseCollector
from specgen_runtime.collectors.policies import Weights, load_weights, weights_of
from specgen_runtime.collectors.trajectories import lengthened
from specgen_runtime.collectors.worker import Worker, WorkerLostError, pickled_worker, worker_seed
from specgen_runtime.envs.base import D, EnvBase
from specgen_runtime.envs.keys import TRAJECTORY_KEY

__all__ = ["EnvMakers", "MultiCollector"]

_MOST_DEATHS = 3
"""How many workers may die one after the other at a place before one of them gives a batch."""

EnvMakers = Callable[..., EnvBase[D, Any]] | Sequence[Callable[..., EnvBase[D, Any]]]


class MultiCollector(BaseCollector[D]):
    """Collectors in workers, which hold environments and copies of the policy.

    Each batch holds the number of weight updates of the policy that made it at ``"policy_version"``. A worker that dies is
    noticed at once: its batch is thrown away, and another one begins new episodes in its place, with a seed of its own.

    Args:
        create_env_fn: makes an environment in a worker; or one function for each.
        policy: as for `Collector`; each worker has a copy, which `update_policy_weights_` brings up to date.
        num_workers: how many, where one function makes all environments.
        policy_factory: makes the policy in the worker, in place of `policy`.
        frames_per_batch: how many transitions a batch has.
        total_frames: how many transitions to collect in all; -1: no end.
        create_env_kwargs: keyword arguments of the functions: a dict for all, or one for each.
        cat_results: how the workers' batches become one: ``"stack"`` them in a new first dimension (None), or join them in
            a dimension. Only for those that wait for all workers.
        update_at_each_batch: call `update_policy_weights_` before each batch.
        postproc: as for `Collector`, of whole batches, in this process.
        split_trajs: likewise.
        replay_buffer: likewise.
        track_policy_version: whether batches hold the version.
        post_collect_hook: likewise.
        **keywords: those of `Collector`, for each worker; and `init_fn`, which is called in each worker first.

    Attributes:
        num_workers: how many.
        policy: the one that was given here; workers have copies.
        lives: how many workers there were at each place before the present one.

    Raises:
        TypeError: a function makes no environment, or something can't be pickled.
        ValueError: the number of workers and of functions differ.
        WorkerLostError: three workers in a row died at one place without a batch.
        Exception: what a worker's environment or policy raised.
    """

    sync: bool

    def __init__(
        self,
        create_env_fn: EnvMakers[D],
        policy: Callable[..., Any] | None = None,
        *,
        num_workers: int | None = None,
        policy_factory: Callable[[], Callable[..., Any]] | None = None,
        frames_per_batch: int,
        total_frames: int = -1,
        create_env_kwargs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        cat_results: str | int | None = None,
        update_at_each_batch: bool = False,
        postproc: Callable[[Any], Any] | None = None,
        split_trajs: bool | None = None,
        replay_buffer: Buffer | None = None,
        track_policy_version: bool = True,
        post_collect_hook: Callable[[Any], None] | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(
            total_frames=total_frames,
            postproc=postproc,
            split_trajs=split_trajs,
            replay_buffer=replay_buffer,
            post_collect_hook=post_collect_hook,
        )
        makers: list[Any] = (
            [create_env_fn] * (num_workers or 1) if callable(create_env_fn) else list(create_env_fn)
        )
        self.num_workers = len(makers)
        if not makers or num_workers not in (None, len(makers)):
            raise ValueError(f"num_workers={num_workers}, and {len(makers)} functions that make environments")
        if any(isinstance(maker, EnvBase) or not callable(maker) for maker in makers):
            raise TypeError(
                "workers need functions that make environments: an environment is in one process only"
            )
        if not (cat_results in (None, "stack") or type(cat_results) is int):
            raise ValueError(f"cat_results is 'stack' or a dimension, found {cat_results!r}")
        if cat_results is not None and not self.sync:
            raise ValueError("cat_results is for batches of all workers: those here are of one")
        self.whole_episodes = bool(keywords.get("whole_episodes"))
        if self.whole_episodes:
            refuse_contradictions(split_trajs=split_trajs, buffer=replay_buffer, whole=True)
        self.cat_results = "stack" if cat_results is None else cat_results
        self.update_at_each_batch = update_at_each_batch
        self.policy = made_policy(policy, None)
        if policy is not None and policy_factory is not None:
            raise TypeError("policy and policy_factory exclude each other")
        one = create_env_kwargs is None or isinstance(create_env_kwargs, Mapping)
        kwargs: Any = [create_env_kwargs or {}] * len(makers) if one else create_env_kwargs
        frames = steps_of_batch(frames_per_batch, self.num_workers) if self.sync else frames_per_batch
        self.requested_frames_per_batch = frames * (self.num_workers if self.sync else 1)
        keywords |= {
            "policy": policy,
            "policy_factory": policy_factory,
            "frames_per_batch": frames,
            "track_policy_version": track_policy_version,
            "traj_id_stride": self.num_workers,
        }
        self._pickled: list[bytes] = []
        for place, (maker, own) in enumerate(zip(makers, kwargs, strict=True)):
            same = place and maker is makers[place - 1] and own is kwargs[place - 1]
            made = self._pickled[-1] if same else pickled_worker(maker, own, place, keywords)
            self._pickled.append(made)  # once for all that are alike: policies may be large
        self._seed = int(torch.randint(2**31, ()).item())
        self.lives = [0] * self.num_workers
        self._deaths = [0] * self.num_workers
        self._numbers = list(range(self.num_workers))
        self._weights: Any = None
        self._has_factory = policy_factory is not None
        self._waiting: list[tuple[int, Any]] = []
        self._workers: list[Worker] = []
        try:
            self._workers += [self._start(place, self._seed_of(place)) for place in range(self.num_workers)]
            for place, worker in enumerate(self._workers):
                worker.receive()
                worker.call("number", place)
        except BaseException:
            self._end_all(0.0)
            raise
        self.closed = False

    @abstractmethod
    def _start(self, place: int, seed: int) -> Worker:
        """Start a worker, which answers once when it has begun."""

    @abstractmethod
    def _wait(self, workers: Sequence[Worker]) -> list[Worker]:
        """Wait for the first of some workers that have answered or ended."""

    def _seed_of(self, place: int) -> int:
        return worker_seed(self._seed, place, self.lives[place])

    # collecting

    def _ask(self, place: int) -> None:
        """Let a worker collect a batch, with the newest weights."""
        worker = self._workers[place]
        weights = None if worker.version == self.version else self._weights
        frames = self.frames if self.replay_buffer is None else self.replay_buffer.write_count
        try:
            worker.send("collect", (frames, self.version, weights))
        except WorkerLostError as error:
            self._replace(place, error)
            self._ask(place)
            return
        worker.version = self.version

    def _answer(self, place: int) -> Any:
        """A worker's batch, or None if it died: then another one collects in its place."""
        try:
            batch = self._workers[place].receive()
        except WorkerLostError as error:
            self._replace(place, error)
            self._ask(place)
            return None
        self._deaths[place] = 0
        numbers = batch.get(TRAJECTORY_KEY, None)
        if numbers is not None:
            self._numbers[place] = int(numbers.max()) + self.num_workers
        return batch

    def _replace(self, place: int, error: WorkerLostError) -> None:
        """Start a worker with a seed of its own in place of one that died.

        Raises:
            WorkerLostError: several died there one after the other.
        """
        self._workers[place].close(0.0)
        self.lives[place] += 1
        self._deaths[place] += 1
        if self._deaths[place] >= _MOST_DEATHS:
            raise WorkerLostError(
                f"{error}; {_MOST_DEATHS} workers in a row died there without a batch"
            ) from error
        self._workers[place] = self._start(place, self._seed_of(place))
        try:
            self._workers[place].receive()
            self._workers[place].call("number", self._numbers[place])
        except WorkerLostError as again:
            self._replace(place, again)

    def _collected(self) -> Any:
        self._refuse_if_closed()
        if self.update_at_each_batch:
            self.update_policy_weights_()
        return self._of_all() if self.sync else self._of_first()

    def _of_all(self) -> Any:
        for place in range(self.num_workers):
            self._ask(place)
        found: dict[int, Any] = {}
        while len(found) < self.num_workers:
            late = [place for place in range(self.num_workers) if place not in found]
            ready = self._wait([self._workers[place] for place in late])
            for place in late:
                if self._workers[place] in ready and (batch := self._answer(place)) is not None:
                    found[place] = batch
        batches = [found[place] for place in range(self.num_workers)]
        if self.whole_episodes:
            longest = max(batch.shape[-1] for batch in batches)
            batches = [lengthened(batch, longest) for batch in batches]
        if isinstance(self.cat_results, int):
            return torch.cat(batches, self.cat_results)
        stacked: Any = torch.stack(batches, 0)
        stacked.names = [*[None] * (stacked.ndim - 1), "time"]
        return stacked

    def _of_first(self) -> Any:
        self._ask_idle()
        while not self._waiting:
            self._gather(self._wait(self._workers))
        batch = self._waiting.pop(0)[1]
        if not self.update_at_each_batch:  # the next one waits for what is learned of this one
            self._ask_idle()
        return batch

    def _ask_idle(self) -> None:
        for place, worker in enumerate(self._workers):
            if not worker.busy and not any(place == other for other, _ in self._waiting):
                self._ask(place)

    def _gather(self, ready: Sequence[Worker]) -> None:
        for place, worker in enumerate(list(self._workers)):
            if worker in ready and (batch := self._answer(place)) is not None:
                self._waiting.append((place, batch))

    def _settle(self) -> None:
        """Wait until no worker is collecting."""
        while busy := [worker for worker in self._workers if worker.busy]:
            self._gather(self._wait(busy))

    def _call_all(self, command: str, arguments: Sequence[Any]) -> list[Any]:
        self._refuse_if_closed()
        self._settle()
        return [self._call(place, command, argument) for place, argument in enumerate(arguments)]

    def _call(self, place: int, command: str, argument: Any) -> Any:
        try:
            return self._workers[place].call(command, argument)
        except WorkerLostError as error:
            self._replace(place, error)
            return self._call(place, command, argument)

    # weights, seeds, state

    def update_policy_weights_(
        self, policy_or_weights: Weights | None = None, *, worker_ids: Any = None
    ) -> None:
        """Give the workers new weights with the next batch that each begins, and count their version.

        Args:
            policy_or_weights: a tensordict, a module or a state dict, which is also written into `policy`. None: the
                weights of `policy` as they are now.
            worker_ids: accepted; all workers get all weights.

        Raises:
            TypeError, KeyError, RuntimeError: as `Collector.update_policy_weights_`.
        """
        del worker_ids
        if policy_or_weights is not None and not self._has_factory:
            load_weights(self.policy, policy_or_weights)
        elif policy_or_weights is not None:
            self._weights = policy_or_weights
        if isinstance(self.policy, nn.Module):
            weights: TensorDictBase = weights_of(self.policy)
            self._weights = weights.detach().cpu().clone().consolidate()
        self.version += 1

    def set_seed(self, seed: int, static_seed: bool = False) -> int | None:
        """Seed the workers, each by `worker_seed`, and begin new episodes; returns the seed.

        Args:
            seed: any integer.
            static_seed: accepted; each worker has a seed of its own.
        """
        del static_seed
        self._seed = int(seed)
        self.lives = [0] * self.num_workers
        self._call_all("seed", [self._seed_of(place) for place in range(self.num_workers)])
        self._waiting.clear()
        return seed

    def reset(self) -> None:
        """Begin new episodes in all workers."""
        self._call_all("reset", [None] * self.num_workers)
        self._waiting.clear()

    def state_dict(self) -> dict[str, Any]:
        """The state of each worker, that of the policy here, and what is counted; batches that are waiting are not in it.

        Workers that get the weights of the policy with each batch have none of their own in it.
        """
        apart = not (self.update_at_each_batch and isinstance(self.policy, nn.Module))
        states = self._call_all("state", [apart] * self.num_workers)
        counted = {
            "frames": self.frames,
            "iter": self._iter,
            "policy_version": self.version,
            "seed": self._seed,
        }
        own = {"policy_state_dict": self.policy.state_dict()} if isinstance(self.policy, nn.Module) else {}
        return {
            **{f"worker{i}": state for i, state in enumerate(states)},
            **counted,
            **own,
            "lives": list(self.lives),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where the state dict was made. Raises KeyError if it is of another number of workers."""
        expected = {f"worker{i}" for i in range(self.num_workers)}
        found = {name for name in state_dict if name.startswith("worker")}
        if found != expected:
            raise KeyError(f"the state dict is of {len(found)} workers, expected {len(expected)}")
        common = {key: state_dict[key] for key in ("policy_state_dict",) if key in state_dict}
        self._call_all("load", [{**common, **state_dict[f"worker{i}"]} for i in range(self.num_workers)])
        self._waiting.clear()
        self.frames, self._iter = int(state_dict["frames"]), int(state_dict["iter"])
        self.version, self._seed = int(state_dict["policy_version"]), int(state_dict["seed"])
        self.lives = list(state_dict["lives"])
        workers = [state_dict[f"worker{i}"] for i in range(self.num_workers)]
        self._numbers = [int(state["traj_pool"]["traj_id"]) for state in workers]
        if isinstance(self.policy, nn.Module):
            self.policy.load_state_dict(state_dict["policy_state_dict"])
            self._weights = weights_of(self.policy).cpu().clone().consolidate()
        for worker in self._workers:
            worker.version = self.version

    def shutdown(
        self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True
    ) -> None:
        """End the workers; may be repeated. Those that collect are ended at once.

        Args:
            timeout: how many seconds the others have to close their environments. None: 10.
            close_env: accepted; environments end with their workers.
            raise_on_error: accepted; nothing is raised.
        """
        del close_env, raise_on_error
        if not self.closed:
            self.closed = True
            self._end_all(10.0 if timeout is None else timeout)

    def _end_all(self, timeout: float) -> None:
        for worker in self._workers:
            worker.close(timeout if math.isfinite(timeout) else 10.0)
        self._workers = []
        self._waiting = []
