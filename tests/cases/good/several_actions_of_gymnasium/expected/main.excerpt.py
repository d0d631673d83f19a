# ...


class Boat(GeneratedGymEnv["BoatData", "BoatSpecs"]):
    """A boat whose actions are a Tuple.

    Keys:
        force: float32 [1]
        place: float32 [1]
        done, terminated, truncated: bool [1]; the episode is over; it ended; it was cut off
        ("action", "part_0"): int64 [3] one-hot
        ("action", "part_1"): float32 [1] in [0, 1]
        ("next", "reward"): float32 [1]
    """

    _gym_id = "harbors:Boat-v0"
    _gym_max_episode_steps = 8
    _root_record = BoatRoot
    _next_record = BoatNext

    def __init__(self, *, device: DEVICE_TYPING | None = None, **gym_kwargs: Any) -> None:
        """A boat whose actions are a Tuple.

        Args:
            device: where the tensors live.
            **gym_kwargs: further keywords of `gymnasium.make`.
        """
        super().__init__(device=device, **gym_kwargs)
        self._build()

    def _specs(self) -> EnvSpecs:
        return EnvSpecs(
            action=Composite(
                action=Composite(
                    part_0=OneHot(3, shape=(3,), dtype=torch.int64),
                    part_1=Bounded(low=0.0, high=1.0, shape=(1,), dtype=torch.float32),
                )
            ),
            observation=Composite(
                force=Bounded(low=-2.0, high=2.0, shape=(1,), dtype=torch.float32),
                place=Bounded(low=-2.0, high=2.0, shape=(1,), dtype=torch.float32),
            ),
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
        ).to(self.device)


# ...


def harbor_train_inverse(
    consts: HarborTrainConsts, action_engine_force: Tensor, action_engine_move: Tensor, action_lamps: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """What Gymnasium is given, of what the policy wrote."""
    # chains.HarborTrain.transforms[0]
    action_engine_force_action = consts.action_scaling_0_action_engine_force_low + (
        action_engine_force + 1
    ) / 2 * (
        consts.action_scaling_0_action_engine_force_high - consts.action_scaling_0_action_engine_force_low
    )
    return action_engine_force_action, action_engine_move, action_lamps


# ...


class HarborTrain(GeneratedGymEnv["HarborTrainData", "HarborTrainSpecs"]):
    """`Harbor` with transforms.

    Transforms, in order: ActionScaling, RewardSum.

    Keys:
        observation: float32 [1]
        episode_reward: float32 [1]; the sum of `reward` since the last reset
        done, terminated, truncated: bool [1]; the episode is over; it ended; it was cut off
        ("action", "engine", "force"): float32 [1] in [-1, 1]
        ("action", "engine", "move"): int64 [] in 0..2
        ("action", "lamps"): int8 [2]
        ("next", "reward"): float32 [1]
    """

    # ...

    def _specs(self) -> EnvSpecs:
        observation = Composite(
            observation=Bounded(low=-2.0, high=2.0, shape=(1,), dtype=torch.float32),
            episode_reward=Unbounded(shape=(1,), dtype=torch.float32),
        )
        return EnvSpecs(
            action=Composite(
                action=Composite(
                    engine=Composite(
                        force=Bounded(low=-1.0, high=1.0, shape=(1,), dtype=torch.float32),
                        move=Categorical(3, shape=(), dtype=torch.int64),
                    ),
                    lamps=Binary(shape=(2,), dtype=torch.int8),
                )
            ),
            observation=observation,
            state=observation.select("episode_reward"),
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
        ).to(self.device)

    def _gym_action(self, actions: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return harbor_train_inverse(self.consts, actions[0], actions[1], actions[2])

    def _advance(self, root: HarborTrainRoot, actions: tuple[Tensor, ...]) -> HarborTrainNext:
        next_observation, reward, terminated, truncated = self._gym_step(*self._gym_action(actions))
        return harbor_train_advance(root.episode_reward, next_observation, reward, terminated, truncated)

    # ...


# ...


def harbor_skip_advance(
    dynamics: GymDynamics, consts: HarborSkipConsts, observation: Tensor, done: Tensor,
    action_engine_force: Tensor, action_engine_move: Tensor, action_lamps: Tensor,
) -> HarborSkipNext:
    """One step: all that the step after it depends on."""
    # chains.HarborSkip.transforms[0]
    action_engine_force_action = consts.action_scaling_0_action_engine_force_low + (
        action_engine_force + 1
    ) / 2 * (
        consts.action_scaling_0_action_engine_force_high - consts.action_scaling_0_action_engine_force_low
    )
    next_observation = torch.zeros_like(observation)
    done_2 = torch.zeros_like(done)
    terminated = torch.zeros_like(done)
    truncated = torch.zeros_like(done)
    reward = torch.zeros_like(done, dtype=torch.float32)
    over = torch.zeros_like(done)
    # chains.HarborSkip.transforms[1]
    for _ in range(4):
        if bool(over):
            break
        next_observation_2, reward_2, terminated_2, truncated_2 = dynamics.step(
            action_engine_force_action, action_engine_move, action_lamps
        )
        done_2 = terminated_2 | truncated_2
        reward = reward + reward_2
        over = over | done_2
        next_observation = next_observation_2
        terminated = terminated_2
        truncated = truncated_2
    return HarborSkipNext(
        observation=next_observation, done=done_2, terminated=terminated, truncated=truncated, reward=reward
    )


class HarborSkip(GeneratedGymEnv["HarborSkipData", "HarborSkipSpecs"]):
    # ...

    def _advance(self, root: HarborSkipRoot, actions: tuple[Tensor, ...]) -> HarborSkipNext:
        return harbor_skip_advance(
            self.dynamics, self.consts, root.observation, root.done, actions[0], actions[1], actions[2]
        )

    # ...


# ...


def actor_network(config: PPOHarborConfig, generator: torch.Generator) -> ProbabilisticActor:
    """Make a network from `observation`, float32 [1] in [-2, 2], to a distribution (tanh_normal) over
    `action.engine.force`, float32 [1] in [-1, 1], and a distribution (categorical) over
    `action.engine.move`, int64, one of 3, and a distribution (bernoulli) over `action.lamps`, int8 [2].
    """
    net = nn.Sequential(
        MLP(in_features=1, out_features=6, num_cells=[64, 64], activation_class=nn.Tanh),
        OutputHeads(
            (1, AddStateIndependentNormalScale(1, init_value=math.log(config.init_scale))),
            (3, nn.Identity()), (2, nn.Identity()),
        ),
    )
    module = SafeModule(
        net,
        in_keys=["observation"],
        out_keys=[
            ("params", "engine", "force", "loc"),
            ("params", "engine", "force", "scale"),
            ("params", "engine", "move", "logits"),
            ("params", "lamps", "logits"),
        ],
    )
    return ProbabilisticActor(
        module,
        in_keys=["params"],
        out_keys=[("action", "engine", "force"), ("action", "engine", "move"), ("action", "lamps")],
        distribution_class=CompositeDistribution,
        distribution_kwargs={
            "distribution_map": {
                ("engine", "force"): TanhNormal,
                ("engine", "move"): CategoricalDistribution,
                "lamps": IndependentBernoulli,
            },
            "name_map": {
                ("engine", "force"): ("action", "engine", "force"),
                ("engine", "move"): ("action", "engine", "move"),
                "lamps": ("action", "lamps"),
            },
            "extra_kwargs": {("engine", "force"): {"low": -1.0, "high": 1.0}},
        },
        return_log_prob=True,
        log_prob_key="action_log_prob",
        default_interaction_type=ExplorationType.RANDOM,
        generator=generator,
    )


# ...
