"""`ChatEnv`: conversations about the prompts of a data set, as an environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, cast

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs import EnvBase
from specgen_runtime.envs.base import D, S
from specgen_runtime.llm.conversations.containers import ChatHistory
from specgen_runtime.llm.conversations.incremental_tokenizer import IncrementalTokenizer
from specgen_runtime.llm.conversations.messages import Chat, as_rows, chats_of
from specgen_runtime.llm.envs.chat_tokens import form_of
from specgen_runtime.llm.envs.prompts import GroupedPrompts, Prompts, Row
from specgen_runtime.llm.envs.rewards import Reward, check_reward, scores_of, told_of
from specgen_runtime.llm.envs.tools import Tools, check_tools, messages_of
from specgen_runtime.specs import Categorical, Composite, NonTensor, Unbounded
from specgen_runtime.specs.non_tensors.data import elements
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["ChatEnv"]

_OWN = ("history", "text", "tokens", "attention_mask", "masks", "group", "turn", "metrics")
"""Entries that the row of the source can't have the place of."""


class ChatEnv(EnvBase[D, S]):
    """Conversations about the prompts of a source, with a reward for each when it has ended.

    A reset takes the next prompts and observes the conversations that begin with them; the action is the same
    conversations with an answer at the end, which is what a language model's wrapper writes. A step appends what `tools`
    say to the answer and observes the longer conversations, or ends them.

    Entries, with one Python object for each row of the batch where no dtype is given:

    - ``("history", "prompt")``, observed: a conversation, a list of messages;
    - ``("history", "full")``, the action: it with a message of `policy_role` after it. What the action spec itself
      draws stands for an empty answer;
    - with ``input_mode="text"``, ``("text", "prompt")``, observed: the conversation as the chat template renders it,
      a string; and ``("text", "full")``, the action in place of the other: it with an answer after it;
    - with ``input_mode="tokens"``, ``("tokens", "prompt")``, observed, int64 ``[*batch, pad_to]``, padded on the left, with
      ``"attention_mask"``, bool; and ``("tokens", "full")``, the action, whose mask is ``("masks", "all_attention_mask")``;
    - `data_key`, observed: the source's row, a dict;
    - ``"group"``, observed, int64 ``[*batch, 1]``: the number of the prompt, counted as prompts were drawn;
    - ``"turn"``, observed, int64 ``[*batch, 1]``: how many answers the conversation has;
    - ``"reward"``, float32 ``[*batch, 1]``: 0 until the end; ``("metrics", name)`` likewise, observed;
    - ``"done"``, ``"terminated"``, ``"truncated"``.

    `state_dict` holds the place in the source and the groups that are not full. That of an environment with
    transforms is its transforms': the place is in `env.base_env.state_dict()`.

    Args:
        source: where prompts come from, see `Prompts`. None: each reset reads `data_key` in its tensordict, a string
            or a conversation for each row.
        reward: given the conversations that have ended at a step and their rows, their rewards; see `Reward`.
            None: rewards are 0.
        tools: given a conversation that ends with an answer, and its row, the messages that follow before the next
            answer, or None if the conversation is over. None: no messages follow.
        max_turns: the most answers in a conversation. With `tools` it is truncated then, otherwise it has this many
            answers and is terminated. None: there is no limit.
        group: how many conversations are about one prompt; `repeats` is another word for it.
        metrics: the names of the metrics that `reward` gives (see `Scores`).
        seed: of the order of the prompts; `set_seed` begins anew with another one.
        shuffle: whether a source that is a sequence is shuffled in each epoch.
        input_mode: ``"history"``, ``"text"`` or ``"tokens"``: what models read and write.
        batch_size: of the conversations, a multiple of `group` or a divisor of it; None: `(group,)`.
        system_prompt: a first message for conversations that begin without one of the system's.
        tokenizer: whose chat template makes texts and tokens; needed for them alone.
        template_kwargs: `chat_template` or `chat_template_name`, to take another one, and variables of the template.
        system_role, user_role, policy_role: the roles in messages; `policy_role` None accepts answers of any role.
        data_key: the entry of a row that holds the prompt, and of the data that holds the row; None for "query".
        pad_to: the width of tokens, which the prompts that follow last answers fit into, too; needed for them alone.
        device: of the data.

    Raises:
        TypeError: `reward` or `tools` is no function, `source` no source, or `system_prompt` no text.
        ValueError: an argument is none of these, or batch size and group don't fit.
    """

    def __init__(
        self,
        source: Any = None,
        *,
        reward: Reward | None = None,
        tools: Tools | None = None,
        max_turns: int | None = 1,
        group: int | None = None,
        repeats: int | None = None,
        metrics: Sequence[str] = (),
        seed: int = 0,
        shuffle: bool = True,
        input_mode: Literal["history", "text", "tokens"] = "history",
        batch_size: Sequence[int] | int | None = None,
        system_prompt: str | None = None,
        tokenizer: Any = None,
        template_kwargs: Mapping[str, Any] | None = None,
        system_role: str = "system",
        user_role: str = "user",
        policy_role: str | None = "assistant",
        data_key: str | None = None,
        pad_to: int | None = None,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        if max_turns is not None and max_turns < 1:
            raise ValueError(f"max_turns is at least 1, got {max_turns}")
        if group is not None and repeats not in (None, group):
            raise ValueError(f"repeats is another word for group, got {group} and {repeats}")
        size = next((each for each in (group, repeats) if each is not None), 1)
        if not isinstance(cast("object", system_prompt), str | None):
            raise TypeError(f"system_prompt is a text, got {system_prompt!r:.80}")
        if data_key in _OWN:
            raise ValueError(f"data_key={data_key!r} is an entry of the environment's own: give another one")
        check_reward(reward)
        check_tools(tools)
        super().__init__(batch_size=(size,) if batch_size is None else batch_size, device=device)
        self.prompts = GroupedPrompts(
            None if source is None else Prompts(source, data_key or "query", seed, shuffle),
            self.batch_size.numel(),
            size,
        )
        self.__dict__["reward_function"] = reward  # a model is not a part of the environment
        self.input_mode = input_mode
        self.form = form_of(input_mode, tokenizer, template_kwargs, pad_to)
        self.tools = tools
        self.max_turns = max_turns
        self.metrics = tuple(metrics)
        self.system_prompt = system_prompt
        self.system_role, self.user_role, self.policy_role = system_role, user_role, policy_role
        self.data_key = data_key or "query"
        self._placeholder: Chat = [
            {"role": user_role, "content": ""},
            {"role": policy_role or "assistant", "content": ""},
        ]
        self._set_specs()

    @classmethod
    def from_dataloader(
        cls,
        dataloader: Any,
        *,
        repeats: int | None = None,
        group_repeats: bool = False,
        batch_size: Sequence[int] | int | None = None,
        primers: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Make an environment with the prompts of a loader.

        Args:
            dataloader: the source.
            repeats: how many conversations are about one prompt.
            group_repeats: multiply the batch size by `repeats`.
            batch_size: one dimension; None: the loader's, or 1.
            primers: not taken: the whole row is in the data, under `data_key`.
            **kwargs: of the constructor.

        Raises:
            ValueError: there are primers, or several dimensions.
        """
        if primers is not None:
            raise ValueError("primers: what a loader gives needs no specs, the whole row is in the data")
        size = getattr(dataloader, "batch_size", None) or 1 if batch_size is None else batch_size
        sizes = (size,) if isinstance(size, int) else tuple(size)
        if len(sizes) > 1:
            raise ValueError(f"batch_size has one dimension, got {sizes}")
        rows = sizes[0] if sizes else 1
        if repeats and group_repeats:
            sizes = (rows * repeats,)
        return cls(dataloader, group=repeats or 1, batch_size=sizes, **kwargs)

    @classmethod
    def with_tokenizer(cls, *args: Any, tokenizer: Any, pad_to: int | None = None, **kwargs: Any) -> Any:
        """Make an environment that observes the tokens of its conversations, too: see `IncrementalTokenizer`.

        Args:
            *args: of the constructor.
            tokenizer: of `transformers`.
            pad_to: the width of tokens; None for the longest row's.
            **kwargs: of the constructor.

        Returns:
            A `TransformedEnv`.
        """
        env = cls(*args, tokenizer=tokenizer, **kwargs)
        options = dict(kwargs.get("template_kwargs") or {})
        named = {name: options.pop(name, None) for name in ("chat_template", "chat_template_name")}
        return env.append_transform(
            IncrementalTokenizer(tokenizer, pad_to=pad_to, variables=options, **named)
        )

    def _set_specs(self) -> None:
        size, device = self.batch_size, self.device

        def objects(example: Any) -> NonTensor:
            return NonTensor(size, device=device, example_data=example, batched=True)

        def composite(kind: Any = None, **entries: Any) -> Composite:
            return Composite(entries, shape=size, device=device, data_cls=kind)

        number = Unbounded((*size, 1), dtype=torch.int64, device=device)
        value = Unbounded((*size, 1), dtype=torch.float32, device=device)
        flag = Categorical(2, (*size, 1), dtype=torch.bool, device=device)
        carried = {
            **({} if self.form is None else self.form.observed_specs(size, device)),
            "history": composite(ChatHistory, prompt=objects(self._placeholder[:1])),
            self.data_key: objects({self.data_key: ""}),
            "group": number,
            "turn": number.clone(),
        }
        self.state_spec = composite(**carried).clone()
        if self.metrics:
            carried["metrics"] = composite(**{name: value.clone() for name in self.metrics})
        self.observation_spec = composite(**carried)
        if self.form is None:
            self.action_spec = composite(history=composite(ChatHistory, full=objects(self._placeholder)))
        else:
            self.action_spec = self.form.action_spec(size, device)
        self.reward_spec = value
        self.done_spec = composite(done=flag, terminated=flag.clone(), truncated=flag.clone())

    # the contract of EnvBase

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            self.prompts.restart(seed)

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        count = self.batch_size.numel()
        chosen = _rows_in(tensordict, "_reset", count)
        if tensordict is None or "_reset" not in tensordict:
            self.prompts.align()
        given = None if self.prompts.prompts is not None else self._given(tensordict, count)
        rows: list[Row] = [{self.data_key: ""}] * count
        chats: list[Chat] = [self._placeholder[:1]] * count
        groups = [0] * count
        for index in chosen:
            row, groups[index] = self.prompts.next_of(index)
            rows[index] = row if given is None else given[index]
            chats[index] = self._conversation(rows[index])
        return self._record(chats, rows, groups, [0] * count, self._scores([], [], []))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        count = self.batch_size.numel()
        stepping = _rows_in(tensordict, "_step", count)
        for key in (self.data_key, ("history", "prompt"), "group", "turn"):
            if tensordict.get(key, None) is None:
                raise KeyError(f"a step of ChatEnv reads {key!r}, which a reset writes: it is missing")
        rows: list[Row] = elements(tensordict.get(self.data_key))
        chats = chats_of(tensordict.get(("history", "prompt")))
        full = self._answered(tensordict, chats, stepping)
        turns = [turn + 1 for turn in tensordict.get("turn").flatten().tolist()]
        terminated, truncated = [False] * count, [False] * count
        for index in stepping:
            last = self.max_turns is not None and turns[index] >= self.max_turns
            with told_of("tools", self.tools, rows[index : index + 1]):
                said = () if self.tools is None else self.tools(full[index], rows[index])
            terminated[index] = last if self.tools is None else said is None
            truncated[index] = last and not terminated[index]
            chats[index] = full[index] + messages_of(said)
        ended = [index for index in stepping if terminated[index] or truncated[index]]
        scores = self._scores([full[index] for index in ended], [rows[index] for index in ended], ended)
        groups = tensordict.get("group").flatten().tolist()
        following = self._record(chats, rows, groups, turns, scores, tensordict)
        following.set("reward", scores["reward"])
        flags = {"terminated": self._column(terminated), "truncated": self._column(truncated)}
        return following.update({**flags, "done": flags["terminated"] | flags["truncated"]})

    # conversations

    def _given(self, tensordict: TensorDictBase | None, count: int) -> list[Row]:
        """The rows that a reset was given, in place of a source's."""
        value = None if tensordict is None else tensordict.get(self.data_key, None)
        if value is None:
            raise RuntimeError(
                f"{type(self).__name__} has no source of prompts: reset needs a tensordict with {self.data_key!r}, a"
                " string or a conversation for each row"
            )
        prompts: list[Any] = list(chats_of(value)) if hasattr(value, "to_chats") else elements(value)
        if len(prompts) != count:
            raise RuntimeError(f"reset got {len(prompts)} prompts under {self.data_key!r} for {count} rows")
        return [prompt if isinstance(prompt, dict) else {self.data_key: prompt} for prompt in prompts]

    def _conversation(self, row: Row) -> Chat:
        """The conversation that begins with a row."""
        prompt = row["messages"] if "messages" in row else row[self.data_key]
        chat: Chat = (
            [{"role": self.user_role, "content": prompt}]
            if isinstance(prompt, str)
            else chats_of([prompt])[0]
        )
        if not chat:
            raise ValueError(f"a conversation begins with a message, got none in the row {row!r:.80}")
        if self.system_prompt is None or chat[0]["role"] == self.system_role:
            return chat
        return [{"role": self.system_role, "content": self.system_prompt}, *chat]

    def _answered(
        self, tensordict: TensorDictBase, prompts: Sequence[Chat], rows: Sequence[int]
    ) -> list[Chat]:
        """The conversations with their answers, in the rows that step."""
        if self.form is not None:
            return self.form.answered(tensordict, prompts, rows, self.policy_role or "assistant")
        full = chats_of(tensordict.get(("history", "full")))
        if len(full) != self.batch_size.numel():
            raise RuntimeError(
                f"('history', 'full') has {len(full)} conversations, the batch {list(self.batch_size)}: each goes on with one"
                " answer. Several answers to a prompt are a group of conversations (group=...), without num_samples"
            )
        for index in rows:
            prompt, chat = prompts[index], full[index]
            if chat == self._placeholder:
                full[index] = chat = [*prompt, self._placeholder[1]]
            for place, message in enumerate(prompt):
                if place >= len(chat) or _said(chat[place]) != _said(message):
                    found = dict(chat[place]) if place < len(chat) else "nothing"
                    raise RuntimeError(
                        f"('history', 'full') of row {index} is not ('history', 'prompt') with an answer: message"
                        f" {place} is {found!r:.200}, in the prompt it is {dict(message)!r:.200}"
                    )
            if len(chat) == len(prompt):
                raise RuntimeError(
                    f"('history', 'full') of row {index} has no answer after its {len(prompt)} messages"
                )
            if self.policy_role is not None and chat[-1]["role"] != self.policy_role:
                raise RuntimeError(
                    f"('history', 'full') of row {index} ends with a message of {chat[-1]['role']!r}, expected one of"
                    f" {self.policy_role!r}"
                )
        return full

    # tensors

    def _scores(self, chats: list[Chat], rows: list[Row], ended: list[int]) -> dict[str, Tensor]:
        """Reward and metrics, float32 `[*batch, 1]`: 0 where a conversation goes on."""
        values = {name: torch.zeros(self.batch_size.numel()) for name in ("reward", *self.metrics)}
        reward: Reward | None = self.__dict__["reward_function"]
        if ended and reward is not None:
            with told_of("reward function", reward, rows):
                given = reward(chats, rows)
            for name, scores in scores_of(given, len(ended), self.metrics).items():
                values[name][ended] = scores.cpu()
        return {name: value.reshape(*self.batch_size, 1).to(self.device) for name, value in values.items()}

    def _record(
        self,
        chats: Sequence[Chat],
        rows: Sequence[Row],
        groups: Sequence[int],
        turns: Sequence[int],
        scores: Mapping[str, Tensor],
        acted: TensorDictBase | None = None,
    ) -> TensorDict:
        """What is observed, of values for each row, after what was `acted`."""

        def tensordict(**entries: Any) -> TensorDict:
            return TensorDict(entries, batch_size=self.batch_size, device=self.device)

        entries = {
            "history": ChatHistory._from_tensordict(tensordict(prompt=as_rows(chats, self.batch_size))),
            self.data_key: as_rows(rows, self.batch_size),
            "group": self._column(groups),
            "turn": self._column(turns),
        }
        if self.form is not None:
            entries |= self.form.observed(chats, self.batch_size, acted)
        if self.metrics:
            entries["metrics"] = tensordict(**{name: scores[name] for name in self.metrics})
        return tensordict(**entries)

    def _column(self, values: Sequence[Any]) -> Tensor:
        return torch.tensor(values, device=self.device).reshape(*self.batch_size, 1)

    # nn.Module's

    def get_extra_state(self) -> dict[str, Any]:
        """The place in the source, in `state_dict`."""
        return self.prompts.state_dict()

    def set_extra_state(self, state: Any) -> None:
        """Go on from a place in the source, by `load_state_dict`."""
        self.prompts.load_state_dict(state)


def _rows_in(tensordict: TensorDictBase | None, mask_key: str, count: int) -> list[int]:
    """The rows that a mask selects, all if there is none."""
    mask = None if tensordict is None else tensordict.get(mask_key, None)
    return list(range(count)) if mask is None else mask.flatten().nonzero().flatten().tolist()


def _said(message: Mapping[str, Any]) -> tuple[Any, ...]:
    """What decides whether two messages are the same."""
    calls, responses = message.get("tool_calls"), message.get("tool_responses")
    return message["role"], message["content"], calls or None, responses or None
