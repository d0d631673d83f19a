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
        return [keys.advantage, *([keys.value_target] if self.critic_coeff else []), keys.weight]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch, and write `priority` into it.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        keys = self.tensor_keys
        given = tensordict
        tensordict = self._with_estimates(
            tensordict, [keys.advantage, *([keys.value_target] if self.critic_coeff else [])]
        )
        actor_network = self.functional_network("actor_network")
        critic_network = self.functional_network("critic_network")
        # losses.CriticLoss.terms
        actor_network_now = actor_network.live(tensordict, keys.log_prob).squeeze(-1)
        critic_network_now = (
            critic_network.live(tensordict, keys.value).squeeze(-1) if self.critic_coeff else None
        )
        terms = critic_loss(
            actor_network_now, critic_network_now, self._read(tensordict, keys.advantage, "advantage"),
            self._read(tensordict, keys.value_target, "value_target") if self.critic_coeff else None,
            self._read_or(tensordict, keys.weight, 1.0, (1,), torch.float32), critic_coeff=self.critic_coeff,
        )
        self._write(given, keys.priority, terms.priority)
        outputs = {
            "loss_actor": self._reduce_loss(terms.loss_actor, tensordict),
        }
        if terms.loss_critic is not None:
            outputs["loss_critic"] = self._reduce_loss(terms.loss_critic, tensordict)
        return TensorDict(outputs)

    # ...


# ...
