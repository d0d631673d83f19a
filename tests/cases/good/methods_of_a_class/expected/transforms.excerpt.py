# ...


class Centre(GeneratedTransform[CentreKeys], CentreMethods):
    """Take the mean off.

    Reads, for each of `in_keys`:
        `x`, float32 [*batch, ...]

    Writes, for each of them:
        `y`, of the type that is computed
    """

    _methods = CentreMethods
    _reads = ("x",)
    _writes = ("y",)
    _follows: ClassVar[Mapping[str, Follows]] = {"y": Follows("monotone")}
    _maps: ClassVar[Mapping[str, str]] = {"y": "x"}

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None,
        mean: float = 0.0,
    ) -> None:
        """Take the mean off.

        Args:
            in_keys: the keys that it works on (default: `observation`).
            out_keys: the keys of `y`, one for each input (default: `in_keys`).
            mean: float.
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys)
        self.mean = mean

    def _bind(self, env: EnvBase | None) -> list[CentreKeys]:
        x = self._select(env, self._in_keys, ("observation",), (torch.float32,))
        y = self._named(self._out_keys, x, "out_keys")
        return [CentreKeys(*keys) for keys in zip(x, y, strict=True)]

    def _apply_transform(self, x: Tensor) -> Tensor:
        return centre_map(self.mean, x)
