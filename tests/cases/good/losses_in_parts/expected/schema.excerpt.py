# ...


class ControlActorTerms(NamedTuple):
    """`loss_actor`, `entropy` and `weight_of_each` of `ControlLoss`, one value per sample."""

    loss_actor: Tensor
    """[*batch], before the reduction"""
    entropy: Tensor
    """to be logged"""
    weight_of_each: Tensor
    """float32 [*batch]"""


def control_actor(
    new_action: Tensor, new_action_log_prob: Tensor, action: Tensor, weight: Tensor
) -> ControlActorTerms:
    """`loss_actor`, `entropy` and `weight_of_each` of `ControlLoss`, one value per sample.

    Args:
        new_action: float32 [*batch, a], from `actor_network`.
        new_action_log_prob: float32 [*batch], from `actor_network`.
        action: float32 [*batch, a].
        weight: float32 [*batch, 1].
    """
    # losses.ControlLoss.let
    scale = 0.5 * weight
    # losses.ControlLoss.terms
    loss_actor = scale.squeeze(-1) * ((new_action - action) ** 2).sum(dim=-1)
    # losses.ControlLoss.metrics
    with torch.no_grad():
        entropy = -new_action_log_prob
        weight_of_each = weight.detach().squeeze(-1)
    return ControlActorTerms(loss_actor=loss_actor, entropy=entropy, weight_of_each=weight_of_each)


# ...


def control_value(
    v: Tensor, value_network_target_next: Tensor, weight: Tensor, value_estimate: Callable[[Tensor], Tensor],
    *, coeff: float, logged: bool,
) -> ControlValueTerms:
    """`loss_value` and `error` of `ControlLoss`, one value per sample.

    Args:
        v: float32 [*batch], from `value_network`.
        value_network_target_next: float32 [*batch], from `value_network`.
        weight: float32 [*batch, 1].
        value_estimate: from the value of the next state, [*batch], to the target, [*batch].
        coeff: float.
        logged: bool.
    """
    # losses.ControlLoss.let
    scale = 0.5 * weight
    with torch.no_grad():
        goal = value_estimate(value_network_target_next).detach()
    # losses.ControlLoss.terms
    loss_value = (coeff * scale).squeeze(-1) * (v - goal) ** 2
    # losses.ControlLoss.metrics
    with torch.no_grad():
        error = v - goal if logged else None
    return ControlValueTerms(loss_value=loss_value, error=error)


class ControlLoss(LossModule):
    # ...

    @property
    def in_keys(self) -> list[NestedKey]:
        """What the loss reads; what its keywords are called when it is called with tensors."""
        keys = self.tensor_keys
        return [
            *self._network_in_keys,
            *([keys.action] if self._wants("actor") else []),
            keys.weight,
            *(
                [next_key(keys.reward), next_key(keys.done), next_key(keys.terminated)]
                if self._wants("value")
                else []
            ),
        ]

    # ...

    def _control_value_terms(self, tensordict: TensorDictBase) -> ControlValueTerms:
        """`loss_value` and `error` of `ControlLoss`, one value per sample."""
        keys = self.tensor_keys
        next_tensordict = self._next(tensordict)
        value_network = self.functional_network("value_network")
        # losses.ControlLoss.let
        v = value_network.live(tensordict, keys.state_value).squeeze(-1)
        with torch.no_grad():
            value_network_target_next = value_network.target(next_tensordict, keys.state_value).squeeze(-1)
        return control_value(
            v, value_network_target_next, self._read_column(tensordict, keys.weight, "weight"),
            self._value_estimate(tensordict), coeff=not_none(self.coeff), logged=self.logged,
        )

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        samples = self._samples(tensordict)
        outputs: dict[str, Tensor] = {}
        if self._wants("actor"):
            actor_terms = self._control_actor_terms(tensordict)
            outputs["loss_actor"] = samples.reduced(actor_terms.loss_actor)
            outputs["entropy"] = samples.mean(actor_terms.entropy)
            outputs["weight_of_each"] = actor_terms.weight_of_each
        if self._wants("value"):
            value_terms = self._control_value_terms(tensordict)
            outputs["loss_value"] = samples.reduced(value_terms.loss_value)
            if value_terms.error is not None:
                outputs["error"] = samples.mean(value_terms.error)
        return self._outputs(outputs)

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """The term `loss_actor`, reduced, and the metrics that are computed with it: `entropy`,
        `weight_of_each`.

        Raises:
            KeyError: if something that they read is missing.
        """
        return term_alone(self, "loss_actor", tensordict)

    def value_loss(self, tensordict: TensorDictBase) -> tuple[Tensor, dict[str, Tensor]]:
        """The term `loss_value`, reduced, and the metrics that are computed with it: `error`.

        Raises:
            KeyError: if something that they read is missing.
            ValueError: if the parameters of the loss leave the term out.
        """
        return term_alone(self, "loss_value", tensordict)

    # ...


# ...
