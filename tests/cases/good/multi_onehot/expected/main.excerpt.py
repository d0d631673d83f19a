# ...


def seats_spec(device: DEVICE_TYPING | None = None) -> MultiOneHot:
    """where each of the two sits

    Its tensors are bool[5] one-hot 3 + 2.

    Args:
        device: where its tensors live; torch's default device if None.
    """
    return MultiOneHot([3, 2], shape=(5,), dtype=torch.bool, device=device)


# ...


def table_advance(left: Tensor, seats: Tensor) -> TableNext:
    """One step of the dynamics: all that the step after it depends on.

    Args:
        left: as in `TableRoot`.
        seats: bool [*batch, 5].
    """
    # envs.Table.step
    next_left = torch.clamp(left - seats[..., :3].to(torch.int64), 0, 4)
    terminated = (next_left == 0).all(dim=-1).unsqueeze(-1)
    return TableNext(
        left=next_left, done=terminated.clone(), terminated=terminated, truncated=torch.zeros_like(terminated)
    )


def table_reward(seats: Tensor, drinks: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions.

    Args:
        seats: bool [*batch, 5].
        drinks: int64 [*batch, 2, 2].

    Returns:
        float32 [*batch, 1].
    """
    # envs.Table.step
    return (
        torch.where(
            seats[..., 3], 1.0, torch.full(seats.shape[:-1], 0.5, dtype=torch.float32, device=seats.device)
        )
        + drinks[..., 0].to(torch.float32).sum(dim=-1)
    ).unsqueeze(-1)


# ...


def table_observe(left: Tensor) -> TableObservation:
    """The observation of a state, for any leading dimensions.

    Args:
        left: as in `TableRoot`.

    Returns:
        shown: bool [*batch, 5].
        allowed: bool [*batch, 5].
    """
    # envs.Table.observe
    first = torch.nn.functional.one_hot(left.argmax(dim=-1), 3)
    second = torch.nn.functional.one_hot((left[..., 0] > 2).to(torch.int64), 2)
    shown = torch.cat((first, second), dim=-1) > 0
    allowed = torch.cat((first, second), dim=-1) >= 0
    return TableObservation(shown=shown, allowed=allowed)


class Table(GeneratedEnv["TableData", "TableSpecs"]):
    # ...

    def _specs(self) -> EnvSpecs:
        observation = Composite(
            shown=MultiOneHot([3, 2], shape=(5,), dtype=torch.bool),
            allowed=Binary(shape=(5,), dtype=torch.bool),
            left=Bounded(low=0, high=4, shape=(3,), dtype=torch.int64),
        )
        return EnvSpecs(
            action=Composite(
                seats=MultiOneHot([3, 2], shape=(5,), dtype=torch.bool),
                drinks=MultiCategorical([3, 2], shape=(2, 2), dtype=torch.int64),
            ),
            observation=observation,
            state=observation.select("left"),
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
        ).to(self.device)

    # ...


# ...
