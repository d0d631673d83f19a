"""`WrappingEnv`: environments around another one, which has whatever attributes they have not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from specgen_runtime.envs.base import D, EnvBase, S
from specgen_runtime.envs.generated.env import GeneratedEnv
from specgen_runtime.envs.generated.parameters import assigned
from specgen_runtime.hidden_errors import hidden_error

__all__ = ["WrappingEnv"]


class WrappingEnv(EnvBase[D, S]):
    """An environment around another one: that one is seeded, and its public attributes are found here, too.

    Attributes:
        base_env: the environment inside.
    """

    base_env: EnvBase[Any]

    def __setattr__(self, name: str, value: Any) -> None:
        inside = self.__dict__.get("_modules", {}).get("base_env")
        if name == "params" and inside is not None:
            inside.params = value  # which steps read
            return
        while isinstance(inside, WrappingEnv):
            inside = inside.base_env
        if isinstance(inside, GeneratedEnv):
            assigned(self, inside.params, name, value)
        super().__setattr__(name, value)

    if not TYPE_CHECKING:  # so that type checkers still find misspelt attributes

        def __getattr__(self, name: str) -> Any:
            """What this environment has no attribute for is looked up in the one that it wraps."""
            try:
                return super().__getattr__(name)
            except AttributeError:
                if (hidden := hidden_error(self, name)) is not None:
                    raise hidden from hidden.__cause__  # what stands inside under this name is another value
                inside = self.__dict__.get("_modules", {}).get("base_env")
                if inside is None or name.startswith("_"):
                    raise
            try:
                return getattr(inside, name)
            except AttributeError as error:
                raise AttributeError(
                    f"'{type(inside).__name__}' object has no attribute {name!r}, nor has the"
                    f" {type(self).__name__} around it"
                ) from error

    def _steps_rows(self) -> bool:
        return self.base_env._steps_rows()

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the environment inside; see `EnvBase.set_seed`."""
        return self.base_env.set_seed(seed, static_seed=static_seed)

    def _set_seed(self, seed: int | None) -> None:
        self.base_env._set_seed(seed)

    def share_memory(self) -> Self:
        """Put tensors where processes share them, those of the environment inside as it does."""
        super().share_memory()
        self.base_env.share_memory()
        return self

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close this environment and the one inside."""
        super().close(raise_if_closed=raise_if_closed)
        self.base_env.close(raise_if_closed=False)
