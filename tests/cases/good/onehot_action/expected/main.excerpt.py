# ...


def walk_reset(not_done: Tensor, draw_x: Tensor) -> WalkRoot:
    """A fresh episode in every row of the batch.

    Args:
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
        draw_x: float32 [*batch], uniform in [0, 1).
    """
    # envs.Walk.reset
    x = -1 + 2 * draw_x
    last = torch.zeros(not_done.shape[:-1], dtype=torch.int64, device=not_done.device)
    return WalkRoot(x=x, last=last, done=not_done, terminated=not_done.clone(), truncated=not_done.clone())


def walk_advance(
    params: WalkParams, consts: WalkConsts, x: Tensor, done: Tensor, move: Tensor, arms: Tensor
) -> WalkNext:
    """One step of the dynamics: all that the step after it depends on.

    Args:
        params: constructor keywords of the environment.
        consts: constant tables of the environment.
        x, done: as in `WalkRoot`.
        move: bool [*batch, 3].
        arms: bool [*batch, 5].
    """
    # envs.Walk.step
    kind = move.to(torch.uint8).argmax(dim=-1)
    by = consts.moves[kind] + consts.moves[arms[..., :3].to(torch.uint8).argmax(dim=-1)]
    next_x = torch.clamp(x + params.scale * by, -10.0, 10.0)
    next_last = kind
    return WalkNext(
        x=next_x, last=next_last, done=torch.zeros_like(done), terminated=torch.zeros_like(done),
        truncated=torch.zeros_like(done),
    )


def walk_reward(last: Tensor, move: Tensor, legs: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions.

    Args:
        last: as in `WalkRoot`.
        move: bool [*batch, 3].
        legs: bool [*batch, 4, 2].

    Returns:
        float32 [*batch, 1].
    """
    # envs.Walk.step
    return (
        torch.where(
            move.to(torch.uint8).argmax(dim=-1) == last, 0.0, torch.full_like(last, -1.0, dtype=torch.float32)
        )
        + legs.to(torch.uint8).argmax(dim=-1).to(torch.float32).sum(dim=-1)
    ).unsqueeze(-1)


def walk_observe(x: Tensor, last: Tensor) -> Tensor:
    """The observation of a state, for any leading dimensions.

    Args:
        x, last: as in `WalkRoot`.

    Returns:
        float32 [*batch, 2].
    """
    # envs.Walk.observe
    return torch.stack((x, last.to(torch.float32)), dim=-1)


class Walk(GeneratedEnv["WalkData", "WalkSpecs"]):
    # ...

    def _specs(self) -> EnvSpecs:
        observation = Composite(
            observation=Unbounded(shape=(2,), dtype=torch.float32),
            x=Bounded(low=-10.0, high=10.0, shape=(), dtype=torch.float32),
            last=Categorical(3, shape=(), dtype=torch.int64),
        )
        return EnvSpecs(
            action=Composite(
                move=OneHot(3, shape=(3,), dtype=torch.bool),
                legs=OneHot(2, shape=(4, 2), dtype=torch.bool),
                arms=MultiOneHot([3, 2], shape=(5,), dtype=torch.bool),
            ),
            observation=observation,
            state=observation.select("x", "last"),
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
        ).to(self.device)

    # ...


# ...
