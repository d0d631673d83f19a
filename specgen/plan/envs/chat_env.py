"""An environment of conversations: the Protocols of the user's functions, and a thin class around the runtime's."""

from __future__ import annotations

from specgen.check.model import Checked, CheckedEnv, PythonSource
from specgen.check.rewards import ChatSource
from specgen.code import using
from specgen.plan.data import data_plan
from specgen.plan.docs import env_doc, items_doc, summary
from specgen.plan.envs.model import ChatEnvPlan, UserFunctionPlan
from specgen.plan.interface import EnvInterface, entry_field, flag_fields
from specgen.plan.items import Item
from specgen.plan.model import Argument
from specgen.plan.rewards import chat_items, rows_type


def plan_chat_env(checked: Checked[CheckedEnv]) -> tuple[list[Item], EnvInterface]:
    """Plan an environment with a `chat:` field."""
    env = checked.value
    chat = chat_of(env)
    root = (*map(entry_field, env.state), *flag_fields(env))
    interface = EnvInterface(
        env=env,
        root=root,
        next=(*root, *map(entry_field, env.reward)),
        observations=env.observation,
        rewards=env.reward,
    )
    fields = {} if chat.reward is None else chat.reward.reads
    plan = ChatEnvPlan(
        env.name,
        env_doc(interface),
        chat_init_doc(env),
        chat_keywords(env),
        tuple(_functions(env.name, chat)),
        dict(fields),
        tuple((name, value) for name, value in _options(chat).items()),
    )
    return [*chat_items(env, chat), plan, *data_plan(interface)], interface


def chat_of(env: CheckedEnv) -> ChatSource:
    """What is behind an environment of conversations."""
    if env.chat is None:
        raise AssertionError("no conversations")
    return env.chat


def chat_keywords(env: CheckedEnv) -> tuple[Argument, ...]:
    """The keywords of the constructor."""
    rows = rows_type(env, chat_of(env))
    return (
        Argument("source", using(f"{rows} | None", *rows.uses), "None"),
        Argument("shuffle", "bool", "True"),
        Argument("batch_size", using("Sequence[int] | int | None", "Sequence"), "None"),
        Argument("seed", "int", "0"),
        Argument("device", using("DEVICE_TYPING | None", "DEVICE_TYPING"), "None"),
    )


def chat_init_doc(env: CheckedEnv, *networks: str) -> tuple[str, ...]:
    """What the environment is in a sentence, and the keywords of its constructor."""
    chat = chat_of(env)
    instead = "" if chat.source is None else f", in place of what `{chat.source.text}` gives"
    left_out = (
        "" if chat.source is not None else f"; None: each reset reads `{chat.prompt}` in its tensordict"
    )
    args = (
        *networks,
        f"source: the rows that conversations begin with{instead}{left_out}.",
        "shuffle: whether a source that is a sequence is shuffled in each epoch.",
        f"batch_size: of the conversations, a multiple of {chat.group} or a divisor of it: each {chat.group} are about"
        f" one prompt; None: ({chat.group},)."
        if chat.group > 1
        else "batch_size: how many conversations run side by side, any shape; None: (1,).",
        "seed: of the order of the rows.",
        "device: where the tensors live.",
    )
    what = env.doc or f"The environment `{env.name}`."
    return (*summary(what), "", "Args:", *items_doc(args))


def _functions(name: str, chat: ChatSource) -> list[UserFunctionPlan]:
    """The functions that the class imports when it is made."""
    found: list[UserFunctionPlan] = []

    def add(role: str, source: PythonSource | None, protocol: str) -> None:
        if source is not None:
            found.append(UserFunctionPlan(role, source.text, source.module, source.name, protocol))

    add("source", chat.source, f"{name}Source")
    if chat.reward is not None:
        add("reward", chat.reward.python, chat.reward.protocol)
    add("tools", chat.tools, f"{name}Tools")
    return found


def _options(chat: ChatSource) -> dict[str, object]:
    """What the runtime's class is told, but for what is as by default."""
    options: dict[str, object] = {"prompt": chat.prompt, "group": chat.group, "max_turns": chat.max_turns}
    if chat.reward is not None and chat.reward.metrics:
        options["metrics"] = list(chat.reward.metrics)
    if chat.system is not None:
        options["system_prompt"] = chat.system
    if chat.input != "history":
        options["input_mode"] = chat.input
    if chat.template is not None:
        options["template"] = chat.template
    return options
