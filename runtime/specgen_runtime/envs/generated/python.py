"""`GeneratedPythonEnv`: generated environments whose dynamics are a class that the user writes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import nn

from specgen_runtime.envs.base import D, S
from specgen_runtime.envs.generated.dynamics import PythonDynamics, VectorDynamics
from specgen_runtime.envs.generated.env import GeneratedEnv
from specgen_runtime.envs.generated.importing import made_of_class
from specgen_runtime.envs.generated.returned import Method
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["GeneratedPythonEnv"]


class GeneratedPythonEnv(GeneratedEnv[D, S]):
    """Base of generated environments that a user's class is behind.

    The class is imported when an environment is made, not before, so that generated code can be imported by the
    module that it stands in. Its object is `env.dynamics.python`; an `nn.Module` is a submodule of the environment
    too, so that its parameters are found and move along. Any other vectorised object is made anew where the
    environment moves to.

    Args:
        batch_size: the shape of the batch of environments.
        device: the device of all data; None leaves it open (tensors are on torch's default device).
        check_domains: whether to refuse NaN and values outside their declared domain, in what the class returns.
            It looks at each row: for debugging.

    Raises:
        ImportError: at `_build`, if the module that the schema names, or the class in it, does not exist.
        TypeError: at `_build`, if its object has no `reset` or no `step`.
    """

    _python_class: ClassVar[str]
    """The class as the schema names it: `package.module:Class`."""

    _python_records: ClassVar[tuple[type[Any], type[Any]]]
    """What `reset` and `step` of the class return."""

    _python_form: ClassVar[type[PythonDynamics[Any]]] = VectorDynamics
    """How its object is called."""

    @property
    def _keeps_state(self) -> bool:  # type: ignore[override]
        """Whether the object simulates, rather than compute the next state from the last."""
        return self._python_form is not VectorDynamics

    dynamics: Any
    """The user's object behind its boundary."""

    def __init__(
        self,
        *,
        batch_size: Sequence[int] | int = (),
        device: DEVICE_TYPING | None = None,
        check_domains: bool = False,
    ) -> None:
        super().__init__(batch_size=batch_size, device=device)
        self._check_domains = check_domains

    @abstractmethod
    def _make_python(self) -> Any:
        """Import the user's class and make its object."""

    def _build(self) -> None:
        super()._build()
        made: PythonDynamics[Any] | None = self.__dict__.get("dynamics")
        python = made.python if made is not None and self._keeps(made.python) else self._imported()
        methods = [
            Method(type(self).__name__, self._python_class, name, record)
            for name, record in zip(("reset", "step"), self._python_records, strict=True)
        ]
        self.dynamics = self._python_form(
            python,
            (methods[0], methods[1]),
            self._env_specs() or self._specs(),
            self._generator,
            self._device,
            self._check_domains,
        )
        if made is not None and made.python is python:
            self.dynamics.resume(made)
        if isinstance(python, nn.Module):
            self.add_module("python", python)

    def _keeps(self, python: Any) -> bool:
        """Whether an object is kept when the environment moves: what it holds is more than the declaration's."""
        return isinstance(python, nn.Module) or self._keeps_state

    def _imported(self) -> Any:
        """The user's object, new.

        Raises:
            ImportError: there is no such module, or no such class in it. What fails inside them is not touched.
        """
        python = made_of_class(self, self._python_class, self._make_python)
        return (
            python.to(self._device) if isinstance(python, nn.Module) and self._device is not None else python
        )

    def _set_seed(self, seed: int | None) -> None:
        super()._set_seed(seed)
        if seed is not None:
            self.dynamics.seed(seed)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the user's object too, if it has a `close`."""
        closed = self.is_closed
        super().close(raise_if_closed=raise_if_closed)
        if not closed:
            self.dynamics.close()
