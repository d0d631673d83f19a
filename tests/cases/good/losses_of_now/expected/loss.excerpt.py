# ...


class RewardLoss(LossModule):
    # ...

    @property
    def in_keys(self) -> list[NestedKey]:
        """What the loss reads; what its keywords are called when it is called with tensors."""
        keys = self.tensor_keys
        return [*self._network_in_keys, next_key(keys.reward)]

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        keys = self.tensor_keys
        next_tensordict = self._next(tensordict)
        model = self.functional_network("model")
        # losses.RewardLoss.terms
        model_now = model.live(tensordict, keys.predicted_reward).squeeze(-1)
        terms = reward_loss(model_now, self._read_signal(next_tensordict, keys.reward, "reward"))
        samples = self._samples(tensordict)
        return self._outputs({"loss": samples.reduced(terms.loss)})

    # ...


# ...
