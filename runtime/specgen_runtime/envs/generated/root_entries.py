"""What a step of a generated environment reads of a root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensordict import TensorDictBase

from specgen_runtime.envs.data_checks import check_entries
from specgen_runtime.envs.keys import MissingKeyError
from specgen_runtime.envs.layout import Entry

if TYPE_CHECKING:
    from specgen_runtime.envs.generated.env import GeneratedEnv

__all__ = ["check_root_entries", "needed_entries"]


def needed_entries(env: GeneratedEnv[Any, Any]) -> tuple[Entry, ...]:
    """What a root has to hold for a step: state, done flags, and the observations that transforms read."""
    layout = env._env_layout
    recalled = [e for e in layout.observation.entries if e.leaf.key in env._recalled]
    own = {e.leaf.key for e in layout.state.entries}
    return (*layout.state.entries, *layout.done.entries, *(e for e in recalled if e.leaf.key not in own))


def check_root_entries(env: GeneratedEnv[Any, Any], tensordict: TensorDictBase, method: str) -> None:
    """Refuse a root without what a step needs, or of other shapes or dtypes; `method` is what was called.

    A simulator whose state is no entry goes on without done flags.

    Raises:
        KeyError: an entry is missing.
        RuntimeError: one differs; for another dtype a TypeError, too.
    """
    for e in needed_entries(env):
        missing = e.leaf.find(tensordict) is None
        if missing and (transform := env._recalled.get(e.leaf.key)) is not None:
            found = ", ".join(sorted(map(repr, tensordict.keys(True, True))))
            raise MissingKeyError(
                f"{type(env).__name__}.{method}: {transform} reads {e.leaf} as it was before the step, and the"
                f" tensordict has none; found {found or 'nothing'}"
            )
        if not (missing and env._goes_on()):
            check_entries(env._env_layout, tensordict, [e], method)
