# ...


class JudgeRewardRow(TypedDict):
    """What `mypackage.rewards:judge` reads of the row that a conversation began with."""

    rubric: Sequence[Message]
    tags: Any
    weight: int


class JudgeReward(Protocol):
    """What `mypackage.rewards:judge` has to be: a function that rewards conversations."""

    @abstractmethod
    def __call__(
        self, answers: Sequence[Sequence[Message]], rows: Sequence[JudgeRewardRow], /
    ) -> Sequence[float] | Tensor:
        """The rewards of conversations that have ended.

        Args:
            answers: the conversations; the last message of each is the last answer.
            rows: of each, the row that it began with.

        Returns:
            a number for each conversation, a sequence or float32 `[conversations]`.
        """
        ...


# ...
