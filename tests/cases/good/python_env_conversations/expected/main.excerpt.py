# ...


class ExactRewardRow(TypedDict):
    """What `mypackage.rewards:exact` reads of the row that a conversation began with."""

    answer: str
    marks: Sequence[float]
    question: str


class ExactReward(Protocol):
    """What `mypackage.rewards:exact` has to be: a function that rewards conversations.

    One for the right answer.
    """

    @abstractmethod
    def __call__(self, answers: Sequence[Sequence[Message]], rows: Sequence[ExactRewardRow], /) -> Scores:
        """The rewards of conversations that have ended.

        Args:
            answers: the conversations; the last message of each is the last answer.
            rows: of each, the row that it began with.

        Returns:
            `Scores` with a number for each conversation, and the metrics `length`, `calls`.
        """
        ...


class SumsRow(ExactRewardRow):
    """What `Sums` knows of a row of its source."""


class SumsSource(Protocol):
    """What `mypackage.data:load` has to be: a function that gives the rows which conversations begin with."""

    @abstractmethod
    def __call__(self) -> Iterable[SumsRow]:
        """The rows: a sequence, which is shuffled, a loader, or any other iterable.

        A generator function is called again when its rows are used up, any other one once.
        """
        ...


class SumsTools(Protocol):
    """What `mypackage.tools:calculator` has to be: a function that says what follows an answer."""

    @abstractmethod
    def __call__(self, chat: Sequence[Message], row: SumsRow, /) -> Sequence[Message] | None:
        """The messages that follow an answer, or None at the end of the conversation.

        Args:
            chat: the conversation; its last message is the answer.
            row: the row that it began with.
        """
        ...


class Sums(GeneratedChatEnv["SumsData", "SumsSpecs"]):
    """Questions of arithmetic, with a calculator.

    Keys:
        ("metrics", "length"): float32 [*batch, 1]; 0 until the conversation has ended
        ("metrics", "calls"): float32 [*batch, 1]; 0 until the conversation has ended
        ("history", "prompt"): object [*batch]; the conversation so far, a list of messages
        question: object [*batch]; the source's row, a dict
        group: int64 [*batch, 1]; the number of the prompt, as prompts were drawn
        turn: int64 [*batch, 1]; how many answers the conversation has
        done, terminated, truncated: bool [*batch, 1]; the episode is over; it ended; it was cut off
        ("history", "full"): object [*batch]; the conversation with an answer after it
        ("next", "reward"): float32 [*batch, 1]
    """

    _source_path = "mypackage.data:load"
    _reward_path = "mypackage.rewards:exact"
    _tools_path = "mypackage.tools:calculator"
    _row_fields = {"answer": "str", "marks": "list[float]", "question": "str"}

    def __init__(
        self, *, source: Iterable[SumsRow] | None = None, shuffle: bool = True,
        batch_size: Sequence[int] | int | None = None, seed: int = 0, device: DEVICE_TYPING | None = None,
    ) -> None:
        """Questions of arithmetic, with a calculator.

        Args:
            source: the rows that conversations begin with, in place of what `mypackage.data:load` gives.
            shuffle: whether a source that is a sequence is shuffled in each epoch.
            batch_size: of the conversations, a multiple of 8 or a divisor of it: each 8 are about one
                prompt; None: (8,).
            seed: of the order of the rows.
            device: where the tensors live.
        """
        super().__init__(
            source=source,
            shuffle=shuffle,
            batch_size=batch_size,
            seed=seed,
            device=device,
            prompt="question",
            group=8,
            max_turns=4,
            metrics=["length", "calls"],
            system_prompt='Say "so" \\ {be} brief.',
        )

    def _make_source(self) -> SumsSource:
        from mypackage.data import load

        return load

    def _make_reward(self) -> ExactReward:
        from mypackage.rewards import exact

        return exact

    def _make_tools(self) -> SumsTools:
        from mypackage.tools import calculator

        return calculator


class JudgedRow(JudgeRewardRow):
    """What `Judged` knows of a row of its source."""

    query: str | Sequence[Message]
    """What is asked."""


class Judged(GeneratedChatEnv["JudgedData", "JudgedSpecs"]):
    """The environment `Judged`.

    Keys:
        ("history", "prompt"): object [*batch]; the conversation so far, a list of messages
        ("text", "prompt"): object [*batch]; the conversation so far, as a text
        query: object [*batch]; the source's row, a dict
        group: int64 [*batch, 1]; the number of the prompt, as prompts were drawn
        turn: int64 [*batch, 1]; how many answers the conversation has
        done, terminated, truncated: bool [*batch, 1]; the episode is over; it ended; it was cut off
        ("text", "full"): object [*batch]; the text with an answer after it
        ("next", "reward"): float32 [*batch, 1]
    """

    _reward_path = "mypackage.rewards:judge"
    _row_fields = {"rubric": "messages", "tags": "any", "weight": "int"}

    def __init__(
        self, *, source: Iterable[JudgedRow] | None = None, shuffle: bool = True,
        batch_size: Sequence[int] | int | None = None, seed: int = 0, device: DEVICE_TYPING | None = None,
    ) -> None:
        """The environment `Judged`.

        Args:
            source: the rows that conversations begin with; None: each reset reads `query` in its
                tensordict.
            shuffle: whether a source that is a sequence is shuffled in each epoch.
            batch_size: how many conversations run side by side, any shape; None: (1,).
            seed: of the order of the rows.
            device: where the tensors live.
        """
        super().__init__(
            source=source,
            shuffle=shuffle,
            batch_size=batch_size,
            seed=seed,
            device=device,
            prompt="query",
            group=1,
            max_turns=1,
            input_mode="text",
            template="chatml_format",
        )

    def _make_reward(self) -> JudgeReward:
        from mypackage.rewards import judge

        return judge


class SumsTrain(TransformedEnv["SumsTrainData", "SumsTrainSpecs"]):
    """Questions of arithmetic, with returns and lengths.

    Transforms, in order: RewardSum, StepCounter.

    Keys:
        ("history", "prompt"): object [*batch]; the conversation so far, a list of messages
        question: object [*batch]; the source's row, a dict
        group: int64 [*batch, 1]; the number of the prompt, as prompts were drawn
        turn: int64 [*batch, 1]; how many answers the conversation has
        ("metrics", "length"): float32 [*batch, 1]; 0 until the conversation has ended
        ("metrics", "calls"): float32 [*batch, 1]; 0 until the conversation has ended
        ("episode", "total"): float32 [*batch, 1]; the sum of `reward` since the last reset
        step_count: int64 [*batch, 1]; steps since the last reset
        done, terminated, truncated: bool [*batch, 1]; the episode is over; it ended; it was cut off
        ("history", "full"): object [*batch]; the conversation with an answer after it
        ("next", "reward"): float32 [*batch, 1]
    """

    def __init__(
        self, *, source: Iterable[SumsRow] | None = None, shuffle: bool = True,
        batch_size: Sequence[int] | int | None = None, seed: int = 0, device: DEVICE_TYPING | None = None,
    ) -> None:
        """Questions of arithmetic, with returns and lengths.

        Args:
            source: the rows that conversations begin with, in place of what `mypackage.data:load` gives.
            shuffle: whether a source that is a sequence is shuffled in each epoch.
            batch_size: of the conversations, a multiple of 8 or a divisor of it: each 8 are about one
                prompt; None: (8,).
            seed: of the order of the rows.
            device: where the tensors live.
        """
        super().__init__(
            Sums(source=source, shuffle=shuffle, batch_size=batch_size, seed=seed, device=device),
            Compose(RewardSum(out_keys=[("episode", "total")]), StepCounter(max_steps=3)),
        )


class JudgedTrain(TransformedEnv["JudgedTrainData", "JudgedTrainSpecs"]):
    """`Judged` with transforms.

    Transforms, in order: none.

    Keys:
        ("history", "prompt"): object [*batch]; the conversation so far, a list of messages
        ("text", "prompt"): object [*batch]; the conversation so far, as a text
        query: object [*batch]; the source's row, a dict
        group: int64 [*batch, 1]; the number of the prompt, as prompts were drawn
        turn: int64 [*batch, 1]; how many answers the conversation has
        done, terminated, truncated: bool [*batch, 1]; the episode is over; it ended; it was cut off
        ("text", "full"): object [*batch]; the text with an answer after it
        ("next", "reward"): float32 [*batch, 1]
    """

    def __init__(
        self, *, source: Iterable[JudgedRow] | None = None, shuffle: bool = True,
        batch_size: Sequence[int] | int | None = None, seed: int = 0, device: DEVICE_TYPING | None = None,
    ) -> None:
        """`Judged` with transforms.

        Args:
            source: the rows that conversations begin with; None: each reset reads `query` in its
                tensordict.
            shuffle: whether a source that is a sequence is shuffled in each epoch.
            batch_size: how many conversations run side by side, any shape; None: (1,).
            seed: of the order of the rows.
            device: where the tensors live.
        """
        super().__init__(
            Judged(source=source, shuffle=shuffle, batch_size=batch_size, seed=seed, device=device),
            Compose(),
        )


# ...
