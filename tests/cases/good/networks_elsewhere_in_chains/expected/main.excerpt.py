# ...


def writes_advance(
    params: PendulumParams, networks: WritesNetworks, th: Tensor, thdot: Tensor, done: Tensor, latent: Tensor
) -> WritesNext:
    """One step: all that the step after it depends on."""
    # chains.Writes.transforms[0]
    action_u = networks.decoder(latent)
    # envs.Pendulum
    base = pendulum_advance(params, th, thdot, done, action_u)
    reward = pendulum_reward(th, thdot, action_u)
    return WritesNext(
        th=base.th, thdot=base.thdot, done=base.done, terminated=base.terminated, truncated=base.truncated,
        reward=reward,
    )


class Writes(RenderedEnv["WritesData", "WritesSpecs"]):
    # ...

    def __init__(
        self, *, decoder: nn.Module, g: float = 10.0, m: float = 1.0, l: float = 1.0, dt: float = 0.05,
        batch_size: Sequence[int] = (), device: DEVICE_TYPING | None = None,
    ) -> None:
        """`Pendulum` with transforms.

        Args:
            decoder: a network from `z` to float32 [*rows, n], of Latent.
            g: gravity in m/s² (default 10.0)
            m: mass in kg (default 1.0, > 0)
            l: length in m (default 1.0, > 0)
            dt: seconds between two steps (default 0.05, > 0)
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
        """
        super().__init__(batch_size=batch_size, device=device)
        self.params = PendulumParams(
            g=self._float("g", g),
            m=self._float("m", m, above=0),
            l=self._float("l", l, above=0),
            dt=self._float("dt", dt, above=0),
        )
        self.networks = WritesNetworks(
            decoder=row_network(
                self, "decoder", decoder, NetworkRows(((4,),), torch.float32, (1,)), of="Latent_0"
            )
        )
        self._build()

    # ...


# ...


def learns_advance(
    params: PendulumParams, learned: LearnsLearned, th: Tensor, thdot: Tensor, done: Tensor, action: Tensor
) -> LearnsNext:
    """One step: all that the step after it depends on."""
    # envs.Pendulum
    base = pendulum_advance(params, th, thdot, done, action)
    next_observation = pendulum_observe(base.th, base.thdot)
    # chains.Learns.transforms[0]
    (observation_energy,) = learned.energy_0.update("observation", next_observation)
    next_energy = next_observation * observation_energy.to(torch.float32)
    return LearnsNext(
        th=base.th, thdot=base.thdot, done=base.done, terminated=base.terminated, truncated=base.truncated,
        energy=next_energy,
    )


# ...


class Learns(LearningChain["LearnsData", "LearnsSpecs"], RenderedEnv["LearnsData", "LearnsSpecs"]):
    # ...

    def __init__(
        self, *, teacher: nn.Module, g: float = 10.0, m: float = 1.0, l: float = 1.0, dt: float = 0.05,
        batch_size: Sequence[int] = (), device: DEVICE_TYPING | None = None,
    ) -> None:
        """`Pendulum` with transforms.

        Args:
            teacher: a network from `x` to float32 [*rows], of Energy; it stays as it is.
            g: gravity in m/s² (default 10.0)
            m: mass in kg (default 1.0, > 0)
            l: length in m (default 1.0, > 0)
            dt: seconds between two steps (default 0.05, > 0)
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
        """
        super().__init__(batch_size=batch_size, device=device)
        self.params = PendulumParams(
            g=self._float("g", g),
            m=self._float("m", m, above=0),
            l=self._float("l", l, above=0),
            dt=self._float("dt", dt, above=0),
        )
        self.networks = LearnsNetworks(
            teacher=row_network(
                self,
                "teacher",
                teacher,
                NetworkRows((("n",),), torch.float32, ()),
                frozen=True,
                of="Energy_0",
            )
        )
        self.learned = LearnsLearned(
            energy_0=self._learner(
                0,
                Energy(encoder=teacher, x_key="observation"),
                {"observation": torch.zeros((3,), dtype=torch.float32)},
                networks={"encoder": self.networks.teacher},
            )
        )
        self._build()

    # ...


# ...


def waits_advance(
    params: PendulumParams, networks: WaitsNetworks, th: Tensor, thdot: Tensor, done: Tensor,
    terminated: Tensor, truncated: Tensor, action: Tensor,
) -> WaitsNext:
    """One step: all that the step after it depends on."""
    # envs.Pendulum
    observation = pendulum_observe(th, thdot)
    base = pendulum_advance(params, th, thdot, done, action)
    reward = pendulum_reward(th, thdot, action)
    # chains.Waits.transforms[0]
    skipped = (networks.content(observation) > 0).unsqueeze(-1)
    reward_2 = torch.zeros_like(base.done, dtype=torch.float32)
    return WaitsNext(
        th=torch.where(skipped.squeeze(-1), th, base.th),
        thdot=torch.where(skipped.squeeze(-1), thdot, base.thdot), done=torch.where(skipped, done, base.done),
        terminated=torch.where(skipped, terminated, base.terminated),
        truncated=torch.where(skipped, truncated, base.truncated),
        reward=torch.where(skipped, reward_2, reward),
    )


# ...
