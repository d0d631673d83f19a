# ...


def extreme_reset(x: Tensor) -> Tensor:
    """`largest` at the start of an episode.

    Args:
        x: float32 [*batch, ...].
    """
    # transforms.Extreme.reset
    return x


def extreme_reset_rose(rose: Tensor) -> Tensor:
    """`rose` at the start of an episode.

    Args:
        rose: bool [*batch], read for its shape and dtype only.
    """
    # transforms.Extreme.reset
    return torch.zeros_like(rose)


def extreme_step(largest: Tensor, next_x: Tensor) -> Tensor:
    """`largest` after a step.

    Args:
        largest: float32 [*batch, ...], before the step.
        next_x: float32 [*batch, ...], after the step.
    """
    # transforms.Extreme.step
    return torch.maximum(largest, next_x)


def extreme_step_rose(x_rank: int, x: Tensor, rose: Tensor, next_x: Tensor) -> Tensor:
    """`rose` after a step.

    Args:
        x_rank: how many dimensions `x` has, without the batch's.
        x: float32 [*batch, ...], before the step.
        rose: bool [*batch], before the step.
        next_x: float32 [*batch, ...], after the step.
    """
    # transforms.Extreme.step
    return rose | (next_x > x).unsqueeze(-1).flatten(-1 - x_rank, -1).any(dim=-1)


class Extreme(GeneratedTransform[ExtremeKeys]):
    """The largest value so far, or of recorded data the largest that is still to come.

    Reads, for each of `in_keys`:
        `x`, float32 [*batch, ...]

    Writes, for each of them:
        `largest`, of the type that is computed; carried from step to step
        `rose`, bool [*batch]; carried from step to step; only with `rose_key`: whether any of it has
            risen since the reset
    """

    _reads = ("x",)
    _writes = ("largest", "rose")
    _recalls = ("largest", "rose")
    _recalls_inputs = ("x",)
    _carries = ("largest", "rose")
    _optional = ("rose",)
    _follows: ClassVar[Mapping[str, Follows]] = {"largest": Follows("monotone")}
    _beside: ClassVar[Mapping[str, str]] = {"largest": "x"}
    _logical = True
    _sequential = True
    _backward_param = "ahead"

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None,
        rose_key: NestedKey | None = None, ahead: bool = False,
    ) -> None:
        """The largest value so far, or of recorded data the largest that is still to come.

        Args:
            in_keys: the keys that it works on (default: `observation`).
            out_keys: the keys of `largest`, one for each input (default: `largest`, after the input's key).
            rose_key: the key of `rose` (default: none, and there is none).
            ahead: look at what follows.
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys)
        self.rose_key = None if rose_key is None else normal_key(rose_key)
        self.ahead = ahead

    def _bind(self, env: EnvBase | None) -> list[ExtremeKeys]:
        x = self._select(env, self._in_keys, ("observation",), (torch.float32,))
        largest = self._named(self._out_keys, [rename_leaf(key, "largest") for key in x], "out_keys")
        rose = [self.rose_key] * len(x)
        return [ExtremeKeys(*keys) for keys in zip(x, largest, rose, strict=True)]

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        for key in self.keys:
            if key.rose is not None:
                specs[key.rose] = flag_like(self._row_spec(key.rose))
        return specs

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            x = self._require(tensordict_reset, key.x)
            largest = extreme_reset(x)
            self._keep(tensordict_reset, key.largest, largest)
            if key.rose is not None:
                rose = extreme_reset_rose(self._blank(key.rose))
                self._keep(tensordict_reset, key.rose, rose)
            self._stash(tensordict_reset, key.x)
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.keys:
            largest = self._recall(tensordict, key.largest)
            next_x = self._require(next_tensordict, key.x)
            next_largest = extreme_step(largest, next_x)
            self._keep(next_tensordict, key.largest, next_largest)
            if key.rose is not None:
                x = self._recall_input(tensordict, key.x)
                rose = self._recall(tensordict, key.rose)
                next_rose = extreme_step_rose(self._rank(key.x), x, rose, next_x)
                self._keep(next_tensordict, key.rose, next_rose)
            self._stash(next_tensordict, key.x)
        return next_tensordict


# ...


def plain_reset(
    not_done: Tensor, draw_x: Tensor, draw_x_dot: Tensor, draw_theta: Tensor, draw_theta_dot: Tensor
) -> PlainRoot:
    """A fresh episode in every row of the batch."""
    # envs.CartPole
    base = cart_pole_reset(not_done, draw_x, draw_x_dot, draw_theta, draw_theta_dot)
    observation = cart_pole_observe(base.x, base.x_dot, base.theta, base.theta_dot)
    # chains.Plain.transforms[0]
    largest = observation
    return PlainRoot(
        x=base.x, x_dot=base.x_dot, theta=base.theta, theta_dot=base.theta_dot, done=base.done,
        terminated=base.terminated, truncated=base.truncated, largest=largest,
    )


def plain_advance(
    params: CartPoleParams, x: Tensor, x_dot: Tensor, theta: Tensor, theta_dot: Tensor, largest: Tensor,
    action: Tensor,
) -> PlainNext:
    """One step: all that the step after it depends on."""
    # envs.CartPole
    base = cart_pole_advance(params, x, x_dot, theta, theta_dot, action)
    next_observation = cart_pole_observe(base.x, base.x_dot, base.theta, base.theta_dot)
    # chains.Plain.transforms[0]
    next_largest = torch.maximum(largest, next_observation)
    return PlainNext(
        x=base.x, x_dot=base.x_dot, theta=base.theta, theta_dot=base.theta_dot, done=base.done,
        terminated=base.terminated, truncated=base.truncated, largest=next_largest,
    )


# ...


def told_reset(
    not_done: Tensor, draw_x: Tensor, draw_x_dot: Tensor, draw_theta: Tensor, draw_theta_dot: Tensor
) -> ToldRoot:
    """A fresh episode in every row of the batch."""
    # envs.CartPole
    base = cart_pole_reset(not_done, draw_x, draw_x_dot, draw_theta, draw_theta_dot)
    observation = cart_pole_observe(base.x, base.x_dot, base.theta, base.theta_dot)
    # chains.Told.transforms[0]
    largest = observation
    climbed = torch.zeros(not_done.shape[:-1], dtype=torch.bool, device=not_done.device)
    return ToldRoot(
        x=base.x, x_dot=base.x_dot, theta=base.theta, theta_dot=base.theta_dot, done=base.done,
        terminated=base.terminated, truncated=base.truncated, largest=largest, climbed=climbed,
    )


def told_advance(
    params: CartPoleParams, x: Tensor, x_dot: Tensor, theta: Tensor, theta_dot: Tensor, largest: Tensor,
    climbed: Tensor, action: Tensor,
) -> ToldNext:
    """One step: all that the step after it depends on."""
    # envs.CartPole
    observation = cart_pole_observe(x, x_dot, theta, theta_dot)
    base = cart_pole_advance(params, x, x_dot, theta, theta_dot, action)
    next_observation = cart_pole_observe(base.x, base.x_dot, base.theta, base.theta_dot)
    # chains.Told.transforms[0]
    next_largest = torch.maximum(largest, next_observation)
    next_climbed = climbed | (next_observation > observation).any(dim=-1)
    return ToldNext(
        x=base.x, x_dot=base.x_dot, theta=base.theta, theta_dot=base.theta_dot, done=base.done,
        terminated=base.terminated, truncated=base.truncated, largest=next_largest, climbed=next_climbed,
    )


# ...


class Told(RenderedEnv["ToldData", "ToldSpecs"]):
    # ...

    def _root_entries(self, root: ToldRoot) -> dict[str, Any]:
        return {
            "observation": cart_pole_observe(root.x, root.x_dot, root.theta, root.theta_dot),
            **root._asdict(),
        }

    # ...


# ...
