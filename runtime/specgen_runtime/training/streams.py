"""Seeds of random streams that know nothing of each other."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["stream"]


def stream(seed: int, name: str) -> int:
    """The seed of the random numbers called `name`, in a training with this seed.

    It is a digest of both: a stream that is added or left out changes no other, and neighbouring seeds share nothing.

    Args:
        seed: the seed of the training, any integer.
        name: what the numbers are for, such as `"env"` or `"evaluate/4000"`.

    Returns:
        At least 0 and less than 2**63: a seed for torch's generators, environments and NumPy.

    Raises:
        TypeError: `seed` is no integer, or `name` no text.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"stream: seed must be an int, found {type(seed).__name__}")
    if not isinstance(name, str):
        raise TypeError(f"stream: name must be a str, found {type(name).__name__}")
    digest = blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
