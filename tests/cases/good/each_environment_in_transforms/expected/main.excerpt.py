# ...


def push_inverse(gain: Tensor, wind: Tensor, flip: Tensor, u_rank: int, v: Tensor) -> Tensor:
    """`u`, as the environment takes it.

    Args:
        gain: what actions are multiplied by.
        wind: what is added.
        flip: whether they change their sign.
        u_rank: how many dimensions `u` has, without the batch's.
        v: floats [*batch, ...].
    """
    # transforms.Push.inverse
    turned = torch.where(flip[(..., *(None,) * u_rank)], -v, v)
    return torch.clamp(gain[(..., *(None,) * u_rank)] * turned + wind[(..., *(None,) * u_rank)], -2.0, 2.0)


class Push(GeneratedTransform[tuple[NestedKey, ...], PushInverseKeys]):
    # ...

    def _inverse_map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        outer_tensordict = self._as_taken(tensordict)
        for key in self.keys_inv:
            if tolerant and self._lacks(outer_tensordict, key.v):
                continue
            v = self._require(outer_tensordict, key.v)
            u = push_inverse(
                self._for_rows("gain", tensordict.batch_size, v.dtype),
                self._for_rows("wind", tensordict.batch_size, v.dtype),
                self._for_rows("flip", tensordict.batch_size), self._inner_rank(key.u), v,
            )
            self._write(tensordict, key.u, u)
        return tensordict

    def _outer_specs(self, key: PushInverseKeys) -> dict[NestedKey, TensorSpec]:
        specs: dict[NestedKey, TensorSpec] = {}
        specs[key.v] = self._outer_spec(key.u, key.v, "interval")
        return specs


# ...


def returns_offline(gamma: Tensor, reward_rank: int, next_reward: Tensor, ends: Tensor) -> Tensor:
    """`togo` of all moments, computed from the last to the first.

    Args:
        gamma: what later rewards count.
        reward_rank: how many dimensions `reward` has, without the batch's.
        next_reward: floats [time, *batch, ...], under `next`.
        ends: bool [time, *batch, ...], where an episode ends.
    """
    # transforms.Returns.offline
    previous_togo = torch.zeros_like(next_reward[0])
    togo = torch.empty_like(next_reward)
    for t in reversed(range(next_reward.shape[0])):
        acc_togo = torch.where(ends[t], 0.0, previous_togo)
        previous_togo = next_reward[t] + gamma[(..., *(None,) * reward_rank)] * acc_togo
        togo[t] = previous_togo
    return togo


class Returns(RecursionTransform[ReturnsKeys]):
    # ...

    def _recur(self, recorded: RecordedTimes, key: ReturnsKeys) -> Mapping[str, Tensor]:
        made: dict[str, Tensor] = {}
        next_reward = recorded.following(key.reward)
        togo = returns_offline(
            self._for_rows("gamma", recorded.rows, next_reward.dtype), self._rank(key.reward), next_reward,
            recorded.restarts(key.reward, next_reward),
        )
        made["togo"] = togo
        return made
