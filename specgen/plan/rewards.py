"""Functions of the user's about conversations: the Protocols that they satisfy, and the rows that they are given."""

from __future__ import annotations

from specgen.check.model import CheckedEnv
from specgen.check.rewards import LISTS, ChatSource, CheckedReward
from specgen.code import Code, named, using
from specgen.plan.docs import wrapped
from specgen.plan.items import Item
from specgen.plan.model import Argument, Field, FunctionPlan, Line, ProtocolPlan, TypedDictPlan

ANSWERS = using("Sequence[Sequence[Message]]", "Sequence", "Message")
_PROMPT = using("str | Sequence[Message]", "Sequence", "Message")


def reward_items(reward: CheckedReward) -> list[Item]:
    """The Protocol of a reward function, behind the type of the rows that it reads."""
    items: list[Item] = []
    rows: Code = using("Sequence[Mapping[str, Any]]", "Sequence", "Mapping", "Any")
    if reward.reads:
        what = f"What `{reward.python.text}` reads of the row that a conversation began with."
        fields = tuple(Field(name, _type_code(kind)) for name, kind in reward.reads.items())
        items.append(TypedDictPlan(reward.row, named("TypedDict"), (what,), fields))
        rows = using(f"Sequence[{reward.row}]", "Sequence", reward.row)
    returns = using("Sequence[float] | Tensor", "Sequence", "Tensor")
    told = "a number for each conversation, a sequence or float32 `[conversations]`."
    if reward.metrics:
        returns = named("Scores")
        told = f"`Scores` with a number for each conversation, and the metrics {_listed(reward.metrics)}."
    doc = (
        "The rewards of conversations that have ended.",
        "",
        "Args:",
        "    answers: the conversations; the last message of each is the last answer.",
        "    rows: of each, the row that it began with.",
        "",
        "Returns:",
        f"    {told}",
    )
    args = (Argument("answers", ANSWERS), Argument("rows", rows))
    what = f"What `{reward.python.text}` has to be: a function that rewards conversations. {reward.doc}"
    return [*items, _protocol(reward.protocol, what, args, returns, doc)]


def chat_items(env: CheckedEnv, chat: ChatSource) -> list[Item]:
    """The type of the rows of an environment, and the Protocols of the functions that it names."""
    items: list[Item] = [_row(env, chat)]
    row = f"{env.name}Row"
    if chat.source is not None:
        what = f"What `{chat.source.text}` has to be: a function that gives the rows which conversations begin with."
        gives = (
            "The rows: a sequence, which is shuffled, a loader, or any other iterable.",
            "",
            "A generator function is called again when its rows are used up, any other one once.",
        )
        items.append(_protocol(f"{env.name}Source", what, (), rows_type(env, chat), gives))
    if chat.tools is not None:
        what = f"What `{chat.tools.text}` has to be: a function that says what follows an answer."
        doc = (
            "The messages that follow an answer, or None at the end of the conversation.",
            "",
            "Args:",
            "    chat: the conversation; its last message is the answer.",
            "    row: the row that it began with.",
        )
        args = (
            Argument("chat", using("Sequence[Message]", "Sequence", "Message")),
            Argument("row", named(row)),
        )
        returns = using("Sequence[Message] | None", "Sequence", "Message")
        items.append(_protocol(f"{env.name}Tools", what, args, returns, doc))
    return items


def rows_type(env: CheckedEnv, chat: ChatSource) -> Code:
    """The type of a source: rows, and where nothing else is read of them, prompts."""
    row = f"{env.name}Row"
    others = chat.reward is not None and chat.reward.reads.keys() - {chat.prompt}
    kinds = row if others else f"{row} | str | Sequence[Message]"
    return using(f"Iterable[{kinds}]", "Iterable", row, *(() if others else ("Sequence", "Message")))


def _row(env: CheckedEnv, chat: ChatSource) -> TypedDictPlan:
    """The type of a row: what is asked, and what the reward reads."""
    reward = chat.reward
    reads = {} if reward is None else reward.reads
    base = named(reward.row) if reward is not None and reads else named("TypedDict")
    fields = () if chat.prompt in reads else (Field(chat.prompt, _PROMPT, doc="What is asked."),)
    doc = (f"What `{env.name}` knows of a row of its source.",)
    return TypedDictPlan(f"{env.name}Row", base, doc, fields)


def _type_code(kind: str) -> Code:
    """The annotation of a type of a field."""
    if kind in LISTS:
        inner = _type_code(LISTS[kind])
        return using(f"Sequence[{inner}]", "Sequence", *inner.uses)
    if kind == "messages":
        return using("Sequence[Message]", "Sequence", "Message")
    return named("Any") if kind == "any" else Code(kind)


def _protocol(
    name: str, what: str, args: tuple[Argument, ...], returns: Code, doc: tuple[str, ...]
) -> ProtocolPlan:
    call = FunctionPlan("__call__", args, returns, doc, (Line("..."),), method=True, positional=True)
    return ProtocolPlan(name, tuple(wrapped(what)), (call,))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
