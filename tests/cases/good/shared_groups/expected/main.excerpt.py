# ...


def still_observe(x: Tensor) -> StillObservation:
    """The observation of a state, for any leading dimensions.

    Args:
        x: as in `StillRoot`.

    Returns:
        seen: float32 [*batch, 3].
        level: float32 [*batch].
    """
    # envs.Still.observe
    seen = torch.ones((3,), dtype=torch.float32, device=x.device).expand(*x.shape, 3).clone()
    level = torch.full_like(x, 3.0)
    return StillObservation(seen=seen, level=level)


# ...


class FlatTrain(GeneratedEnv["FlatTrainData", "FlatTrainSpecs"]):
    # ...

    def _next_entries(
        self, root: FlatTrainRoot, actions: tuple[Tensor, ...], next_: FlatTrainNext
    ) -> dict[str, Any]:
        observed = flat_train_observe(self.consts, next_.x)
        rewards = flat_train_reward(self.consts, next_.x)
        return {
            "seen": observed.seen,
            "made": {"o": observed.made_o, "r": rewards.made_r},
            "x": next_.x,
            "done": next_.done,
            "terminated": next_.terminated,
            "truncated": next_.truncated,
            "reward": rewards.reward,
        }

    # ...


# ...
