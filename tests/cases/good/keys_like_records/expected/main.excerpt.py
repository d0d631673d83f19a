# ...


class Rooted(GeneratedEnv["RootedData", "RootedSpecs"]):
    # ...

    def _advance(self, root: RootedRoot, actions: tuple[Tensor, ...]) -> RootedNext:
        return rooted_advance(root.root_x, root.x, actions[0])

    def _root_entries(self, root: RootedRoot) -> dict[str, Any]:
        return {
            "observation": rooted_observe(root.root_x, root.x),
            "root": {"x": root.root_x},
            "x": root.x,
            "done": root.done,
            "terminated": root.terminated,
            "truncated": root.truncated,
        }

    # ...


# ...


KeptNext = KeptRoot
"""What a step computes for the step after it: the same fields."""


# ...


def kept_advance(constants: PointConstants, x: Tensor, constants_2: Tensor, action: Tensor) -> KeptNext:
    """One step: all that the step after it depends on."""
    # envs.Point
    base = point_advance(constants, x, action)
    # chains.Kept.transforms[0]
    next_constants = constants_2 + 1
    next_truncated = base.truncated | (next_constants >= 20)
    return KeptNext(
        x=base.x, done=base.done | next_truncated, terminated=base.terminated, truncated=next_truncated,
        constants=next_constants,
    )


# ...


class Kept(GeneratedEnv["KeptData", "KeptSpecs"]):
    # ...

    def _advance(self, root: KeptRoot, actions: tuple[Tensor, ...]) -> KeptNext:
        return kept_advance(self.constants, root.x, root.constants, actions[0])

    # ...


# ...


class GymNext(NamedTuple):
    """What a step computes for the step after it: the fields of `GymRoot`, and more."""

    observation: Float32[Tensor, "*batch 4"]
    done: Bool[Tensor, "*batch 1"]
    terminated: Bool[Tensor, "*batch 1"]
    truncated: Bool[Tensor, "*batch 1"]
    raw_reward: Int64[Tensor, "*batch 1"]
    raw_reward_: Float32[Tensor, "*batch 1"]


# ...


def gym_advance(
    raw_reward: Tensor, next_observation: Tensor, reward: Tensor, terminated: Tensor, truncated: Tensor
) -> GymNext:
    """One step: all that the step after it depends on."""
    done = terminated | truncated
    # chains.Gym.transforms[0]
    next_raw_reward = raw_reward + 1
    next_truncated = truncated | (next_raw_reward >= 20)
    return GymNext(
        observation=next_observation, done=done | next_truncated, terminated=terminated,
        truncated=next_truncated, raw_reward=next_raw_reward, raw_reward_=reward,
    )


def gym_reward(consts: GymConsts, raw_reward_: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions."""
    # chains.Gym.transforms[1]
    return raw_reward_ * consts.reward_scaling_1_scale + consts.reward_scaling_1_loc


class Gym(GeneratedGymEnv["GymData", "GymSpecs"]):
    # ...

    def _next_entries(self, root: GymRoot, actions: tuple[Tensor, ...], next_: GymNext) -> dict[str, Any]:
        return {
            "observation": next_.observation,
            "done": next_.done,
            "terminated": next_.terminated,
            "truncated": next_.truncated,
            "raw_reward": next_.raw_reward,
            "reward": gym_reward(self.consts, next_.raw_reward_),
        }

    # ...


# ...
