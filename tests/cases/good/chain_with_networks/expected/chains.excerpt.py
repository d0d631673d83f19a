# ...


def encode_map(encoder: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """`y` at any moment.

    Args:
        encoder: what sees, from `x` to float32 [*rows, 4].
        x: float32 [*batch, n].
    """
    # transforms.Encode.map
    return encoder(x)


class Encode(GeneratedTransform[EncodeKeys]):
    """The transform `Encode`.

    Reads, for each of `in_keys`:
        `x`, float32 [*batch, n]

    Writes, for each of them:
        `y`, float32 [*batch, 4]
    """

    _reads = ("x",)
    _writes = ("y",)
    _maps: ClassVar[Mapping[str, str]] = {"y": "x"}
    _logical = True
    _shapes: ClassVar[Mapping[str, str]] = {"x": "n"}
    encoder: nn.Module

    def __init__(
        self, encoder: nn.Module, in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        """The transform `Encode`.

        Args:
            encoder: what sees, from `x` to float32 [*rows, 4]; it stays as it is.
            in_keys: the keys that it works on (default: `observation`).
            out_keys: the keys of `y`, one for each input (default: `{}_code`, after the input's key).

        Raises:
            TypeError: if a network is no module.
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys)
        self._add_network("encoder", encoder, NetworkRows((("n",),), torch.float32, (4,)), frozen=True)

    def _bind(self, env: EnvBase | None) -> list[EncodeKeys]:
        x = self._select(env, self._in_keys, ("observation",), (torch.float32,))
        y = self._named(self._out_keys, [rename_leaf(key, "{}_code") for key in x], "out_keys")
        return [EncodeKeys(*keys) for keys in zip(x, y, strict=True)]

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        for key in self.keys:
            specs[key.y] = unbounded_like(self._row_spec(key.y, (4,)), torch.float32)
        return specs

    def _apply_transform(self, x: Tensor) -> Tensor:
        return encode_map(self._networks["encoder"], x)


# ...


class ExploreNetworks(NamedTuple):
    """The networks that transforms of `Explore` call."""

    encoder: RowNetwork
    """what sees, from `x` to float32 [*rows, 4], of Encode"""
    risk: RowNetwork
    """a network from `x` to float32 [*rows], of Punish"""


# ...


def explore_reward(
    networks: ExploreNetworks, th: Tensor, thdot: Tensor, action: Tensor, next_th: Tensor, next_thdot: Tensor
) -> ExploreReward:
    """The reward of a step, for any leading dimensions."""
    # envs.Pendulum
    reward = pendulum_reward(th, thdot, action)
    next_observation = pendulum_observe(next_th, next_thdot)
    # chains.Explore.transforms[0]
    next_observation_code = networks.encoder(next_observation)
    # chains.Explore.transforms[1]
    safety_reward = (-networks.risk(next_observation_code)).unsqueeze(-1)
    return ExploreReward(reward=reward, safety_reward=safety_reward)


# ...


def explore_observe(networks: ExploreNetworks, th: Tensor, thdot: Tensor) -> ExploreObservation:
    """The observation of a state, for any leading dimensions."""
    # envs.Pendulum
    observation = pendulum_observe(th, thdot)
    # chains.Explore.transforms[0]
    observation_code = networks.encoder(observation)
    return ExploreObservation(observation=observation, observation_code=observation_code)


class Explore(RenderedEnv["ExploreData", "ExploreSpecs"]):
    # ...

    def __init__(
        self, *, encoder: nn.Module, risk: nn.Module, g: float = 10.0, m: float = 1.0, l: float = 1.0,
        dt: float = 0.05, batch_size: Sequence[int] = (), device: DEVICE_TYPING | None = None,
    ) -> None:
        """`Pendulum` with transforms.

        Args:
            encoder: what sees, from `x` to float32 [*rows, 4], of Encode; it stays as it is.
            risk: a network from `x` to float32 [*rows], of Punish.
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
        self.networks = ExploreNetworks(
            encoder=row_network(
                self,
                "encoder",
                encoder,
                NetworkRows((("n",),), torch.float32, (4,)),
                frozen=True,
                of="Encode_0",
            ),
            risk=row_network(self, "risk", risk, NetworkRows((("n",),), torch.float32, ()), of="Punish_1"),
        )
        self._build()

    # ...


# ...
