# ...


def push_spec(device: DEVICE_TYPING | None = None) -> Bounded:
    """The spec `Push`.

    Its tensors are float32[1] in [-1, 1].

    Args:
        device: where its tensors live; torch's default device if None.
    """
    return Bounded(low=-1.0, high=1.0, shape=(1,), dtype=torch.float32, device=device)


def position_spec(device: DEVICE_TYPING | None = None) -> Bounded:
    """in m

    Its tensors are float32 in [-10, 10].

    Args:
        device: where its tensors live; torch's default device if None.
    """
    return Bounded(low=-10.0, high=10.0, shape=(), dtype=torch.float32, device=device)


# ...


class Point(GeneratedEnv["PointData", "PointSpecs"]):
    # ...

    def _specs(self) -> EnvSpecs:
        observation = Composite(
            observation=Bounded(low=[-10.0, -1.0], high=[10.0, 1.0], shape=(2,), dtype=torch.float32),
            x=Bounded(low=-10.0, high=10.0, shape=(), dtype=torch.float32),
            v=Bounded(low=-1.0, high=1.0, shape=(), dtype=torch.float32),
        )
        return EnvSpecs(
            action=Composite(action=Bounded(low=-1.0, high=1.0, shape=(1,), dtype=torch.float32)),
            observation=observation,
            state=observation.select("x", "v"),
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
        ).to(self.device)

    # ...


# ...
