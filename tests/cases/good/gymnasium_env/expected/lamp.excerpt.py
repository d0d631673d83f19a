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

    def __init__(self, *, device: DEVICE_TYPING | None = None, **gym_kwargs: Any) -> None:
        """Two observations and a switch.

        Args:
            device: where the tensors live.
            **gym_kwargs: further keywords of `gymnasium.make`.
        """
        super().__init__(device=device, **{"rooms": 2, **gym_kwargs})
        self._build()

    def _specs(self) -> EnvSpecs:
        flag = Categorical(2, shape=(1,), dtype=torch.bool)
        observation = Composite(
            bright=Bounded(low=[0.0, -math.inf], high=[1.0, math.inf], shape=(2,), dtype=torch.float32),
            pixels=Unbounded(shape=(4, 4, 3), dtype=torch.uint8),
        )
        return EnvSpecs(
            action=Composite(action=OneHot(3, shape=(3,), dtype=torch.int64)),
            observation=observation,
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
            done=Composite(done=flag, terminated=flag, truncated=flag),
        ).to(self.device)

    def _read(self, tensordict: Entries) -> LampRoot:
        return LampRoot(*[tensordict.get(name) for name in LampRoot._fields])

    def _fresh(self) -> LampRoot:
        (bright, pixels) = self._gym_reset()
        not_done = torch.zeros((*self.batch_size, 1), dtype=torch.bool, device=self.device)
        return LampRoot(
            bright=bright,
            pixels=pixels,
            done=not_done,
            terminated=not_done.clone(),
            truncated=not_done.clone(),
        )

    def _advance(self, root: LampRoot, actions: tuple[Tensor, ...]) -> LampNext:
        (bright, pixels), reward, terminated, truncated = self._gym_step(actions[0])
        return LampNext(
            bright=bright,
            pixels=pixels,
            done=terminated | truncated,
            terminated=terminated,
            truncated=truncated,
            reward=reward,
        )

    def _root_entries(self, root: LampRoot) -> dict[str, Any]:
        return root._asdict()

    def _next_entries(self, root: LampRoot, actions: tuple[Tensor, ...], next_: LampNext) -> dict[str, Any]:
        return next_._asdict()


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
        flag = Categorical(2, shape=(1,), dtype=torch.bool)
        observation = Composite(
            bright=Bounded(low=[0.0, -math.inf], high=[1.0, math.inf], shape=(2,), dtype=torch.float32),
            pixels=Unbounded(shape=(4, 4, 3), dtype=torch.uint8),
        )
        return EnvSpecs(
            action=Composite(action=Categorical(3, shape=(), dtype=torch.int64)),
            observation=observation,
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
            done=Composite(done=flag, terminated=flag, truncated=flag),
        ).to(self.device)

    # ...


# ...
