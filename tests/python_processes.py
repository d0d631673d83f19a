"""Python programs in processes of their own that begin with torch imported, which alone would take them seconds.

A server that has imported torch and tensordict, and nothing else that it was not told to, makes a copy of itself for
each program (`fork`).
A program that is about imports or about the start of Python needs a new interpreter: `subprocess`.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SERVER = Path(__file__).with_name("python_process_server.py")
STARTUP = Path(__file__).with_name("startup")
"""Where each Python that tests start finds `sitecustomize`."""


def run_python(
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    imported: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """What `python ARGUMENTS` does: a file, or `-c` with a program, or `-m` with a module, and their arguments.

    Args:
        arguments: those of the command line.
        cwd: the folder that it runs in.
        env: its environment; this process's if None.
        imported: further modules that are imported when it begins: such as take seconds, too, and change nothing in it.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        request = {
            "arguments": arguments,
            "cwd": str(cwd or Path.cwd()),
            "env": {**(os.environ if env is None else env)},
            "out": str(out),
            "err": str(err),
        }
        server = _server(imported)
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(
            arguments, code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")
        )


@cache
def _server(imported: tuple[str, ...]) -> subprocess.Popen[str]:
    """The server that has imported these modules, too; it ends with this process."""
    environment = {**os.environ, "PYTHONPATH": str(STARTUP)}
    environment.pop("PYTHONHASHSEED", None)  # hashes of texts differ from those of this process
    server = subprocess.Popen(
        [sys.executable, str(SERVER), "tensordict", *imported],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    atexit.register(server.communicate)  # the end of its input is its own
    return server
