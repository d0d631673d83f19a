# ...


class TaskParams(NamedTuple):
    """Constructor keywords of `Task`, which says what they are."""

    g: float = 10.0
    m: float = 1.0
    l: float = 1.0
    dt: float = 0.05
    max_steps: int = 200
    reward_scale: float = 0.1
    frame_skip: int = 2
    standardise: bool = False


# ...


def task_advance(
    env_params: PendulumParams, params: TaskParams, th: Tensor, thdot: Tensor, done: Tensor,
    step_count: Tensor, action: Tensor,
) -> TaskNext:
    """One step: all that the step after it depends on."""
    terminated = torch.zeros_like(done)
    truncated = torch.zeros_like(done)
    over = torch.zeros_like(done)
    # chains.Task.transforms[0]
    for _ in range(params.frame_skip):
        base = pendulum_advance(env_params, th, thdot, done, action)
        over_2 = over | base.done
        th = torch.where(over.squeeze(-1), th, base.th)
        thdot = torch.where(over.squeeze(-1), thdot, base.thdot)
        done = torch.where(over, done, base.done)
        terminated = torch.where(over, terminated, base.terminated)
        truncated = torch.where(over, truncated, base.truncated)
        over = over_2
    # chains.Task.transforms[1]
    next_step_count = step_count + 1
    next_truncated = truncated | (next_step_count >= params.max_steps)
    return TaskNext(
        th=th, thdot=thdot, done=done | next_truncated, terminated=terminated, truncated=next_truncated,
        step_count=next_step_count,
    )


# ...


class Task(RenderedEnv["TaskData", "TaskSpecs"]):
    # ...

    def __init__(
        self, *, g: float = 10.0, m: float = 1.0, l: float = 1.0, dt: float = 0.05, max_steps: int = 200,
        reward_scale: float = 0.1, frame_skip: int = 2, standardise: bool = False,
        batch_size: Sequence[int] = (), device: DEVICE_TYPING | None = None,
    ) -> None:
        """Pendulum with numbers of the task that users may say.

        Args:
            g: gravity in m/s² (default 10.0)
            m: mass in kg (default 1.0, > 0)
            l: length in m (default 1.0, > 0)
            dt: seconds between two steps (default 0.05, > 0)
            max_steps: the length at which an episode is truncated (default 200, >= 1, <= 1000)
            reward_scale: the factor of rewards (default 0.1, > 0)
            frame_skip: how many steps of the environment are one (default 2, >= 1)
            standardise: compute `(reward - loc) / scale` instead of `reward * scale + loc` (default False)
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
        """
        super().__init__(batch_size=batch_size, device=device)
        self.params = TaskParams(
            g=self._float("g", g),
            m=self._float("m", m, above=0),
            l=self._float("l", l, above=0),
            dt=self._float("dt", dt, above=0),
            max_steps=self._int("max_steps", max_steps, at_least=1, at_most=1000),
            reward_scale=self._float("reward_scale", reward_scale, above=0),
            frame_skip=self._int("frame_skip", frame_skip, at_least=1),
            standardise=self._bool("standardise", standardise),
        )
        self._build()

    # ...


class SimTaskParams(NamedTuple):
    """Constructor keywords of `SimTask`, which says what they are."""

    max_steps: int = 200
    reward_scale: float = 0.1


# ...


def sim_task_advance(
    params: SimTaskParams, step_count: Tensor, next_observation: Tensor, reward: Tensor, terminated: Tensor,
    truncated: Tensor,
) -> SimTaskNext:
    """One step: all that the step after it depends on."""
    done = terminated | truncated
    # chains.SimTask.transforms[0]
    next_step_count = step_count + 1
    next_truncated = truncated | (next_step_count >= params.max_steps)
    return SimTaskNext(
        observation=next_observation, done=done | next_truncated, terminated=terminated,
        truncated=next_truncated, step_count=next_step_count, raw_reward=reward,
    )


# ...


class SimTask(GeneratedGymEnv["SimTaskData", "SimTaskSpecs"]):
    # ...

    def _gym_row(
        self, held: Sequence[Any], next_observation: Array, reward: Any, terminated: Any, truncated: Any
    ) -> dict[str, Any]:
        params = self.params
        consts = self._gym_consts
        (step_count,) = held
        done = terminated | truncated
        # chains.SimTask.transforms[0]
        next_step_count = step_count + 1
        next_truncated = truncated | (next_step_count >= params.max_steps)
        return {
            "observation": next_observation.copy(),
            "done": done | next_truncated,
            "terminated": terminated,
            "truncated": next_truncated,
            "step_count": next_step_count,
            "reward": reward * row_number("float32", params.reward_scale) + consts.reward_scaling_1_loc,
        }

    # ...


# ...
