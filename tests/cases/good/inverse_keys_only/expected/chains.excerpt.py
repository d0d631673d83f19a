# ...


class Only(GeneratedTransform[OnlyKeys]):
    # ...

    def __init__(self, *kept: NestedKey, keep_rewards: bool = True) -> None:
        """Show some observations, and no others.

        Args:
            keep_rewards: whether rewards stay.
        """
        super().__init__(in_keys=list(kept))
        self.keep_rewards = keep_rewards
        if not self.keep_rewards:
            self._drops = (*self._drops, "rewards")

    # ...


# ...


def inverse_keys_only_advance(
    params: PendulumParams, raw_th: Tensor, raw_thdot: Tensor, done: Tensor, action: Tensor
) -> InverseKeysOnlyNext:
    """One step: all that the step after it depends on."""
    # chains.InverseKeysOnly.transforms[2]
    action_taken = action.transpose(-2, -1)
    # chains.InverseKeysOnly.transforms[1]
    action_taken = action_taken.squeeze(-1)
    # chains.InverseKeysOnly.transforms[0]
    action_taken_2 = action_taken.squeeze(-1)
    # envs.Pendulum
    base = pendulum_advance(params, raw_th, raw_thdot, done, action_taken_2)
    return InverseKeysOnlyNext(
        raw_th=base.th, raw_thdot=base.thdot, done=base.done, terminated=base.terminated,
        truncated=base.truncated,
    )


# ...


class InverseKeysOnly(RenderedEnv["InverseKeysOnlyData", "InverseKeysOnlySpecs"]):
    # ...

    def _advance(self, root: InverseKeysOnlyRoot, actions: tuple[Tensor, ...]) -> InverseKeysOnlyNext:
        return inverse_keys_only_advance(self.params, root.raw_th, root.raw_thdot, root.done, actions[0])

    # ...


# ...
