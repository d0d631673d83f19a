# ...


def world_loss(
    state_mean: Tensor, state_std: Tensor, now_or_then_std: Tensor, state_reward_pred: Tensor | None,
    later_mean: Tensor, world_now_of_action_std: Callable[[Tensor], Tensor], target: Tensor,
    other: Tensor | None, action: Tensor, *, rewards: bool,
) -> WorldLossTerms:
    """The terms of `WorldLoss`, one value per sample.

    Args:
        state_mean: float32 [*batch, a], from `world`.
        state_std: float32 [*batch, a], from `world`.
        now_or_then_std: float32 [*batch, a], from `world`.
        state_reward_pred: float32 [*batch], from `world`; needed where rewards.
        later_mean: float32 [*batch, a], from `world`.
        world_now_of_action_std: `action` to float32 [*batch, a], from `world`.
        target: float32 [*batch, a].
        other: float32 [*batch, 1]; needed where rewards.
        action: float32 [*batch, b].
        rewards: bool.
    """
    # losses.WorldLoss.terms
    loss_model = (((target - state_mean) / state_std) ** 2).sum(dim=-1) + torch.log(now_or_then_std).sum(
        dim=-1
    )
    loss_reward = (not_none(state_reward_pred) - not_none(other).squeeze(-1)) ** 2 if rewards else None
    loss_later = ((state_mean - later_mean) ** 2).sum(dim=-1) + world_now_of_action_std(2.0 * action).sum(
        dim=-1
    )
    return WorldLossTerms(loss_model=loss_model, loss_reward=loss_reward, loss_later=loss_later)


class WorldLoss(LossModule):
    # ...

    @dataclass
    class _AcceptedKeys(LossModule._AcceptedKeys):  # pyright: ignore[reportPrivateUsage]
        mean: NestedKey = ("model", "mean")
        target: NestedKey = "target"
        other: NestedKey = "other"
        action: NestedKey = "action"
        std: NestedKey = "std"
        reward_pred: NestedKey = "reward_pred"

    # ...

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the loss of a batch.

        Raises:
            KeyError: if something that the loss reads is missing.
        """
        keys = self.tensor_keys
        next_tensordict = self._next(tensordict)
        world = self.functional_network("world")
        # losses.WorldLoss.let
        state = world.outputs("live", tensordict)
        now_or_then = world.outputs("target", tensordict) if self.steady else state
        later = world.outputs(
            "frozen", next_tensordict, {keys.action: self._read(tensordict, keys.action, "action")}
        )
        # losses.WorldLoss.terms
        state_mean = state[keys.mean]
        state_std = state[keys.std]
        now_or_then_std = now_or_then[keys.std]
        state_reward_pred = state[keys.reward_pred].squeeze(-1) if self.rewards else None
        later_mean = later[keys.mean]
        terms = world_loss(
            state_mean, state_std, now_or_then_std, state_reward_pred, later_mean,
            lambda action: world.outputs("live", tensordict, {keys.action: action})[keys.std],
            self._read(tensordict, keys.target, "target"),
            self._read_column(tensordict, keys.other, "other") if self.rewards else None,
            self._read(tensordict, keys.action, "action"), rewards=self.rewards,
        )
        samples = self._samples(tensordict)
        outputs = {
            "loss_model": samples.reduced(terms.loss_model),
            "loss_later": samples.reduced(terms.loss_later),
        }
        if terms.loss_reward is not None:
            outputs["loss_reward"] = samples.reduced(terms.loss_reward)
        return self._outputs(outputs)

    # ...


# ...
