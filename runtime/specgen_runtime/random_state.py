"""The states of torch's generators: the default ones, read, set, and lent to one's own; those that a policy draws with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor, nn


def random_state(device: torch.device) -> Tensor:
    """The state of torch's default generator of a device."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def set_random_state(device: torch.device, state: Tensor) -> None:
    """Set the state of torch's default generator of a device."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


_LENT: list[torch.Generator] = []
"""The generators whose states torch's default generators have at the moment."""


def drawing_from(generator: torch.Generator | None) -> AbstractContextManager[None]:
    """Let everything inside draw from ``generator``, also what takes none; nothing changes with None.

    Within itself it has no effect: the draws inside follow those before them.
    """
    if generator is None or any(lent is generator for lent in _LENT):
        return _UNCHANGED
    return _Lent(generator)


_UNCHANGED = nullcontext()


class _Lent(AbstractContextManager[None]):
    """Torch's default generator of a device in the state of another, which goes on from there."""

    __slots__ = ("_before", "_default", "_generator")

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        self._default = _default_generator(generator.device)

    def __enter__(self) -> None:
        self._before = self._default.get_state()
        self._default.set_state(self._generator.get_state())
        _LENT.append(self._generator)

    def __exit__(self, *_: object) -> None:
        _LENT.pop()
        self._generator.set_state(self._default.get_state())
        self._default.set_state(self._before)


def _default_generator(device: torch.device) -> torch.Generator:
    """Torch's default generator of the CPU or of a CUDA device."""
    if device.type != "cuda":
        return torch.default_generator
    torch.cuda.init()  # type: ignore[no-untyped-call]
    index = torch.cuda.current_device() if device.index is None else device.index
    default: torch.Generator = torch.cuda.default_generators[index]
    return default


def load_generator(generator: torch.Generator, state: Tensor) -> None:
    """Let a generator go on from a state.

    That of a generator of another kind of device, whose algorithm this one does not know, is the seed of new numbers.

    Args:
        generator: of any device.
        state: what `get_state` of another gave.
    """
    if state.numel() == generator.get_state().numel():
        generator.set_state(state.cpu())
        return
    digest = blake2b(state.cpu().numpy().tobytes(), digest_size=8).digest()
    generator.manual_seed(int.from_bytes(digest, "big") >> 1)


def plain_generator(generator: torch.Generator | None) -> tuple[bytes, str] | None:
    """The state and the device of a generator, which any process can be sent; None of None."""
    return None if generator is None else (generator.get_state().numpy().tobytes(), str(generator.device))


def generator_of(plain: tuple[bytes, str] | None) -> torch.Generator | None:
    """A generator that draws what the one goes on to draw that `plain_generator` was given."""
    if plain is None:
        return None
    state, device = plain
    generator = torch.Generator(device)
    generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
    return generator


@contextmanager
def drawing_nothing(policy: Any, device: torch.device) -> Iterator[None]:
    """What is drawn inside is drawn again behind it: by the policy's generators and torch's own of the CPU and of ``device``."""
    own = {generator: generator.get_state() for generator in policy_generators(policy)}
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            for generator, state in own.items():
                generator.set_state(state)


def policy_generators(policy: Any) -> list[torch.Generator]:
    """The generators that the modules of a policy draw with, each once, in the order of the modules."""
    modules = policy.modules() if isinstance(policy, nn.Module) else ()
    found = (
        each for module in modules for each in vars(module).values() if isinstance(each, torch.Generator)
    )
    return list({id(each): each for each in found}.values())
