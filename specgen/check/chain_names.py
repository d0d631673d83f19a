"""The keys that the transforms of a chain write: each is a field of a record and a variable of its functions."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.chain_model import ChainKey
from specgen.check.model import Key, dotted
from specgen.check.names import env_words, key_refusal, refused
from specgen.diagnostics import Diagnostic, Span


def unusable_key(
    key: Key, known: Iterable[ChainKey], chain: str, env: str, transform: str, span: Span
) -> Diagnostic | None:
    """What is wrong with a key that a transform writes, or ``None``.

    Args:
        key: the key.
        known: the keys there are.
        chain: the chain's name.
        env: the name of its environment.
        transform: who writes it.
        span: where that stands.
    """
    written = "_".join(key)
    reason = next((reason for part in key if (reason := key_refusal(part, foreign=True))), None)
    reason = reason or {**env_words(env, ()), **env_words(chain, ())}.get(written)
    same = next((other for other in known if other.name == written and other.key != key), None)
    if reason is None and same is not None:
        reason = f"in Python it is the same as `{same.dotted}`"
    return None if reason is None else refused(dotted(key), reason, f"key of `{transform}`", span)
