"""Names that a loss can't give: those of its generated class and functions, and keys that none can be."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.model import identifier, snake
from specgen.settings import LONGEST_NAME


def part_function(loss: str, part: str) -> str:
    """What the pure function of a part is called: `sac_actor` is the one of `SACLoss`."""
    return f"{snake(loss).removesuffix('_loss')}_{part}"


def part_record(loss: str, part: str) -> str:
    """What the record is called that this function returns: `SACActorTerms`."""
    words = "".join(word[:1].upper() + word[1:] for word in part.split("_"))
    return f"{loss.removesuffix('Loss') or loss}{words}Terms"


def part_name(output: str) -> str:
    """The name of the part whose first output this is."""
    return identifier(output).removeprefix("loss_")


def reserved_in_loss(name: str, outputs: Iterable[str]) -> dict[str, str]:
    """What nothing of the loss `name` with these outputs can be called, and why."""
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
        "var_nums",
    )
    keywords = (
        "action_space",
        "device",
        "functional",
        "reduction",
        "scalar_output_mode",
        "use_prioritized_weights",
    )
    parts = [part_name(output) for output in outputs]
    made = [snake(name), f"{name}Terms", f"{name}Output"]
    made += [form for part in parts for form in (part_function(name, part), part_record(name, part))]
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
