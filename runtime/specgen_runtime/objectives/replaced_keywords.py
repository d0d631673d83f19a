"""Refuses keywords that losses once took in TorchRL, saying what takes their place."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

_INSTEAD = {
    "gamma": "loss.make_value_estimator(gamma=...)",
    "lmbda": "loss.make_value_estimator(lmbda=...)",
    "priority_key": "loss.set_keys(priority=...)",
    "advantage_key": "loss.set_keys(advantage=...)",
    "value_target_key": "loss.set_keys(value_target=...)",
    "value_key": "loss.set_keys(value=...)",
    "actor": "actor_network=...",
    "critic": "critic_network=...",
    "clip_value": "none, there is no critic whose values it would clip",
    "ref_log_prob_padding_side": "padded data, or rows of different lengths, which are padded on the left",
    "ref_log_prob_padding_value": "padded data, or rows of different lengths, which are padded with 0",
    "tokenizer": "the actor's, TransformersWrapper(..., tokenizer=...), which tells what the assistant said",
    "tokenizer_kwargs": "the actor's, TransformersWrapper(..., tokenizer_kwargs=..., chat_template_name=...)",
}


def refuse_replaced_keywords(cls: type, keywords: Iterable[str]) -> None:
    """Do nothing if the constructor of ``cls`` takes the keywords by itself, or if they are not among the replaced ones.

    Raises:
        TypeError: for a keyword that has been replaced, naming what takes its place.
    """
    for name in keywords:
        if name in _INSTEAD and name not in inspect.signature(cls.__init__).parameters:  # type: ignore[misc]
            raise TypeError(f"{cls.__name__} takes no {name}: use {_INSTEAD[name]}")
