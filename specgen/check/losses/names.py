"""Names that a loss can't give: those of its generated class and functions, and keys that none can be."""

from __future__ import annotations

from specgen.check.model import snake
from specgen.settings import LONGEST_NAME


def reserved_in_loss(name: str) -> dict[str, str]:
    """What nothing of the loss `name` can be called, and why."""
    variables = (
        "given",
        "keys",
        "mask",
        "network",
        "outputs",
        "next_tensordict",
        "tensordict",
        "terms",
        "value_estimate",
    )
    keywords = ("action_space", "functional", "reduction", "scalar_output_mode", "use_prioritized_weights")
    made = (snake(name), f"{name}Terms", f"{name}Output")
    return {
        **dict.fromkeys((*variables, *made), "generated code calls something else so"),
        **dict.fromkeys(keywords, "every loss has this keyword"),
    }


def data_key_refusal(key: str) -> str | None:
    """Why a text can't be the default key of a role, or ``None``.

    No expression reads it and nothing is called after it, so it can be nearly any text: keys are the data's own.
    """
    if not all(key.split(".")):
        return "a part of it is empty" if key else "it is empty"
    if len(key) > LONGEST_NAME:
        return f"a key has at most {LONGEST_NAME} characters, this one has {len(key):,}"
    hidden = next((char for char in key if not char.isprintable()), None)
    return None if hidden is None else f"U+{ord(hidden):04X} can't be seen"
