# ...


class Point(GeneratedEnv["PointData", "PointSpecs"]):
    """text \"\"\" + __import__("os").system("id") + \"\"\"

    Keys:
        observation: float32 [*batch, 2] in [[-10, -1], [10, 1]]
        x: float32 [*batch] in [-10, 10]
        v: float32 [*batch] in [-1, 1]
        done, terminated, truncated: bool [*batch, 1]; the episode is over; it ended; it was cut off
        action: float32 [*batch, 1] in [-1, 1]
        ("next", "reward"): float32 [*batch, 1]
    """

    # ...

    def __init__(
        self, *, dt: float = 0.1, batch_size: Sequence[int] = (), device: DEVICE_TYPING | None = None
    ) -> None:
        """text \"\"\" + __import__("os").system("id") + \"\"\"

        Args:
            dt: float (default 0.1, > 0)
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
        """
        super().__init__(batch_size=batch_size, device=device)
        self.params = PointParams(dt=self._float("dt", dt, above=0))
        self._build()

    # ...


# ...
