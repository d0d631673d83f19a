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
