# ...


class HeirLoss(RightLoss):
    """The loss `HeirLoss`.

    `loss_alpha` trains `log_alpha`.

    Keys, by the name that `set_keys` takes:
        action: action
        target: target
    """

    @dataclass
    class _AcceptedKeys(RightLoss._AcceptedKeys):  # pyright: ignore[reportPrivateUsage]
        action: NestedKey = "action"
        target: NestedKey = "target"

    default_value_estimator = None
    supported_value_estimators = None
    value_role = "value"
    feature_ranks: ClassVar[Mapping[str, int]] = {**LossModule.feature_ranks, "target": 1}
    trained: ClassVar[Mapping[str, Sequence[str]]] = {"loss_alpha": ("log_alpha",)}
    ranges: ClassVar[Mapping[str, NumberRange]] = {}
    reads_next = False
    out_keys: ClassVar[list[str]] = ["loss_alpha"]
    parts: ClassVar[Mapping[str, LossPart]] = {}

    actor_network: TensorDictModuleBase
    actor_network_params: TensorDictParams
    log_alpha: Tensor

    def __init__(
        self, actor_network: nn.Module, *, reduction: Reduction | None = None,
        use_prioritized_weights: Literal["auto"] | bool = "auto", functional: bool = True,
        device: torch.device | str | int | None = None,
    ) -> None:
        """The loss `HeirLoss`.

        Args:
            actor_network: gives the distribution of `action`.
            reduction: of the samples, "mean", "sum" or "none", which keeps one value per sample. Defaults
                to "mean".
            use_prioritized_weights: weight the samples by their importance: True, False, or "auto", if the
                data hold weights.
            functional: whether the loss takes the parameters of its networks. Defaults to True; otherwise
                they are ordinary children, without targets.
            device: of the buffers of the loss itself. Defaults to None: that of the parameters.

        Raises:
            TypeError: if a network is not a module, or a policy gives no distribution.
            ValueError: if a keyword has a value that it does not take, or they contradict each other.
        """
        LossModule.__init__(self, functional=functional)
        self.reduction = reduction
        self.use_prioritized_weights = use_prioritized_weights
        self.convert_to_functional(
            as_policy(actor_network, "actor_network", type(self).__name__, reparameterized=True),
            "actor_network",
            create_target_params=False,
        )
        add_learnable(self, "log_alpha", 0.0)
        self._place_buffers(device)

    @property
    def alpha(self) -> Tensor:
        """The exponential of `log_alpha`, without gradients."""
        return exponential_of(self, "log_alpha")

    def _is_returned(self, name: str) -> bool:
        return True

    @property
    def in_keys(self) -> list[NestedKey]:
        """What the loss reads; what its keywords are called when it is called with tensors."""
        keys = self.tensor_keys
        return [*self._network_in_keys, keys.target]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        keys = self.tensor_keys
        actor_network = self.functional_network("actor_network")
        # losses.HeirLoss.let
        with torch.no_grad():
            dist = actor_network.dist("live", tensordict)
            _, dist_rsample_log_prob = dist.rsample_and_log_prob()
        terms = heir_loss(
            dist_rsample_log_prob, self._read_column(tensordict, keys.target, "target"),
            log_alpha=self.log_alpha,
        )
        samples = self._samples(tensordict)
        return self._outputs({"loss_alpha": samples.reduced(terms.loss_alpha)})

    def alpha_loss(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        self, tensordict: TensorDictBase
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The term `loss_alpha`, reduced, and the metrics that are computed with it: none.

        Raises:
            KeyError: if something that they read is missing.
        """
        return term_alone(self, "loss_alpha", tensordict)

    def get_wide(self, log_prob: Tensor) -> Tensor:
        """`wide` of each sample.

        Args:
            log_prob: `gap`, float32 [*batch].
        """
        return heir_get_wide(log_prob)

    if TYPE_CHECKING:

        @property
        def tensor_keys(self) -> HeirLoss._AcceptedKeys: ...
        def set_keys(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
            self, *, action: NestedKey | None = ..., target: NestedKey | None = ...
        ) -> None: ...
        @overload
        def __call__(self, tensordict: TensorDictBase, /) -> HeirLossOutput: ...
        @overload
        def __call__(self, **inputs: Tensor) -> Tensor: ...
        def __call__(self, *args: Any, **inputs: Any) -> Any: ...  # pyright: ignore[reportIncompatibleMethodOverride]


# ...


class OtherLoss(RightLoss):
    """The loss `OtherLoss`.

    `loss_alpha` trains `log_alpha`.

    Keys, by the name that `set_keys` takes:
        action: action
    """

    default_value_estimator = None
    supported_value_estimators = None
    value_role = "value"
    trained: ClassVar[Mapping[str, Sequence[str]]] = {"loss_alpha": ("log_alpha",)}
    ranges: ClassVar[Mapping[str, NumberRange]] = {}
    reads_next = False
    out_keys: ClassVar[list[str]] = ["loss_alpha"]
    parts: ClassVar[Mapping[str, LossPart]] = {}

    actor_network: TensorDictModuleBase
    actor_network_params: TensorDictParams
    log_alpha: Tensor

    def __init__(
        self, actor_network: nn.Module, *, reduction: Reduction | None = None,
        use_prioritized_weights: Literal["auto"] | bool = "auto", functional: bool = True,
        device: torch.device | str | int | None = None,
    ) -> None:
        """The loss `OtherLoss`.

        Args:
            actor_network: gives the distribution of `action`.
            reduction: of the samples, "mean", "sum" or "none", which keeps one value per sample. Defaults
                to "mean".
            use_prioritized_weights: weight the samples by their importance: True, False, or "auto", if the
                data hold weights.
            functional: whether the loss takes the parameters of its networks. Defaults to True; otherwise
                they are ordinary children, without targets.
            device: of the buffers of the loss itself. Defaults to None: that of the parameters.

        Raises:
            TypeError: if a network is not a module, or a policy gives no distribution.
            ValueError: if a keyword has a value that it does not take, or they contradict each other.
        """
        LossModule.__init__(self, functional=functional)
        self.reduction = reduction
        self.use_prioritized_weights = use_prioritized_weights
        self.convert_to_functional(
            as_policy(actor_network, "actor_network", type(self).__name__, reparameterized=True),
            "actor_network",
            create_target_params=False,
        )
        add_learnable(self, "log_alpha", 0.0)
        self._place_buffers(device)

    @property
    def alpha(self) -> Tensor:
        """The exponential of `log_alpha`, without gradients."""
        return exponential_of(self, "log_alpha")

    def _is_returned(self, name: str) -> bool:
        return True

    @property
    def in_keys(self) -> list[NestedKey]:
        """What the loss reads; what its keywords are called when it is called with tensors."""
        return [
            *self._network_in_keys,
        ]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        actor_network = self.functional_network("actor_network")
        # losses.OtherLoss.let
        with torch.no_grad():
            dist = actor_network.dist("live", tensordict)
            _, dist_rsample_log_prob = dist.rsample_and_log_prob()
        terms = other_loss(dist_rsample_log_prob, log_alpha=self.log_alpha)
        samples = self._samples(tensordict)
        return self._outputs({"loss_alpha": samples.reduced(terms.loss_alpha)})

    def alpha_loss(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, gap: Tensor
    ) -> Tensor:
        """The term `loss_alpha` of each sample, before the reduction.

        Args:
            gap: `gap`, float32 [*batch].
        """
        return other_alpha_loss(gap, log_alpha=self.log_alpha)

    def get_wide(self, log_prob: Tensor) -> Tensor:
        """`wide` of each sample.

        Args:
            log_prob: `gap`, float32 [*batch].
        """
        return other_get_wide(log_prob)

    if TYPE_CHECKING:

        @overload
        def __call__(self, tensordict: TensorDictBase, /) -> OtherLossOutput: ...
        @overload
        def __call__(self, **inputs: Tensor) -> Tensor: ...
        def __call__(self, *args: Any, **inputs: Any) -> Any: ...  # pyright: ignore[reportIncompatibleMethodOverride]


# ...
