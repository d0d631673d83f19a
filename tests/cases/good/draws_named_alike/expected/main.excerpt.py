# ...


def walk_reset(not_done: Tensor, draw_x: Tensor, draw_x_2: Tensor, draw_x_2_2: Tensor) -> WalkRoot:
    """A fresh episode in every row of the batch.

    Args:
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
        draw_x, draw_x_2, draw_x_2_2: float32 [*batch], uniform in [0, 1).
    """
    # envs.Walk.reset
    x = -1 + 1 * draw_x + draw_x_2
    x_2 = -1 + 2 * draw_x_2_2
    return WalkRoot(x=x, x_2=x_2, done=not_done, terminated=not_done.clone(), truncated=not_done.clone())


# ...


class Walk(GeneratedEnv["WalkData", "WalkSpecs"]):
    # ...

    def __init__(
        self, *, limit: float = 1.0, batch_size: Sequence[int] = (), device: DEVICE_TYPING | None = None
    ) -> None:
        """The second draw for `x` and the only one for `x_2` have two names; an infinite bound bounds nothing.

        Args:
            limit: float (default 1.0)
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
        """
        super().__init__(batch_size=batch_size, device=device)
        self.params = WalkParams(limit=self._float("limit", limit))
        self._build()

    # ...

    def _fresh(self) -> WalkRoot:
        return walk_reset(
            torch.zeros((*self.batch_size, 1), dtype=torch.bool, device=self.device),
            self._uniform((), torch.float32), self._uniform((), torch.float32),
            self._uniform((), torch.float32),
        )

    # ...


# ...
