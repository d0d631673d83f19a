"""What new processes inherit, made fit to be inherited."""

from __future__ import annotations

import os

__all__ = ["clear_unset_options"]

_OPTIONS = ("CAPTURE_NONTENSOR_STACK", "LAZY_LEGACY_OP", "LIST_TO_STACK")


def clear_unset_options() -> None:
    """Take tensordict's options that are not set out of the environment variables.

    Where an option was set for a while, tensordict (0.14) leaves the text `"None"` behind, at which a new process
    stumbles: "invalid truth value 'none'".
    """
    for name in _OPTIONS:
        if os.environ.get(name) == "None":
            del os.environ[name]
