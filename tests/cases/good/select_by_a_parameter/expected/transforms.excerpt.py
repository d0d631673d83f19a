# ...


class Picked(GeneratedTransform[PickedKeys]):
    """The transform `Picked`.

    Reads, for each of `in_keys`:
        `x`, float32 [*batch, n]

    Writes, for each of them:
        `y`, of the type that is computed
    """

    _reads = ("x",)
    _writes = ("y",)
    _follows: ClassVar[Mapping[str, Follows]] = {"y": Follows("structural")}
    _maps: ClassVar[Mapping[str, str]] = {"y": "x"}
    _logical = True
    _shapes: ClassVar[Mapping[str, str]] = {"x": "n"}

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None,
        place: int = 1,
    ) -> None:
        """The transform `Picked`.

        Args:
            in_keys: the keys that it works on (default: `observation`).
            out_keys: the keys of `y`, one for each input (default: `picked`, after the input's key).
            place: int; >= 0.

        Raises:
            ValueError: if `place` is not >= 0.
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys)
        if not place >= 0:
            raise ValueError(f"place must be >= 0, got {place}")
        self.place = place

    def _bind(self, env: EnvBase | None) -> list[PickedKeys]:
        x = self._select(env, self._in_keys, ("observation",), (torch.float32,))
        y = self._named(self._out_keys, [rename_leaf(key, "picked") for key in x], "out_keys")
        return [PickedKeys(*keys) for keys in zip(x, y, strict=True)]

    def _apply_transform(self, x: Tensor) -> Tensor:
        return picked_map(self.place, x)
