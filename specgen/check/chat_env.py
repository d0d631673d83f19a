"""Environments of conversations: what they name of the user's, and what their data hold; nothing is imported here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from specgen.check.language_models.model import TEMPLATES
from specgen.check.model import Checked, CheckedEnv, Entry, Role, reward_entry
from specgen.check.names import Names, refused, reserved_in_env
from specgen.check.python_source import python_source
from specgen.check.rewards import PROMPT_TYPES, ChatSource, CheckedReward
from specgen.check.sources import PythonSource
from specgen.check.unseen import unseen
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import llm as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import SpecType
from specgen.expr.symbols import Key
from specgen.schema.chat import Chat
from specgen.schema.load import SchemaFile, find

_SAID_BY_CHAT = (
    "dims",
    "groups",
    "params",
    "consts",
    "functions",
    "state",
    "action",
    "observation",
    "reward",
    "done",
    "masks",
    "reset",
    "step",
    "observe",
    "render",
    "gymnasium",
    "python",
)
"""The fields of an environment that have no place beside `chat`."""

_UNLIMITED: Final = "unlimited"

_KEYS = {
    **dict.fromkeys(("group", "turn"), "every environment of conversations has this key"),
    **dict.fromkeys(
        ("history", "text", "metrics"), "it is a group of keys of every environment of conversations"
    ),
    **dict.fromkeys(("action", "reward"), "it would stand beside the action and the reward"),
    **dict.fromkeys(("tokens", "masks", "log_probs"), "it is what language models write"),
}
"""What the field that holds the prompt can't be called, and why."""


def check_chat_env(
    file: SchemaFile,
    name: str,
    module: str,
    rewards: Mapping[str, CheckedReward],
    declared: Collection[str],
    sink: Sink,
) -> Checked[CheckedEnv] | None:
    """Check an environment with a `chat:` field.

    Args:
        file: where it is declared.
        name: its name under `envs:`.
        module: the generated module that it goes to, dotted.
        rewards: the checked rewards that it may name.
        declared: the names of all rewards in sight, those with mistakes included.
        sink: takes every mistake.
    """
    env = file.module.envs[name]
    path = ("envs", name)
    if env.chat is None:
        return None
    mine = Sink()
    for field in _SAID_BY_CHAT:
        if getattr(env, field):
            message = f"`{field}` has no place in an environment of conversations"
            help = (
                "`chat` says what is observed, what is done, and what it is worth; leave one of the two out"
            )
            mine.add(schema_rules.WRONG_TARGET.at(file.key_span(*path, field), message, help=help))
    source = _source_of(file, (*path, "chat"), env.chat, module, rewards, declared, mine)
    names = Names(mine, {**reserved_in_env(name, ()), **_KEYS})
    where = file.span(*path, "chat", "prompt")
    if "." in env.chat.prompt:
        mine.add(refused(env.chat.prompt, "a field of a row is one word", "field", where))
    else:
        names.claim(env.chat.prompt, "observation key", where)
    sink.extend(mine.items)
    if mine.has_errors or source is None:
        return None
    metrics = () if source.reward is None else source.reward.metrics
    return Checked(
        CheckedEnv(
            name=name,
            module=module,
            doc=" ".join(env.doc.split()),
            state=tuple(_state(source)),
            action=(
                _objects(
                    (source.input, "full"), "action", f"the {_WHAT[source.input]} with an answer after it"
                ),
            ),
            observation=tuple(_number(("metrics", name), "observation") for name in metrics),
            reward=(reward_entry(("reward",)),),
            done_dims={(): ()},
            chat=source,
        )
    )


def _source_of(
    file: SchemaFile,
    path: tuple[str, ...],
    chat: Chat,
    module: str,
    rewards: Mapping[str, CheckedReward],
    declared: Collection[str],
    sink: Sink,
) -> ChatSource | None:
    """What is behind an environment; None where it names a reward that is not there or has mistakes."""

    def function(field: str) -> PythonSource | None:
        if getattr(chat, field) is None:
            return None
        return python_source(file.scalar(*path, field), module, sink, "function", "function")

    for field, number, help in (
        ("group", chat.group, "write 1 for conversations that share no prompt"),
        ("max_turns", chat.max_turns, "write `unlimited` for no limit"),
    ):
        if number != _UNLIMITED and number < 1:
            message = f"`{field}` is at least 1, got {number}"
            sink.add(rules.CHAT_NUMBER.at(file.span(*path, field), message, help=help))
    _check_turns(file, path, chat, sink)
    _check_text(file, path, chat, sink)
    reward = None
    if chat.reward is not None:
        reward = rewards.get(chat.reward)
        if reward is None and chat.reward not in declared:
            span = file.span(*path, "reward")
            sink.add(unseen("reward", chat.reward, ("rewards",), declared, span))
    if reward is not None and (kind := reward.reads.get(chat.prompt, "any")) not in PROMPT_TYPES:
        message = f"the prompt `{chat.prompt}` is text or messages, and `{reward.name}` reads it as `{kind}`"
        place = "prompt" if find(file.root, (*path, "prompt")) is not None else "reward"
        help = f"write `{chat.prompt}: str` under `reads` of the reward, or name another field as `prompt`"
        sink.add(rules.PROMPT_TYPE.at(file.span(*path, place), message, help=help))
    source, tools = function("source"), function("tools")
    if chat.reward is not None and reward is None:
        return None
    return ChatSource(
        source,
        chat.prompt,
        chat.system,
        chat.group,
        None if chat.max_turns == _UNLIMITED else chat.max_turns,
        reward,
        tools,
        chat.input,
        chat.template,
    )


def _check_turns(file: SchemaFile, path: tuple[str, ...], chat: Chat, sink: Sink) -> None:
    if chat.tools is None and chat.max_turns == _UNLIMITED:
        message = "without `tools` and without a limit, a conversation never ends and is never rewarded"
        help = "write `max_turns: 1`, or `tools: package.module:function`, which says when it is over"
        sink.add(rules.ENDLESS.at(file.span(*path, "max_turns"), message, help=help))
    elif chat.tools is not None and chat.max_turns == 1:
        message = "nobody answers what `tools` say: a conversation has one answer here"
        sink.add(
            rules.UNHEARD_TOOLS.at(file.key_span(*path, "tools"), message, help="write `max_turns: 4`, say")
        )


def _check_text(file: SchemaFile, path: tuple[str, ...], chat: Chat, sink: Sink) -> None:
    if chat.input == "text" and chat.template is None:
        message = "`input: text` needs `template`: which text a conversation is"
        help = "write `template: chatml_format`, say, or `input: history`, which models render themselves"
        sink.add(rules.TEXT_TEMPLATE.at(file.span(*path, "input"), message, help=help))
    elif chat.input == "history" and chat.template is not None:
        message = "`template` makes texts, and with `input: history` there are none"
        help = "write `input: text`, or leave it out: models have templates of their own"
        sink.add(rules.TEXT_TEMPLATE.at(file.key_span(*path, "template"), message, help=help))
    elif chat.template is not None and chat.template not in TEMPLATES:
        message = f"unknown chat template `{chat.template}`"
        help = suggestion(chat.template, TEMPLATES) or f"known are {', '.join(TEMPLATES)}"
        sink.add(rules.UNKNOWN_MODEL.at(file.span(*path, "template"), message, help=help))


_WHAT = {"history": "conversation", "text": "text"}


def _state(source: ChatSource) -> list[Entry]:
    """What a step reads, which is observed too."""
    found = [_objects(("history", "prompt"), "state", "the conversation so far, a list of messages")]
    if source.input == "text":
        found.append(_objects(("text", "prompt"), "state", "the conversation so far, as a text"))
    found.append(_objects((source.prompt,), "state", "the source's row, a dict"))
    found.append(_number(("group",), "state", "int64", "the number of the prompt, as prompts were drawn"))
    found.append(_number(("turn",), "state", "int64", "how many answers the conversation has"))
    return found


def _objects(key: Key, role: Role, doc: str) -> Entry:
    """An entry that holds one Python object for each row of the batch."""
    spec = SpecType("object", "object", ())
    return Entry(key, role, spec, spec.type(), doc)


def _number(
    key: Key, role: Role, dtype: str = "float32", doc: str = "0 until the conversation has ended"
) -> Entry:
    spec = SpecType("unbounded", dtype, (1,))
    return Entry(key, role, spec, spec.type(), doc)
