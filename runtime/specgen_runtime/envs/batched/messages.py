"""What crosses between processes: functions, values, and exceptions with their types."""

from __future__ import annotations

import io
import pickle
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = ["Failure", "Sealed", "dumps", "dumps_function", "first_failure", "loads"]

_VIEWS = {torch.bfloat16: torch.int16}  # NumPy has no such dtype


class _Pickler(pickle.Pickler):
    """Pickles tensors by value: torch's own way for processes moves them to shared memory, one file each."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is torch.Tensor and value.layout is torch.strided and not value.is_nested:
            plain = value.detach().cpu()
            if plain.dtype in _VIEWS:
                return _tensor, (plain.contiguous().view(_VIEWS[plain.dtype]).numpy(), plain.dtype)
            if plain.dtype.is_floating_point or plain.dtype.is_complex or plain.dtype in _EXACT:
                return _tensor, (plain.contiguous().resolve_neg().resolve_conj().numpy(), None)
        return NotImplemented


_EXACT = frozenset((torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))


def _tensor(array: Any, dtype: torch.dtype | None) -> torch.Tensor:
    tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
    return tensor if dtype is None else tensor.view(dtype)


def dumps(value: Any) -> bytes:
    """Pickle a value; tensors arrive on the CPU."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def loads(data: bytes) -> Any:
    """Unpickle what `dumps` or `dumps_function` made."""
    return pickle.loads(data)


class Sealed:
    """A value that is pickled already: where that fails, the rest of a message can still be sent.

    Args:
        value: the value.

    Raises:
        Exception: it can't be pickled.
    """

    def __init__(self, value: Any) -> None:
        self._data = dumps(value)

    def open(self) -> Any:
        """The value."""
        return loads(self._data)


def dumps_function(function: Callable[..., Any], kwargs: dict[str, Any], place: int) -> bytes:
    """Pickle a function that makes an environment, and its keyword arguments; with cloudpickle if it is installed.

    Raises:
        TypeError: they can't be pickled; says what to do.
    """
    try:
        import cloudpickle  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        cloudpickle = None
    try:
        data: bytes = (pickle if cloudpickle is None else cloudpickle).dumps((function, kwargs))
    except Exception as error:
        hint = "" if cloudpickle is not None else ", or install cloudpickle, which can send lambdas too"
        raise TypeError(
            f"the function that makes environment {place} can't be sent to another process: {error}. Let it make"
            " everything it needs when it is called (files, locks, simulators), and pass it arguments by"
            f" create_env_kwargs; or use a function at the top level of a module, or functools.partial of one{hint}"
        ) from error
    return data


class Failure:
    """An exception on its way to another process.

    Args:
        error: the exception, while it is being handled.
    """

    def __init__(self, error: BaseException) -> None:
        self.name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
        try:
            self.text = str(error)
        except Exception:
            self.text = "(its message can't be shown)"
        self.trace = "".join(traceback.format_exception(error))
        self.pickled = _pickled_error(error)

    def rebuild(self, who: str) -> BaseException:
        """The exception, of its own type where that can be: otherwise a RuntimeError that shows it.

        Args:
            who: where it happened; a note tells it, with the traceback.
        """
        error: BaseException | None = None
        if self.pickled is not None:
            try:
                error = loads(self.pickled)
            except Exception:
                error = None
        if not isinstance(error, BaseException):
            error = RuntimeError(f"{self.name}: {self.text}")
        error.add_note(f"in {who}:\n{self.trace}")
        return error


def first_failure(failures: Sequence[tuple[int, Failure]], who: str) -> BaseException:
    """The exception of the first of some environments; notes tell of the others.

    Args:
        failures: with the places of the environments; at least one.
        who: as for `Failure.rebuild`.
    """
    error = failures[0][1].rebuild(who)
    for place, other in failures[1:]:
        error.add_note(f"environment {place} failed too: {other.name}: {other.text}")
    return error


def _pickled_error(error: BaseException) -> bytes | None:
    """The exception as bytes that rebuild one of its type, or None."""
    state = {name: value for name, value in vars(error).items() if name != "__notes__"}
    for value in (error, _Parts(error, state), _Parts(error, {})):
        try:
            data = pickle.dumps(value)
            if type(pickle.loads(data)) is type(error):
                return data
        except Exception:
            continue
    return None


class _Parts:
    """Pickles as an exception whose constructor is not called: it may take other arguments than `args`."""

    def __init__(self, error: BaseException, state: dict[str, Any]) -> None:
        self.error = error
        self.state = state

    def __reduce__(self) -> Any:
        return _assemble, (type(self.error), self.error.args, self.state)


def _assemble(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error
