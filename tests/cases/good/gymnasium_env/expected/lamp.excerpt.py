# ...


class Lamp(GeneratedGymEnv["LampData", "LampSpecs"]):
    """Two observations and a switch.

    Keys:
        bright: float32 [2]
        pixels: uint8 [4, 4, 3]
        done, terminated, truncated: bool [1]; the episode is over; it ended; it was cut off
        action: int64 [3] one-hot
        ("next", "reward"): float32 [1]
    """

    _gym_id = "Lamp-v0"
    _gym_max_episode_steps = 40
    _gym_options = {"rooms": 2}
    _root_record = LampRoot
    _next_record = LampNext

    def __init__(self, *, device: DEVICE_TYPING | None = None, **gym_kwargs: Any) -> None:
        """Two observations and a switch.

        Args:
            device: where the tensors live.
            **gym_kwargs: further keywords of `gymnasium.make`.
        """
        super().__init__(device=device, **gym_kwargs)
        self._build()

    def _specs(self) -> EnvSpecs:
        return EnvSpecs(
            action=Composite(action=OneHot(3, shape=(3,), dtype=torch.int64)),
            observation=Composite(
                bright=Bounded(low=[0.0, -math.inf], high=[1.0, math.inf], shape=(2,), dtype=torch.float32),
                pixels=Unbounded(shape=(4, 4, 3), dtype=torch.uint8),
            ),
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
        ).to(self.device)


# ...


class LampIndexed(GeneratedGymEnv["LampIndexedData", "LampIndexedSpecs"]):
    """Gymnasium's `Lamp-v0`.

    Keys:
        bright: float32 [2]
        pixels: uint8 [4, 4, 3]
        done, terminated, truncated: bool [1]; the episode is over; it ended; it was cut off
        action: int64 [] in 0..2
        ("next", "reward"): float32 [1]
    """

    # ...

    def _specs(self) -> EnvSpecs:
        return EnvSpecs(
            action=Composite(action=Categorical(3, shape=(), dtype=torch.int64)),
            observation=Composite(
                bright=Bounded(low=[0.0, -math.inf], high=[1.0, math.inf], shape=(2,), dtype=torch.float32),
                pixels=Unbounded(shape=(4, 4, 3), dtype=torch.uint8),
            ),
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
        ).to(self.device)


# ...
