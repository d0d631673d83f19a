"""What entries are called in one word, for those who know no nested keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from specgen_runtime.envs.keys import as_tuple, join_key, show_key
from specgen_runtime.typing import NestedKey

__all__ = ["check_names", "flat", "one_word"]


def one_word(key: NestedKey) -> str:
    """A key in one word."""
    return ".".join(as_tuple(key))


def check_names(keys: Iterable[tuple[str, ...]]) -> None:
    """Raise a `ValueError` where two keys are one word."""
    named: dict[str, tuple[str, ...]] = {}
    for key in keys:
        other = named.setdefault(one_word(key), key)
        if other != key:
            both = " and ".join(show_key(join_key(one)) for one in sorted((other, key), key=len))
            raise ValueError(
                f"DeployedPolicy: {both} would both be called {one_word(key)!r}: give one another name"
            )


def flat(entries: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Entries by their keys in one word, those of dicts in dicts included."""
    for key, value in entries.items():
        name = (
            key if isinstance(key, str) else ".".join(map(str, key)) if isinstance(key, tuple) else str(key)
        )
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", one) for inner, one in flat(value))
        else:
            yield name, value
