# ...


def learns_reset(learned: LearnsLearned, not_done: Tensor, draw_x: Tensor) -> LearnsRoot:
    """A fresh episode in every row of the batch."""
    # envs.Line
    base = line_reset(not_done, draw_x)
    # chains.Learns.transforms[0]
    (done_begun,) = learned.numbered_0.read_and_update("done")
    new_rows = learned.numbered_0.new_rows()
    number = (done_begun + batch_rank(base.done.squeeze(-1), new_rows)).unsqueeze(-1)
    # chains.Learns.transforms[1]
    learned.counted_1.update("near")
    (x_count,) = learned.counted_1.update("x", again=True)
    x_again = base.x * x_count.to(torch.float32)
    # chains.Learns.transforms[2]
    (x_count_2,) = learned.spread_2.update("x")
    total = torch.cat((base.x.unsqueeze(-1), x_again.unsqueeze(-1)), dim=-1).sum(dim=-1) + x_count_2.to(
        torch.float32
    )
    # chains.Learns.transforms[3]
    (moments_count,) = learned.moments_3.read_and_update("moments")
    moments = moments_count.expand(not_done.shape[:-1]).clone()
    return LearnsRoot(
        x=base.x, done=base.done, terminated=base.terminated, truncated=base.truncated, number=number,
        x_again=x_again, total=total, moments=moments,
    )


def learns_advance(
    learned: LearnsLearned, x: Tensor, number: Tensor, moments: Tensor, action: Tensor
) -> LearnsNext:
    """One step: all that the step after it depends on."""
    # envs.Line
    base = line_advance(x, action)
    near = line_reward(base.x)
    # chains.Learns.transforms[0]
    next_number = number
    # chains.Learns.transforms[1]
    (near_count,) = learned.counted_1.update("near")
    (x_count,) = learned.counted_1.update("x", again=True)
    near_again = near * near_count.to(torch.float32)
    next_x_again = base.x * x_count.to(torch.float32)
    # chains.Learns.transforms[2]
    (x_count_2,) = learned.spread_2.update("x")
    next_total = torch.cat((base.x.unsqueeze(-1), next_x_again.unsqueeze(-1)), dim=-1).sum(
        dim=-1
    ) + x_count_2.to(torch.float32)
    # chains.Learns.transforms[3]
    next_moments = moments
    learned.moments_3.update("moments")
    return LearnsNext(
        x=base.x, done=base.done, terminated=base.terminated, truncated=base.truncated, number=next_number,
        x_again=next_x_again, total=next_total, moments=next_moments, near_again=near_again,
    )


# ...


class Learns(LearningChain["LearnsData", "LearnsSpecs"], GeneratedEnv["LearnsData", "LearnsSpecs"]):
    # ...

    def __init__(self, *, batch_size: Sequence[int] = (), device: DEVICE_TYPING | None = None) -> None:
        """`Line` with transforms.

        Args:
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
        """
        super().__init__(batch_size=batch_size, device=device)
        self.learned = LearnsLearned(
            numbered_0=self._learner(
                0, Numbered(), {"done": torch.zeros((1,), dtype=torch.bool)}, columns=["done"]
            ),
            counted_1=self._learner(
                1,
                Counted(in_keys=["near", "x"]),
                {"x": torch.zeros((), dtype=torch.float32), "near": torch.zeros((1,), dtype=torch.float32)},
                columns=["near"],
            ),
            spread_2=self._learner(
                2,
                Spread(*["x", "x_again"]),
                {"x": torch.zeros((), dtype=torch.float32), "x_again": torch.zeros((), dtype=torch.float32)},
            ),
            moments_3=self._learner(3, Moments(), {}),
        )
        self._build()

    # ...


# ...
