# ...


class AllowedKeys(NamedTuple):
    """What one repetition reads and writes."""

    mask: NestedKey
    """true where a class is allowed"""
    u: NestedKey


class Allowed(GeneratedTransform[AllowedKeys]):
    """Let random actions keep to the masks that are named for them, one for each.

    Reads, for each of `in_keys`:
        `mask`, bool [*batch, ...]: true where a class is allowed

    Random actions keep to `mask`, which says what of `u` is allowed.
    """

    _reads = ("mask",)
    _refuses_offline = True
    _masks = (("u", "mask"),)

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, in_keys_inv: Sequence[NestedKey] | None = None
    ) -> None:
        """Let random actions keep to the masks that are named for them, one for each.

        Args:
            in_keys: the keys that it works on (default: none, where `in_keys_inv` is given).
            in_keys_inv: the keys that it works on (default: every action, of those with bool or uint8 or
                int8 or int16 or int32 or int64 or float32 or float64).
        """
        super().__init__(in_keys=in_keys, in_keys_inv=in_keys_inv)

    def _bind(self, env: EnvBase | None) -> list[AllowedKeys]:
        mask = self._select(env, self._in_keys, (), (torch.bool,))
        u = self._paired_with(
            mask, self._select(env, self._in_keys_inv, ("env.action",), ANY_DTYPES, INPUTS), "in_keys_inv"
        )
        return [AllowedKeys(*keys) for keys in zip(mask, u, strict=True)]


class OneForAllKeys(NamedTuple):
    """What one repetition reads and writes."""

    mask: NestedKey


class OneForAllInverseKeys(NamedTuple):
    """What one repetition of the inverse writes and reads."""

    u: NestedKey
    v: NestedKey


# ...


class OneForAll(GeneratedTransform[OneForAllKeys, OneForAllInverseKeys]):
    """Let the policy count from behind, and all its random actions keep to one mask.

    Reads:
        `mask`, bool [*batch, 3]

    Gives the environment, for each of `in_keys_inv`:
        `u`, int64 [*batch]

    Reads, in its place:
        `v`, categorical(3) [*batch]

    Random actions keep to `mask`, which says what of `v` is allowed.
    """

    _gives = ("u",)
    _takes = ("v",)
    _inverse_shapes: ClassVar[Mapping[str, str]] = {"u": ""}
    invertible = True
    _masks = (("v", "mask"),)

    def __init__(
        self, in_keys_inv: Sequence[NestedKey] | None = None, out_keys_inv: Sequence[NestedKey] | None = None,
        mask_key: NestedKey = "left_mask",
    ) -> None:
        """Let the policy count from behind, and all its random actions keep to one mask.

        Args:
            in_keys_inv: the keys that it works on (default: every action, of those with int64).
            out_keys_inv: the keys of `v`, one for each input (default: `in_keys_inv`).
            mask_key: the key of `mask`.
        """
        super().__init__(in_keys_inv=in_keys_inv, out_keys_inv=out_keys_inv)
        self.mask_key = normal_key(mask_key)

    def _bind(self, env: EnvBase | None) -> list[OneForAllKeys]:
        mask = self._checked(env, [self.mask_key], (torch.bool,))
        return [OneForAllKeys(key) for key in mask]

    def _bind_inv(self, env: EnvBase | None) -> list[OneForAllInverseKeys]:
        u = self._select(env, self._in_keys_inv, ("env.action",), (torch.int64,), INPUTS)
        v = self._named(self._out_keys_inv, u, "out_keys_inv")
        return [OneForAllInverseKeys(*keys) for keys in zip(u, v, strict=True)]

    def _inv_apply_transform(self, v: Tensor) -> Tensor:
        return one_for_all_inverse(v)

    def _outer_specs(self, key: OneForAllInverseKeys) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        u = self._spec(key.u, INPUTS)
        specs[key.v] = choices_like(u, "categorical", 3, drop=self._inner_rank(key.u), dtype=torch.int64)
        return specs


class BothRoot(NamedTuple):
    """What a step reads from one time to the next; observations follow from it."""

    left_free: Bool[Tensor, "*batch 3"]
    right_free: Bool[Tensor, "*batch 3"]
    luck: Float32[Tensor, "*batch"]
    done: Bool[Tensor, "*batch 1"]
    terminated: Bool[Tensor, "*batch 1"]
    truncated: Bool[Tensor, "*batch 1"]


BothNext = BothRoot
"""What a step computes for the step after it: the same fields."""


# ...


class Both(GeneratedEnv["BothData", "BothSpecs"]):
    """`Cells` with transforms.

    Transforms, in order: Allowed.

    Keys:
        left_mask: bool [*batch, 3]
        right_mask: bool [*batch, 3]
        left_free: bool [*batch, 3]
        right_free: bool [*batch, 3]
        luck: float32 [*batch]
        done, terminated, truncated: bool [*batch, 1]; the episode is over; it ended; it was cut off
        left: int64 [*batch] in 0..2
        right: int64 [*batch] in 0..2
        ("next", "reward"): float32 [*batch, 1]
    """

    _root_record = BothRoot
    _action_masks = (
        ("left", "left_mask"),
        ("right", "right_mask"),
    )

    def __init__(self, *, batch_size: Sequence[int] = (), device: DEVICE_TYPING | None = None) -> None:
        """`Cells` with transforms.

        Args:
            batch_size: how many instances run side by side, any shape.
            device: where the tensors live.
        """
        super().__init__(batch_size=batch_size, device=device)
        self._build()

    def _specs(self) -> EnvSpecs:
        observation = Composite(
            left_mask=Binary(shape=(3,), dtype=torch.bool),
            right_mask=Binary(shape=(3,), dtype=torch.bool),
            left_free=Binary(shape=(3,), dtype=torch.bool),
            right_free=Binary(shape=(3,), dtype=torch.bool),
            luck=Unbounded(shape=(), dtype=torch.float32),
        )
        return EnvSpecs(
            action=Composite(
                left=Categorical(3, shape=(), dtype=torch.int64),
                right=Categorical(3, shape=(), dtype=torch.int64),
            ),
            observation=observation,
            state=observation.select("left_free", "right_free", "luck"),
            reward=Composite(reward=Unbounded(shape=(1,), dtype=torch.float32)),
        ).to(self.device)

    def _fresh(self) -> BothRoot:
        return both_reset(
            torch.zeros((*self.batch_size, 1), dtype=torch.bool, device=self.device),
            self._uniform((), torch.float32),
        )

    def _advance(self, root: BothRoot, actions: tuple[Tensor, ...]) -> BothNext:
        return both_advance(root.left_free, root.right_free, root.luck, actions[0], actions[1])

    def _root_entries(self, root: BothRoot) -> dict[str, Any]:
        observed = cells_observe(root.left_free, root.right_free)
        return {"left_mask": observed.left_mask, "right_mask": observed.right_mask, **root._asdict()}

    def _next_entries(self, root: BothRoot, actions: tuple[Tensor, ...], next_: BothNext) -> dict[str, Any]:
        return {
            **self._root_entries(next_),
            "reward": both_reward(root.left_free, root.right_free, actions[0], actions[1], next_.luck),
        }

    def _unfused(self) -> Unfused:
        return Unfused(Cells, [Allowed(in_keys=["left_mask", "right_mask"], in_keys_inv=["left", "right"])])


# ...


if TYPE_CHECKING:

    # ...

    class BothNextData(TypedTensorDict[
        Never,
        Literal["left_mask", "right_mask", "left_free", "right_free"], Bool[Tensor, "*batch 3"],
        Literal["luck"], Float32[Tensor, "*batch"],
        Literal["done", "terminated", "truncated"], Bool[Tensor, "*batch 1"],
        Literal["reward"], Float32[Tensor, "*batch 1"],
    ]):
        """The `"next"` part of `BothData`."""

    class BothData(TypedTensorDict[
        Literal["reward"],
        Literal["left_mask", "right_mask", "left_free", "right_free"]
        | tuple[Literal["next"], Literal["left_mask", "right_mask", "left_free", "right_free"]],
        Bool[Tensor, "*batch 3"],
        Literal["luck"] | tuple[Literal["next"], Literal["luck"]], Float32[Tensor, "*batch"],
        Literal["done", "terminated", "truncated"]
        | tuple[Literal["next"], Literal["done", "terminated", "truncated"]], Bool[Tensor, "*batch 1"],
        Literal["left", "right"], Int64[Tensor, "*batch"],
        tuple[Literal["next"], Literal["reward"]], Float32[Tensor, "*batch 1"],
        Literal["next"], BothNextData,
    ]):
        """The tensordicts of `Both`, with their keys."""

    class BothSpecs(
        KeyTypes[NestedKey, Literal["reward"], Literal["done"]],
        Actions[Literal["left", "right"], Categorical],
        Observations[
            Literal["left_mask", "right_mask", "left_free", "right_free"], Binary,
            Literal["luck"], Unbounded,
        ],
        States[Literal["left_free", "right_free"], Binary, Literal["luck"], Unbounded],
        OneReward[Literal["reward"], Unbounded],
        Dones[Literal["done", "terminated", "truncated"], Categorical],
    ):
        """The types of the specs and keys of `Both`."""

    # ...
