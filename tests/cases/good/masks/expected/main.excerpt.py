# ...


def cells_advance(free: Tensor, luck: Tensor, action: Tensor) -> CellsNext:
    """One step of the dynamics: all that the step after it depends on.

    Args:
        free, luck: as in `CellsRoot`.
        action: int64 [*batch].
    """
    # envs.Cells.step
    next_free = free & (torch.nn.functional.one_hot(action, 3) == 0)
    next_luck = luck
    terminated = (~next_free.any(dim=-1)).unsqueeze(-1)
    return CellsNext(
        free=next_free, luck=next_luck, done=terminated.clone(), terminated=terminated,
        truncated=torch.zeros_like(terminated),
    )


# ...


class Cells(GeneratedEnv["CellsData", "CellsSpecs"]):
    # ...

    def _specs(self) -> EnvSpecs:
        observation = Composite(
            action_mask=Binary(shape=(3,), dtype=torch.bool),
            free=Binary(shape=(3,), dtype=torch.bool),
            luck=Unbounded(shape=(), dtype=torch.float32),
        )
        return EnvSpecs(
            action=Composite(action=Categorical(3, shape=(), dtype=torch.int64)),
            observation=observation,
            state=observation.select("free", "luck"),
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
        ).to(self.device)

    # ...


# ...


def mirror_map(mask: Tensor) -> Tensor:
    """`turned` at any moment.

    Args:
        mask: bool [*batch, 3].
    """
    # transforms.Mirror.map
    return mask.flip(-1)


def mirror_inverse(v: Tensor) -> Tensor:
    """`u`, as the environment takes it.

    Args:
        v: int64 [*batch].
    """
    # transforms.Mirror.inverse
    return 2 - v


class Mirror(GeneratedTransform[MirrorKeys, MirrorInverseKeys]):
    """The classes from behind, and a mask of what is written.

    Reads:
        `mask`, bool [*batch, 3]

    Writes:
        `turned`, of the type that is computed

    Gives the environment, for each of `in_keys_inv`:
        `u`, int64 [*batch]

    Reads, in its place:
        `v`, categorical(3) [*batch]
    """

    _writes = ("turned",)
    _gives = ("u",)
    _takes = ("v",)
    _follows: ClassVar[Mapping[str, Follows]] = {"turned": Follows("structural", low=0, high=1)}
    _logical = True
    _shapes: ClassVar[Mapping[str, str]] = {"mask": "3"}
    _inverse_shapes: ClassVar[Mapping[str, str]] = {"u": ""}
    invertible = True

    def __init__(self, mask_key: NestedKey = "action_mask", u_key: NestedKey = "action") -> None:
        """The classes from behind, and a mask of what is written.

        Args:
            mask_key: the key of `mask`.
            u_key: the key of `u`.
        """
        super().__init__()
        self.mask_key = normal_key(mask_key)
        self.u_key = normal_key(u_key)

    def _bind(self, env: EnvBase | None) -> list[MirrorKeys]:
        mask = self._checked(env, [self.mask_key], (torch.bool,))
        turned = ["turned_mask"] * len(mask)
        return [MirrorKeys(*keys) for keys in zip(mask, turned, strict=True)]

    def _bind_inv(self, env: EnvBase | None) -> list[MirrorInverseKeys]:
        u = self._checked(env, [self.u_key], (torch.int64,), INPUTS)
        v = u
        return [MirrorInverseKeys(*keys) for keys in zip(u, v, strict=True)]

    def _map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        for key in self.keys:
            if tolerant and self._lacks(tensordict, key.mask):
                continue
            mask = self._require(tensordict, key.mask)
            turned = mirror_map(mask)
            self._write(tensordict, key.turned, turned)
        return tensordict

    def _inv_apply_transform(self, v: Tensor) -> Tensor:
        return mirror_inverse(v)

    def _outer_specs(self, key: MirrorInverseKeys) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        u = self._spec(key.u, INPUTS)
        specs[key.v] = choices_like(u, "categorical", 3, drop=self._inner_rank(key.u), dtype=torch.int64)
        return specs


# ...


class Turned(GeneratedTransform[TurnedKeys]):
    """The transform `Turned`.

    Reads:
        `mask`, bool [*batch, 3]

    Random actions keep to `mask`, which says what of `u` is allowed.
    """

    _masks = (("u", "mask"),)

    def __init__(self, mask_key: NestedKey = "turned_mask", action_key: NestedKey = "action") -> None:
        """The transform `Turned`.

        Args:
            mask_key: the key of `mask`.
            action_key: the key of `u`.
        """
        super().__init__()
        self.mask_key = normal_key(mask_key)
        self.action_key = normal_key(action_key)

    def _bind(self, env: EnvBase | None) -> list[TurnedKeys]:
        mask = self._checked(env, [self.mask_key], (torch.bool,))
        u = self._checked(env, [self.action_key] * len(mask), ANY_DTYPES, INPUTS)
        return [TurnedKeys(*keys) for keys in zip(mask, u, strict=True)]


# ...


def behind_reset(not_done: Tensor, draw_luck: Tensor) -> BehindRoot:
    """A fresh episode in every row of the batch."""
    # envs.Cells
    base = cells_reset(not_done, draw_luck)
    return BehindRoot(
        free=base.free, luck=base.luck, done=base.done, terminated=base.terminated, truncated=base.truncated
    )


def behind_advance(free: Tensor, luck: Tensor, action: Tensor) -> BehindNext:
    """One step: all that the step after it depends on."""
    # chains.Behind.transforms[0]
    action_u = 2 - action
    # envs.Cells
    base = cells_advance(free, luck, action_u)
    return BehindNext(
        free=base.free, luck=base.luck, done=base.done, terminated=base.terminated, truncated=base.truncated
    )


def behind_reward(free: Tensor, action: Tensor, next_luck: Tensor) -> Tensor:
    """The reward of a step, for any leading dimensions."""
    # chains.Behind.transforms[0]
    action_u = 2 - action
    # envs.Cells
    return cells_reward(free, action_u, next_luck)


# ...


def behind_observe(free: Tensor) -> BehindObservation:
    """The observation of a state, for any leading dimensions."""
    # envs.Cells
    action_mask = cells_observe(free)
    # chains.Behind.transforms[0]
    turned_mask = action_mask.flip(-1)
    return BehindObservation(action_mask=action_mask, turned_mask=turned_mask)


class Behind(GeneratedEnv["BehindData", "BehindSpecs"]):
    # ...

    def _specs(self) -> EnvSpecs:
        observation = Composite(
            action_mask=Binary(shape=(3,), dtype=torch.bool),
            turned_mask=Binary(shape=(3,), dtype=torch.bool),
            free=Binary(shape=(3,), dtype=torch.bool),
            luck=Unbounded(shape=(), dtype=torch.float32),
        )
        return EnvSpecs(
            action=Composite(action=Categorical(3, shape=(), dtype=torch.int64)),
            observation=observation,
            state=observation.select("free", "luck"),
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
        ).to(self.device)

    # ...

    def _root_entries(self, root: BehindRoot) -> dict[str, Any]:
        observed = behind_observe(root.free)
        return {"action_mask": observed.action_mask, "turned_mask": observed.turned_mask, **root._asdict()}

    def _next_entries(
        self, root: BehindRoot, actions: tuple[Tensor, ...], next_: BehindNext
    ) -> dict[str, Any]:
        return {**self._root_entries(next_), "reward": behind_reward(root.free, actions[0], next_.luck)}

    # ...


# ...
