# ...


class Live(GeneratedTransform[LiveKeys]):
    """The transform `Live`.

    Reads, for each of `in_keys`:
        `x`, float32 [*batch, ...]

    Writes, for each of them:
        `y`, of the type that is computed
    """

    _reads = ("x",)
    _writes = ("y",)
    _follows: ClassVar[Mapping[str, Follows]] = {"y": Follows("monotone")}
    _maps: ClassVar[Mapping[str, str]] = {"y": "x"}
    _refuses_offline = True

    def __init__(
        self, in_keys: Sequence[NestedKey] | None = None, out_keys: Sequence[NestedKey] | None = None
    ) -> None:
        """The transform `Live`.

        Args:
            in_keys: the keys that it works on (default: `observation`).
            out_keys: the keys of `y`, one for each input (default: `in_keys`).
        """
        super().__init__(in_keys=in_keys, out_keys=out_keys)

    def _bind(self, env: EnvBase | None) -> list[LiveKeys]:
        x = self._select(env, self._in_keys, ("observation",), (torch.float32,))
        y = self._named(self._out_keys, x, "out_keys")
        return [LiveKeys(*keys) for keys in zip(x, y, strict=True)]

    def _apply_transform(self, x: Tensor) -> Tensor:
        return live_map(x)
