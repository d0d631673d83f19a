"""`GeneratedChatEnv`: environments of conversations that a schema declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

from specgen_runtime.envs.base import D, S
from specgen_runtime.envs.generated.importing import made_of_class
from specgen_runtime.llm.conversations.messages import Chat
from specgen_runtime.llm.envs.chat_env import ChatEnv
from specgen_runtime.llm.envs.prompts import Row, is_chat
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["GeneratedChatEnv"]


class GeneratedChatEnv(ChatEnv[D, S]):
    """Base of generated environments of conversations.

    What a schema names of the user's, where its prompts come from, its reward and its tools, is imported when an
    environment is made, not before.

    Args:
        source: where prompts come from, in place of what the schema names; see `ChatEnv`.
        **options: of `ChatEnv`.

    Raises:
        ImportError: a module that the schema names, or the function in it, does not exist.
        ValueError: an argument is none of `ChatEnv`; at a reset: a row of the source lacks a field that the reward
            reads.
        TypeError: at a reset: such a field has another type.
    """

    _source_path: ClassVar[str | None] = None
    """The function that gives the rows, as the schema names it: `package.module:function`; None for none."""

    _reward_path: ClassVar[str | None] = None
    """The reward function, likewise."""

    _tools_path: ClassVar[str | None] = None
    """The function that says what follows an answer, likewise."""

    _row_fields: ClassVar[Mapping[str, str]] = {}
    """What the reward reads of a row of the source: the type of each field, as the schema has it."""

    def __init__(
        self,
        *,
        source: Any = None,
        shuffle: bool = True,
        seed: int = 0,
        batch_size: Sequence[int] | int | None = None,
        device: DEVICE_TYPING | None = None,
        prompt: str,
        group: int,
        max_turns: int | None,
        metrics: Sequence[str] = (),
        system_prompt: str | None = None,
        input_mode: Literal["history", "text"] = "history",
        template: str | None = None,
    ) -> None:
        super().__init__(
            self._declared_source() if source is None else source,
            reward=self._named(self._reward_path, self._make_reward, "python"),
            tools=self._named(self._tools_path, self._make_tools, "tools"),
            max_turns=max_turns,
            group=group,
            metrics=metrics,
            seed=seed,
            shuffle=shuffle,
            input_mode=input_mode,
            batch_size=batch_size,
            system_prompt=system_prompt,
            template_kwargs=None if template is None else {"chat_template_name": template},
            data_key=prompt,
            device=device,
        )

    def _make_source(self) -> Any:
        """Import the function that gives the rows."""

    def _make_reward(self) -> Any:
        """Import the reward function."""

    def _make_tools(self) -> Any:
        """Import the function that says what follows an answer."""

    def _declared_source(self) -> Any:
        """What the function that the schema names gives; itself, if that can be read only once."""
        make = self._named(self._source_path, self._make_source, "source")
        rows = None if make is None else make()
        return make if isinstance(rows, Iterator) else rows

    def _named(self, path: str | None, make: Callable[[], Any], field: str) -> Any:
        return None if path is None else made_of_class(self, path, make, field, "function")

    def _conversation(self, row: Row) -> Chat:
        for name, kind in self._row_fields.items():
            self._check_field(row, name, kind)
        return super()._conversation(row)

    def _check_field(self, row: Row, name: str, kind: str) -> None:
        """Refuse a row without a field that the reward reads, or with another type under its name."""
        if name not in row:
            raise ValueError(
                f"{type(self).__name__}: a row of the source has no {name!r}, which the reward {self._reward_path} reads;"
                f" it has {', '.join(map(repr, row))}"
            )
        if not is_of(row[name], kind):
            found = row[name]
            raise TypeError(
                f"{type(self).__name__}: {name!r} of a row of the source is {type(found).__name__} {found!r:.80}, the"
                f" reward {self._reward_path} reads it as {kind}"
            )


def is_of(value: Any, kind: str) -> bool:
    """Whether a value is of a type of the language: `str`, `int`, `float`, `bool`, `messages`, `any`, `list[...]`.

    A whole number is a `float` too, a truth value is no number, and a tuple is a list.
    """
    if kind.startswith("list["):
        inner = kind.removeprefix("list[").removesuffix("]")
        return isinstance(value, list | tuple) and all(is_of(item, inner) for item in value)
    if kind == "messages":
        return is_chat(value)
    return kind == "any" or (isinstance(value, _KINDS[kind]) and isinstance(value, bool) is (kind == "bool"))


_KINDS: Mapping[str, tuple[type[Any], ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}
