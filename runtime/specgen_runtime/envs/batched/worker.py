"""What runs in the process of a `ParallelEnv`'s environment."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from multiprocessing import connection, parent_process
from typing import Any

import torch
from tensordict import TensorDictBase

from specgen_runtime.envs.batched.arguments import checked_env
from specgen_runtime.envs.batched.buffers import BufferLayout, pack
from specgen_runtime.envs.batched.memory import mapped
from specgen_runtime.envs.batched.messages import Failure, dumps, loads
from specgen_runtime.envs.batched.rows import flat_leaves
from specgen_runtime.envs.batched.worker_env import WorkerEnv
from specgen_runtime.envs.mdp import following_root
from specgen_runtime.envs.packing import peek

__all__ = [
    "DONE",
    "FAILED",
    "MESSAGE",
    "RESET",
    "ROOT",
    "STEP",
    "STEP_AND_RESET",
    "WITHOUT",
    "leave_with_parent",
    "run_worker",
]

# Commands: one byte, so that a step costs one system call.
MESSAGE = b"m"  # a pickled command follows
STEP = b"s"
STEP_AND_RESET = b"r"
RESET = b"0"
WITHOUT = {STEP: b"S", STEP_AND_RESET: b"R"}  # a mask follows: roots that are absent
_PLAIN = {without: command for command, without in WITHOUT.items()}

# Answers.
DONE = b"k"
ROOT = b"n"  # done, and the root buffers hold the root after a reset
ANSWER = b"a"  # a pickled answer follows
FAILED = b"f"  # a pickled Failure follows


def run_worker(
    place: int,
    function: bytes,
    commands: connection.Connection,
    answers: connection.Connection,
    inherited: Sequence[connection.Connection],
    threads: int | None,
) -> None:
    """Make an environment and do what the pipe says, until it ends.

    Args:
        place: which of the environments it is.
        function: the pickled function that makes it, and its keyword arguments.
        commands: where commands come from.
        answers: where answers go.
        inherited: ends of pipes that a forked process has and must not keep open.
        threads: how many threads torch may use.
    """
    for end in inherited:
        end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that owns the environments
    threading.Thread(target=leave_with_parent, daemon=True, name="watch-parent").start()
    worker = _Worker(place, commands, answers)
    try:
        if threads is not None:
            torch.set_num_threads(threads)
        if not worker.begin(function):
            return
        worker.serve()
    except (BrokenPipeError, EOFError):
        pass  # nobody is listening any more
    finally:
        worker.end()


def leave_with_parent() -> None:
    """End this process as soon as its parent is gone, whatever the environment is doing."""
    parent, known = parent_process(), os.getppid()
    assert parent is not None
    while not connection.wait([parent.sentinel], timeout=1.0) and os.getppid() == known:
        pass
    os._exit(1)


class _Worker:
    """The state of a worker: its environment, and the buffers once they are known."""

    def __init__(self, place: int, commands: connection.Connection, answers: connection.Connection) -> None:
        self.place = place
        self.commands, self.answers = commands, answers
        self.reader, self.writer = commands.fileno(), answers.fileno()
        self.worker_env: WorkerEnv | None = None
        self.buffers: BufferLayout | None = None
        self.extra: Any = None  # what the environment's root holds besides the buffers, as a tensordict

    def begin(self, function: bytes) -> bool:
        """Make the environment and describe it."""
        try:
            create, kwargs = loads(function)
            self.worker_env = WorkerEnv(checked_env(create(**kwargs), self.place))
            self.answer(self.worker_env.do("describe", None))
        except Exception as error:
            self.fail(error)
            return False
        return True

    def end(self) -> None:
        """Close the environment."""
        if self.worker_env is not None:
            self.worker_env.do("close", None)

    def answer(self, value: Any) -> None:
        """Send a value."""
        data = dumps(value)
        os.write(self.writer, ANSWER)
        self.answers.send_bytes(data)

    def fail(self, error: Exception) -> None:
        """Send an exception."""
        os.write(self.writer, FAILED)
        self.answers.send_bytes(dumps(Failure(error)))

    def serve(self) -> None:
        """Do what the pipe says."""
        read, reader, write, writer = os.read, self.reader, os.write, self.writer
        while command := read(reader, 1):
            try:
                if command == MESSAGE:
                    name, argument = loads(self.commands.recv_bytes())
                    if name == "close":
                        return
                    self.answer(self.message(name, argument))
                    continue
                absent = 0
                if command in _PLAIN:
                    absent = int.from_bytes(self.commands.recv_bytes(), "little")
                    command = _PLAIN[command]
                answer = self.reset() if command == RESET else self.step(command == STEP_AND_RESET, absent)
            except (BrokenPipeError, EOFError):
                raise
            except Exception as error:
                self.extra = None
                self.fail(error)
                continue
            if answer is not None:
                write(writer, answer)

    # commands whose data come by the pipe

    def message(self, name: str, argument: Any) -> Any:
        """A command of `WorkerEnv`, or the buffers."""
        assert self.worker_env is not None
        if name == "buffers":
            self.attach(*argument)
            return None
        result = self.worker_env.do(name, argument)
        if self.buffers is not None:
            if name == "reset":
                self.extra = _extra(result, self.known)
            elif name == "step":
                self.extra = self.extra_after(argument.set("next", result))
            elif name == "step_and_maybe_reset":
                self.extra = _extra(result[1], self.known)
        return result

    def extra_after(self, record: Any) -> Any:
        """What the root after a transition holds besides the buffers."""
        assert self.worker_env is not None
        return _extra(following_root(self.worker_env.env._env_layout.step_plan, record), self.known)

    # commands whose data are in the buffers

    def attach(self, buffers: BufferLayout, path: str, count: int) -> None:
        """Map the memory of the buffers."""
        assert self.worker_env is not None
        env = self.worker_env.env
        views = buffers.views(mapped(path, buffers.nbytes(count)), count)
        self.buffers = buffers
        self.inputs, self.roots, self.nexts = ([tensor[self.place] for tensor in group] for group in views)
        self.device, self.batch_size = env.device, env.batch_size
        self.next_keys = [buffer.key for buffer in buffers.nexts]
        self.root_keys = [buffer.key for buffer in buffers.roots]
        self.known = {buffer.path for buffer in (*buffers.inputs, *buffers.roots)}
        self.known_next = {buffer.path for buffer in buffers.nexts}

    def root(self, absent: int) -> Any:
        """The root that the caller has: what is in the buffers, and what it was not sent.

        Args:
            absent: a bit for each root buffer that the caller left out.
        """
        assert self.buffers is not None
        buffers, values = [*self.buffers.inputs], [*self.inputs]
        for i in self.buffers.seen:
            if not absent >> i & 1:
                buffers.append(self.buffers.roots[i])
                values.append(self.roots[i])
        # Copies: the environment may keep them, and the buffers will be written again.
        device = self.device
        copies = [value.clone() if device is None else value.to(device, copy=True) for value in values]
        root = pack(buffers, copies, self.buffers.sizes, torch.Size(()), self.batch_size, device)
        return root if self.extra is None else root.update(self.extra)

    def reset(self) -> bytes | None:
        """Start a new episode."""
        assert self.worker_env is not None
        root = self.worker_env.env.reset()
        for tensor, key in zip(self.roots, self.root_keys, strict=True):
            tensor.copy_(peek(root, key))
        self.extra = _extra(root, self.known)
        if self.extra is None:
            return ROOT
        self.answer((True, None, self.extra))
        return None

    def step(self, resets: bool, absent: int) -> bytes | None:
        """Take a step from the root that is in the buffers; see `root`."""
        assert self.worker_env is not None
        assert self.buffers is not None
        env, root = self.worker_env.env, self.root(absent)
        if resets:
            record, following = env.step_and_maybe_reset(root)
        else:
            record, following = env.step(root), None
        taken = record.get("next")
        values = [peek(taken, key) for key in self.next_keys]
        for tensor, value in zip(self.nexts, values, strict=True):
            tensor.copy_(value)
        new_root = False
        if following is not None:
            roots = [peek(following, key) for key in self.root_keys]
            new_root = any(
                value is not values[same] for value, same in zip(roots, self.buffers.shared, strict=True)
            )
            if new_root:
                for tensor, value in zip(self.roots, roots, strict=True):
                    tensor.copy_(value)
        extra = _extra(taken, self.known_next)
        extra_root = None
        if following is not None:
            self.extra = extra_root = _extra(following, self.known)
        elif extra is not None or self.extra is not None:
            self.extra = self.extra_after(record)
        if extra is None and extra_root is None:
            return ROOT if new_root else DONE
        self.answer((new_root, extra, extra_root))
        return None


def _extra(tensordict: TensorDictBase, known: set[tuple[str, ...]]) -> Any:
    """The entries that have no buffer, or None."""
    leaves = flat_leaves(tensordict)
    names = [path for path, _ in leaves if path not in known]
    return tensordict.select(*names) if names else None
