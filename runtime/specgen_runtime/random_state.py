"""The state of torch's default generators, read, set, and lent to a generator of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor


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
        return nullcontext()
    return _lent(generator)


@contextmanager
def _lent(generator: torch.Generator) -> Iterator[None]:
    """Torch's default generator of a device in the state of another, which goes on from there."""
    device = generator.device
    before = random_state(device)
    set_random_state(device, generator.get_state())
    _LENT.append(generator)
    try:
        yield
    finally:
        _LENT.remove(generator)
        generator.set_state(random_state(device))
        set_random_state(device, before)


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
