"""The server behind `python_processes`: reads a program a line, answers with the exit code of each.

Its arguments are modules that it imports at first.
"""

import gc
import json
import os
import runpy
import signal
import sys
from importlib import import_module
from typing import Any

import torch

FOUND_BY_THIS_PYTHON = sys.path[1:]
SECONDS = 300  # after them a program is killed


def next_program() -> dict[str, Any] | None:
    """Serve. Returns only in the copies that are to run a program, with the program, and at the end with None."""
    for line in sys.stdin:
        copy = os.fork()
        if copy == 0:
            return json.loads(line)  # type: ignore[no-any-return]
        _, status = os.waitpid(copy, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


def become(program: dict[str, Any]) -> None:
    """Take on the streams, the environment and the folder of a program."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, path in ((1, program["out"]), (2, program["err"])):
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), number)
    os.environ.clear()
    os.environ.update(program["env"])
    os.chdir(program["cwd"])
    added = [path for path in program["env"].get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = ["", *added, *FOUND_BY_THIS_PYTHON]
    torch.set_num_threads(1)  # test workers share the cores
    signal.alarm(SECONDS)


def run(arguments: list[str]) -> None:
    """Run a program as `python ARGUMENTS` does; how it ends, this process ends."""
    first, *others = arguments
    if first == "-c":
        sys.argv = ["-c", *others[1:]]
        exec(compile(others[0], "<string>", "exec"), {"__name__": "__main__"})
    elif first == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = others
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(first))
        sys.argv = arguments
        runpy.run_path(first, run_name="__main__")


for module in sys.argv[1:]:
    import_module(module)
gc.freeze()  # copies do not look for garbage among what they share, of which each would have to make its own
program = next_program()
if program is not None:
    become(program)
    run(program["arguments"])
