# ...


def team_reset(not_done: Tensor, draw_x: Tensor) -> TeamRoot:
    """A fresh episode in every row of the batch.

    Args:
        not_done: bool [*batch, 1], all False; it tells the batch shape and the device.
        draw_x: float32 [*batch, 3], uniform in [0, 1).
    """
    # envs.Team.reset
    x = -1 + 2 * draw_x
    agents_done = torch.zeros((*not_done.shape[:-1], 3, 1), dtype=torch.bool, device=not_done.device)
    return TeamRoot(
        x=x, done=not_done, terminated=not_done.clone(), truncated=not_done.clone(), agents_done=agents_done,
        agents_terminated=agents_done.clone(), agents_truncated=agents_done.clone(),
    )


def team_advance(x: Tensor, agents_action: Tensor) -> TeamNext:
    """One step of the dynamics: all that the step after it depends on.

    Args:
        x: as in `TeamRoot`.
        agents_action: int64 [*batch, 3].
    """
    # envs.Team.step
    next_x = torch.clamp(x + agents_action.to(torch.float32) - 1, -10.0, 10.0)
    agents_terminated = torch.abs(next_x) > 9
    terminated = agents_terminated.all(dim=-1).unsqueeze(-1)
    agents_terminated = agents_terminated.unsqueeze(-1)
    return TeamNext(
        x=next_x, done=terminated.clone(), terminated=terminated, truncated=torch.zeros_like(terminated),
        agents_done=agents_terminated.clone(), agents_terminated=agents_terminated,
        agents_truncated=torch.zeros_like(agents_terminated),
    )


def team_reward(next_x: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions.

    Args:
        next_x: as in `TeamNext`, after the step.

    Returns:
        float32 [*batch, 3, 1].
    """
    # envs.Team.step
    return (-torch.abs(next_x)).unsqueeze(-1)


# ...


def team_observe(x: Tensor) -> TeamObservation:
    """The observation of a state, for any leading dimensions.

    Args:
        x: as in `TeamRoot`.

    Returns:
        agents_observation: float32 [*batch, 3, 1].
        agents_action_mask: bool [*batch, 3, 3].
    """
    # envs.Team.observe
    agents_observation = x.unsqueeze(-1)
    agents_action_mask = (
        (torch.ones((3, 3), dtype=torch.float32, device=x.device) > 0).expand(*x.shape[:-1], 3, 3).clone()
    )
    return TeamObservation(agents_observation=agents_observation, agents_action_mask=agents_action_mask)


class Team(GeneratedEnv["TeamData", "TeamSpecs"]):
    # ...

    def _specs(self) -> EnvSpecs:
        flag = Categorical(2, shape=(1,), dtype=torch.bool)
        agents_flag = Categorical(2, shape=(3, 1), dtype=torch.bool)
        observation = Composite(
            agents=Composite(
                observation=Bounded(low=-10.0, high=10.0, shape=(3, 1), dtype=torch.float32),
                action_mask=Binary(shape=(3, 3), dtype=torch.bool),
            ),
            x=Bounded(low=-10.0, high=10.0, shape=(3,), dtype=torch.float32),
        )
        return EnvSpecs(
            action=Composite(agents=Composite(action=Categorical(3, shape=(3,), dtype=torch.int64))),
            observation=observation,
            state=observation.select("x"),
            reward=Composite(agents=Composite(reward=Unbounded(shape=(3, 1), dtype=torch.float32))),
            done=Composite(
                done=flag,
                terminated=flag,
                truncated=flag,
                agents=Composite(done=agents_flag, terminated=agents_flag, truncated=agents_flag),
            ),
        ).to(self.device)

    # ...

    def _next_entries(self, root: TeamRoot, actions: tuple[Tensor, ...], next_: TeamNext) -> dict[str, Any]:
        observed = team_observe(next_.x)
        return {
            "agents": {
                "observation": observed.agents_observation,
                "action_mask": observed.agents_action_mask,
                "done": next_.agents_done,
                "terminated": next_.agents_terminated,
                "truncated": next_.agents_truncated,
                "reward": team_reward(next_.x),
            },
            "x": next_.x,
            "done": next_.done,
            "terminated": next_.terminated,
            "truncated": next_.truncated,
        }


if TYPE_CHECKING:

    # ...

    class TeamData(TypedTensorDict[
        Literal["observation", "action_mask", "action", "reward"],
        tuple[Literal["agents"], Literal["observation"]]
        | tuple[Literal["next"], Literal["agents"], Literal["observation", "reward"]],
        Float32[Tensor, "*batch 3 1"],
        tuple[Literal["agents"], Literal["action_mask"]]
        | tuple[Literal["next"], Literal["agents"], Literal["action_mask"]], Bool[Tensor, "*batch 3 3"],
        Literal["x"] | tuple[Literal["next"], Literal["x"]], Float32[Tensor, "*batch 3"],
        Literal["done", "terminated", "truncated"]
        | tuple[Literal["next"], Literal["done", "terminated", "truncated"]], Bool[Tensor, "*batch 1"],
        tuple[Literal["agents"], Literal["done", "terminated", "truncated"]]
        | tuple[Literal["next"], Literal["agents"], Literal["done", "terminated", "truncated"]],
        Bool[Tensor, "*batch 3 1"],
        tuple[Literal["agents"], Literal["action"]], Int64[Tensor, "*batch 3"],
        Literal["agents"] | tuple[Literal["next"], Literal["agents"]], TensorDict,
        Literal["next"], TeamNextData,
    ]):
        """The tensordicts of `Team`, with their keys."""

    # ...
