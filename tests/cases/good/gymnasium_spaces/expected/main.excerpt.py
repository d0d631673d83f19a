# ...


class Arcade(GeneratedGymEnv["ArcadeData", "ArcadeSpecs"]):
    """Gymnasium's `Arcade-v0`.

    Keys:
        bits: int8 [2, 3]
        score: int64 []
        ("screen", "left"): uint8 [4]
        ("screen", "right", "deep"): float32 [2]
        slots: int64 [2, 2]
        names: int32 [2]
        done, terminated, truncated: bool [1]; the episode is over; it ended; it was cut off
        action: int64 [5] one-hot 3 + 2
        ("next", "reward"): float32 [1]
    """

    # ...

    def _specs(self) -> EnvSpecs:
        return EnvSpecs(
            action=Composite(action=MultiOneHot([3, 2], shape=(5,), dtype=torch.int64)),
            observation=Composite(
                {
                    "bits": Binary(shape=(2, 3), dtype=torch.int8),
                    "score": Categorical(5, shape=(), dtype=torch.int64),
                    "screen": Composite(
                        left=Bounded(low=0, high=9, shape=(4,), dtype=torch.uint8),
                        right=Composite(
                            deep=Bounded(low=-1.0, high=[math.inf, 1.0], shape=(2,), dtype=torch.float32)
                        ),
                    ),
                    "slots": Categorical(4, shape=(2, 2), dtype=torch.int64),
                    "names": MultiCategorical([4, 2], shape=(2,), dtype=torch.int32),
                }
            ),
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
        ).to(self.device)

    # ...


# ...


class ArcadeIndexed(GeneratedGymEnv["ArcadeIndexedData", "ArcadeIndexedSpecs"]):
    # ...

    def _specs(self) -> EnvSpecs:
        return EnvSpecs(
            action=Composite(action=MultiCategorical([3, 2], shape=(2,), dtype=torch.int64)),
            observation=Composite(
                {
                    "bits": Binary(shape=(2, 3), dtype=torch.int8),
                    "score": Categorical(5, shape=(), dtype=torch.int64),
                    "screen": Composite(
                        left=Bounded(low=0, high=9, shape=(4,), dtype=torch.uint8),
                        right=Composite(
                            deep=Bounded(low=-1.0, high=[math.inf, 1.0], shape=(2,), dtype=torch.float32)
                        ),
                    ),
                    "slots": Categorical(4, shape=(2, 2), dtype=torch.int64),
                    "names": MultiCategorical([4, 2], shape=(2,), dtype=torch.int32),
                }
            ),
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
        ).to(self.device)

    # ...


# ...


class Grid(GeneratedGymEnv["GridData", "GridSpecs"]):
    """Gymnasium's `Grid-v0`.

    Keys:
        ("only", "one"): int64 []
        done, terminated, truncated: bool [1]; the episode is over; it ended; it was cut off
        action: int64 [2, 2, 3] one-hot
        ("next", "reward"): float32 [1]
    """

    _gym_id = "Grid-v0"
    _gym_max_episode_steps = 9
    _gym_lifts = True
    _root_record = GridRoot
    _next_record = GridNext
    _root_keys = (
        ("only", "one"),
        "done",
        "terminated",
        "truncated",
    )

    def __init__(self, *, device: DEVICE_TYPING | None = None, **gym_kwargs: Any) -> None:
        """Gymnasium's `Grid-v0`.

        Args:
            device: where the tensors live.
            **gym_kwargs: further keywords of `gymnasium.make`.
        """
        super().__init__(device=device, **gym_kwargs)
        self._build()

    def _specs(self) -> EnvSpecs:
        return EnvSpecs(
            action=Composite(action=OneHot(3, shape=(2, 2, 3), dtype=torch.int64)),
            observation=Composite(
                only=Composite(one=Bounded(low=0, high=9223372036854775806, shape=(), dtype=torch.int64))
            ),
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
        ).to(self.device)

    def _root_entries(self, root: GridRoot) -> dict[str, Any]:
        return {
            "only": {"one": root.only_one},
            "done": root.done,
            "terminated": root.terminated,
            "truncated": root.truncated,
        }

    def _next_entries(self, root: GridRoot, actions: tuple[Tensor, ...], next_: GridNext) -> dict[str, Any]:
        return {
            "only": {"one": next_.only_one},
            "done": next_.done,
            "terminated": next_.terminated,
            "truncated": next_.truncated,
            "reward": next_.reward,
        }


if TYPE_CHECKING:

    # ...

    class ArcadeData(TypedTensorDict[
        Literal["left", "right", "deep", "reward"],
        Literal["bits"] | tuple[Literal["next"], Literal["bits"]], Int8[Tensor, "*batch 2 3"],
        Literal["score"] | tuple[Literal["next"], Literal["score"]], Int64[Tensor, "*batch"],
        tuple[Literal["screen"], Literal["left"]]
        | tuple[Literal["next"], Literal["screen"], Literal["left"]], UInt8[Tensor, "*batch 4"],
        tuple[Literal["screen"], Literal["right"], Literal["deep"]]
        | tuple[Literal["next"], Literal["screen"], Literal["right"], Literal["deep"]],
        Float32[Tensor, "*batch 2"],
        Literal["slots"] | tuple[Literal["next"], Literal["slots"]], Int64[Tensor, "*batch 2 2"],
        Literal["names"] | tuple[Literal["next"], Literal["names"]], Int32[Tensor, "*batch 2"],
        Literal["done", "terminated", "truncated"]
        | tuple[Literal["next"], Literal["done", "terminated", "truncated"]], Bool[Tensor, "*batch 1"],
        Literal["action"], Int64[Tensor, "*batch 5"],
        tuple[Literal["next"], Literal["reward"]], Float32[Tensor, "*batch 1"],
        Literal["screen"]
        | tuple[Literal["screen"], Literal["right"]]
        | tuple[Literal["next"], Literal["screen"]]
        | tuple[Literal["next"], Literal["screen"], Literal["right"]], TensorDict,
        Literal["next"], ArcadeNextData,
    ]):
        """The tensordicts of `Arcade`, with their keys."""

    # ...
