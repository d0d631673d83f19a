# ...


class CriticLoss(LossModule):
    # ...

    @property
    def in_keys(self) -> list[NestedKey]:
        """What the loss reads; what its keywords are called when it is called with tensors."""
        keys = self.tensor_keys
        return [*self._network_in_keys, next_key(keys.reward), next_key(keys.done), next_key(keys.terminated)]

    def _further_keys(self) -> list[NestedKey]:
        keys = self.tensor_keys
        return [
            *([keys.advantage] if self._wants("actor") else []),
            *([keys.value_target] if self._wants("critic") else []),
            *([keys.weight] if self._wants("actor") else []),
        ]

    # ...

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch, and write `priority` into it.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        keys = self.tensor_keys
        given = tensordict
        tensordict = self._with_estimates(
            tensordict,
            [
                *([keys.advantage] if self._wants("actor") else []),
                *([keys.value_target] if self._wants("critic") else []),
            ],
        )
        samples = self._samples(tensordict)
        outputs: dict[str, Tensor] = {}
        if self._wants("actor"):
            actor_terms = self._critic_actor_terms(tensordict)
            self._write(given, keys.priority, actor_terms.priority)
            outputs["loss_actor"] = samples.reduced(actor_terms.loss_actor)
        if self._wants("critic"):
            critic_terms = self._critic_critic_terms(tensordict)
            outputs["loss_critic"] = samples.reduced(critic_terms.loss_critic)
        return self._outputs(outputs)

    # ...


# ...
