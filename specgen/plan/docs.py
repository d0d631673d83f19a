"""Docstrings of generated classes: the contract in words, from the declaration."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby

from specgen.check.model import AgentGroup
from specgen.expr import SpecType, Type
from specgen.expr.symbols import Key
from specgen.literals import literal
from specgen.plan.interface import EnvInterface
from specgen.plan.per_env import param_doc
from specgen.plan.short_texts import domain_text, shape_text
from specgen.program.program import DONE_FLAGS

WIDTH = 100


def env_doc(interface: EnvInterface, *further: str) -> tuple[str, ...]:
    """What the environment is, `further` lines, and every key with shape, dtype and domain."""
    env = interface.env
    lines = [*wrapped(_what(interface)), "", *further]
    if env.groups:
        lines += ["Groups of agents:", *(line for group in env.groups for line in _group_doc(group)), ""]
    lines += ["Keys:"]
    line = partial(key_line, batched=env.gymnasium is None)
    keys = [line(o.key, o.spec, stored(o.type), o.doc) for o in interface.observations]
    others = [f for f in interface.root if f.visible and f.key in interface.extra]
    folded = {f.key for f in others}
    keys += [line(e.key, e.spec, e.stored_shape, e.doc) for e in env.state if e.key not in folded]
    # what a user's class returns is in a record, and declared
    known = {e.dotted: e.spec for e in env.observation} if env.python is not None else {}
    keys += [line(f.key, known.get(f.dotted), stored(f.type), f.doc, f.type.dtype) for f in others]
    keys += _flag_lines(interface, "*batch" if env.gymnasium is None else "")
    keys += [line(e.key, e.spec, e.stored_shape, e.doc) for e in env.action]
    keys += [line(("next", *o.key), o.spec, stored(o.type), o.doc) for o in interface.rewards]
    return (*lines, *items_doc(keys))


def init_doc(interface: EnvInterface) -> tuple[str, ...]:
    """What the environment is in a sentence, and the keywords of its constructor."""
    env = interface.env
    lines = ["Args:", *items_doc(interface.networks), *items_doc(map(param_doc, env.params))]
    if not env.keeps_state:
        lines.append("    batch_size: how many instances run side by side, any shape.")
    lines.append("    device: where the tensors live.")
    if env.gymnasium is not None:
        lines += hanging("**gym_kwargs: further keywords of `gymnasium.make`.")
    if env.python is not None:
        lines += hanging("check_domains: refuse NaN and values outside their domain; for debugging.")
    return (*summary(_what(interface)), "", *lines)


def _what(interface: EnvInterface) -> str:
    return interface.env.doc or f"The environment `{interface.name}`."


def _group_doc(group: AgentGroup) -> list[str]:
    """`    red: red_0, red_1, red_2; the ones that hunt`."""
    most = 8
    shown = ", ".join(group.agents if group.size <= most else (group.agents[0], "…", group.agents[-1]))
    return hanging(f"{group.name}: {shown}" + (f"; {group.doc}" if group.doc else ""))


def _flag_lines(interface: EnvInterface, batch: str) -> Iterator[str]:
    """`done, terminated, truncated: bool [*batch, 1]; the episode is over; it ended; it was cut off`."""
    flags = (field for field in interface.root if field.flag)
    for (_, shape), group in groupby(flags, lambda field: (field.key[:-1], stored(field.type))):
        found = list(group)
        if [field.key[-1] for field in found] != list(DONE_FLAGS):
            # Flags of other names say what each is for itself.
            for field in found:
                said = f"; {field.doc}" if field.doc else ""
                yield f"{_key_text(field.key)}: bool {_dims(batch, shape)}{said}"
            continue
        names = ", ".join(_key_text(field.key) for field in found)
        text = "; ".join(dict.fromkeys(field.doc for field in found if field.doc))
        yield f"{names}: bool {_dims(batch, shape)}" + (f"; {text}" if text else "")


def _key_text(key: Key) -> str:
    return key[0] if len(key) == 1 else literal(key)


def _dims(batch: str, shape: tuple[int, ...]) -> str:
    return shape_text(batch, shape) if batch else str(list(shape))


def key_line(
    key: tuple[str, ...],
    spec: SpecType | None,
    shape: tuple[int, ...],
    doc: str,
    dtype: str = "",
    *,
    batched: bool = True,
) -> str:
    """`("next", "reward"): float32 [*batch, 1]`."""
    domain = domain_text(spec) if spec is not None else ""
    dims = _dims("*batch" if batched else "", shape)
    text = f"{_key_text(key)}: {spec.dtype if spec is not None else dtype} {dims}{domain}"
    return f"{text}; {doc}" if doc else text


def wrapped(text: str) -> list[str]:
    """A paragraph: the first sentence on its own, as docstrings have it."""
    first, rest = _sentences(text)
    if not rest or len(first) > WIDTH:
        return textwrap.wrap(" ".join(text.split()), WIDTH)
    return [first, "", *textwrap.wrap(rest, WIDTH)]


def summary(text: str) -> list[str]:
    """The first sentence of a paragraph."""
    return textwrap.wrap(_sentences(text)[0], WIDTH)


_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:[A-Z]|al|approx|cf|e\.g|[Ee]qs?|[Ff]igs?|i\.e|[Nn]o|pp|resp|[Ss]ecs?|[Vv]ol|vs)$"
)
"""What a dot behind it makes short: that ends no sentence. So does the initial of a name."""


def _sentences(text: str) -> tuple[str, str]:
    """The first sentence, and the rest; what stands in parentheses ends none, nor does the dot of `et al.` or `eq.`."""
    text = " ".join(text.split())
    depth = 0
    for place, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "." and depth <= 0 and text.startswith(". ", place):
            begins = not (text[place + 2].islower() or text[place + 2].isdigit())
            if begins and not _ABBREVIATION.search(text[:place]):
                return text[: place + 1], text[place + 2 :]
    return text, ""


def hanging(text: str) -> list[str]:
    """An item of an `Args:` section."""
    return filled_lines(text, "    ", "        ")


def filled_lines(text: str, first: str = "", further: str = "") -> list[str]:
    """A text in lines that begin with `first`, and from the second on with `further`; words stay whole."""
    if text and len(first) + len(text) <= WIDTH and text.isprintable() and text.strip() == text:
        return [first + text]  # what `textwrap` takes a hundred times as long to find out
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def items_doc(texts: Iterable[str]) -> list[str]:
    """The items of an `Args:` or `Returns:` section."""
    return [line for text in texts for line in hanging(text)]


def stored(type: Type) -> tuple[int, ...]:
    """The feature shape in the tensordict: a column has a trailing 1."""
    return (*type.shape, 1) if type.col else type.shape
